"""Settings as a deployment gives them: each does something that can be seen in what is sent, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from lamella.app.app import open_app
from lamella.cache.pruning import PRUNE_THRESHOLD as PRUNE_THRESHOLD
from lamella.core.errors import ConfigurationError
from lamella.core.json import decode_object
from lamella.settings import read_settings, unknown_variables

from .stage import Playback, staged

pytestmark = pytest.mark.anyio

LONG = "The tide turns twice a day, and the harbour with it. " * 300


def marks(body: Any) -> list[str]:
    """The lives of what a request marks."""
    blocks = [
        *body.get("tools", ()),
        *body["system"],
        *(part for message in body["messages"] for part in message["content"]),
    ]
    return [block["cache_control"]["ttl"] for block in blocks if "cache_control" in block]


async def two_turns(stage: Playback) -> list[Any]:
    """The bills of two turns over a long system prompt."""
    await stage.client.post("/system-prompts", {"text": LONG})
    conversation = await stage.client.conversation()
    found = []
    for question in ("Hello?", "And?"):
        packets = await stage.turn(conversation, question, {"text": "Yes."})
        [request] = (await stage.client.get(f"/turns/{packets[0]['turn_id']}/requests"))["data"]
        assert request["predicted"]["read"] == request["usage"]["cache_read"]
        found.append(request["usage"])
    return found


@pytest.mark.parametrize(("ttl", "life"), [(None, "5m"), ("5m", "5m"), ("1h", "1h")])
async def test_the_life_of_what_is_marked(provider: str, tmp_path: Path, ttl: str | None, life: str) -> None:
    """A life that was set holds in every request; unset, the first is written for the shortest."""
    async with staged(provider, tmp_path, cache_ttl=ttl) as stage:
        first, second = await two_turns(stage)
        seen = await stage.seen()
        lives = [set(marks(one["body"])) for one in seen]
        assert lives[0] == {life}
        assert ttl is None or lives == [{life}, {life}]
        assert second["cache_read"] == first["cache_write"] > 0
        created = seen[0]["usage"]["cache_creation"]
        assert created[f"ephemeral_{life}_input_tokens"] == first["cache_write"]


async def test_without_caching_nothing_is_marked_written_or_read(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, cache_enabled=False) as stage:
        bills = await two_turns(stage)
        assert [marks(seen["body"]) for seen in await stage.seen()] == [[], []]
        assert [(bill["cache_read"], bill["cache_write"]) for bill in bills] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("on", [False, True])
async def test_the_bodies_of_requests_are_logged_as_they_are_sent(provider: str, tmp_path: Path, on: bool) -> None:
    async with staged(provider, tmp_path, log_llm_requests=on) as stage:
        with structlog.testing.capture_logs() as lines:
            conversation = await stage.client.conversation()
            packets = await stage.turn(conversation, "Grüße 🦎", {"text": "Yes."})
        bodies = [line["body"] for line in lines if line["event"] == "LLM_REQUEST"]
        assert len(bodies) == int(on)
        answers = [line for line in lines if line["event"] == "LLM_RESPONSE"]
        assert [(line["text"], line["stop_reason"]) for line in answers] == [("Yes.", "end_turn")] * int(on)
        for body in bodies:
            [seen] = await stage.seen()
            assert decode_object(body) == seen["body"]
            request_id = next(packet["request_id"] for packet in packets if packet["type"] == "request.started")
            assert json.loads((await stage.client.call("GET", f"/requests/{request_id}/raw")).content) == json.loads(
                body
            )
            assert str(stage.app.settings.anthropic_api_key.get_secret_value()) not in str(lines)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("LAMELLA_CACHE_TTL", "10m", "'5m' or '1h'"),
        ("LAMELLA_CACHE_ENABLED", "maybe", "boolean"),
        ("LAMELLA_CONTEXT_BUDGET", "80%", "no number of tokens such as 120000, 120_000 or 120k"),
        ("LAMELLA_CONTEXT_BUDGET", "900", "greater than or equal to 1000"),
        ("LAMELLA_COMPACTION_THRESHOLD", "80", "could be a share or tokens: write 80%"),
        ("LAMELLA_RESUME_TOKEN_BUDGET", "0.7", "could be a share or tokens"),
        ("LAMELLA_TOOL_PRUNE_THRESHOLD", "much", "no number of tokens"),
        ("LAMELLA_THINKING_EFFORT", "12", "off, low, medium, high or a number of tokens"),
        ("LAMELLA_LOG_LLM_REQUESTS", "2", "boolean"),
    ],
)
def test_what_can_not_be_used_is_named_with_what_can(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as raised:
        read_settings()
    assert raised.value.param == variable
    assert raised.value.message.startswith(f"{variable} can't be used: ")
    assert says in raised.value.message


def test_why_a_value_can_not_be_used_is_said_in_our_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CONTEXT_BUDGET", "12x")
    with pytest.raises(ConfigurationError) as raised:
        read_settings()
    assert raised.value.message == (
        "LAMELLA_CONTEXT_BUDGET can't be used: “12x” is no number of tokens such as 120000, 120_000 or 120k."
    )


async def test_what_is_set_and_does_nothing_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LAMELLA_COMPACTON_THRESHOLD", "70%")
    monkeypatch.setenv("LAMELLA_X", "1")
    assert unknown_variables() == {"LAMELLA_COMPACTON_THRESHOLD": "LAMELLA_COMPACTION_THRESHOLD", "LAMELLA_X": None}
    with structlog.testing.capture_logs() as lines:
        async with open_app(read_settings(data=tmp_path, model="claude-opus-5")):
            pass
    told = [(line["variable"], line["nearest"]) for line in lines if line["event"] == "this variable is no setting"]
    assert told == list(unknown_variables().items())
    [not_asked] = [line for line in lines if line.get("model") == "claude-opus-5"]
    assert (not_asked["log_level"], not_asked["answers"]) == ("warning", "lamella-demo")


async def test_names_of_before_are_said_at_the_start_with_those_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name alone: a key that is left over is nobody's to read in the log."""
    kept = (
        *("KEEP_RECENT_TOKENS", "TOOL_PRUNE_THRESHOLD", "TOOL_KEEP_THRESHOLD", "COMPACTION_THRESHOLD"),
        *("COMPACTION_NOTIFY", "TOOL_SUMMARIZATION_POLICY", "RESUME_TOKEN_BUDGET", "COMPACTION_PROVIDER"),
        *("COMPACTION_API_KEY", "COMPACTION_MODEL"),
    )
    vendors = ("CACHE_TTL", "CACHE_ENABLED", "THINKING_EFFORT")
    wanted: dict[str, str | None] = {f"LIS_{name}": f"LAMELLA_{name}" for name in kept}
    wanted |= {f"ANTHROPIC_{name}": f"LAMELLA_{name}" for name in vendors}
    wanted |= {"LIS_DEBOUNCE": "LAMELLA_DEBOUNCE_MS", "LIS_QQQ": None}
    for name in wanted:
        monkeypatch.setenv(name, "secret")
    with structlog.testing.capture_logs() as lines:
        async with open_app(read_settings(data=tmp_path)):
            pass
    told = {line["variable"]: line["now"] for line in lines if "is not read" in line["event"]}
    assert told == wanted
    assert "secret" not in str(lines)


def test_the_defaults_are_those_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings()
    assert (settings.keep_recent_tokens, PRUNE_THRESHOLD, settings.tool_keep_threshold) == (4_000, 8_000, 2_000)
    assert (settings.tool_prune_threshold, settings.tool_prune_when) == (None, "pays")
    assert (settings.compaction_when, settings.compaction_floor) == ("balanced", None)
    assert (str(settings.compaction_threshold), str(settings.resume_token_budget)) == ("80%", "70%")
    assert (settings.compaction_notify, settings.cache_enabled, settings.thinking_effort) == (True, True, "off")
    monkeypatch.setenv("LAMELLA_CONTEXT_BUDGET", "120k")
    monkeypatch.setenv("LAMELLA_COMPACTION_THRESHOLD", "90_000")
    changed = read_settings()
    assert (changed.context_budget, changed.compaction_threshold.tokens) == (120_000, 90_000)
