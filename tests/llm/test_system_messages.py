"""System messages behind the first user message, hidden later where the model can do that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lamella.core import deltas
from lamella.core.messages import Reasoning, Text
from lamella.core.ports import ChatModel
from lamella.core.prompt import Prompt, Sampling, Segment, WireRequest, Zone
from lamella.llm.anthropic import CLEAR_AT_BETA, AnthropicModel

from .prompts import prompt, segment
from .provider import SEARCH, VENDORS, Json, Provider, connected, listen
from .raw_server import answering, events, http

pytestmark = pytest.mark.anyio
BOUND = "claude-opus-5-5"
SYSTEM = segment("s", "system", Text("Be brief."), zone=Zone.FIXED)
ASKED = segment("u", "user", Text("Hello?"))
REMINDER = segment("r", "system", Text("Answer in French."), zone=Zone.TRAILING)


def request_of(model: object, made: Prompt) -> WireRequest:
    assert isinstance(model, AnthropicModel)
    return model.request(made, model.wire(made).blocks, [])


def hiding(model: ChatModel) -> ChatModel:
    """The adapter of a model that hides such messages; the table has none yet."""
    model.facts = replace(model.facts, clears_system_messages=True)
    return model


def body_of(name: str, *segments: Segment) -> Json:
    model = hiding(connected("anthropic", "http://127.0.0.1:1", name))
    return model.body(request_of(model, prompt(name, *segments)))


def test_a_late_system_message_says_how_long_it_is_shown() -> None:
    body = body_of(BOUND, SYSTEM, ASKED, REMINDER)
    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    assert body["messages"][1] == {
        "role": "system",
        "clear_at": "next_user_message",
        "content": [{"type": "text", "text": "Answer in French."}],
    }
    assert "system_clear_at" not in body
    assert "clear_at" not in body["messages"][0]


def test_two_of_them_become_one() -> None:
    """The API refuses system messages that stand side by side."""
    body = body_of(BOUND, SYSTEM, ASKED, REMINDER, replace(REMINDER, id="r2"))
    assert [message["role"] for message in body["messages"]] == ["user", "system"]
    assert len(body["messages"][1]["content"]) == 2


def test_a_model_that_cannot_hide_it_is_not_asked_to() -> None:
    model = connected("anthropic", "http://127.0.0.1:1", BOUND)
    body = model.body(request_of(model, prompt(BOUND, SYSTEM, ASKED, REMINDER)))
    assert body["messages"][1] == {"role": "system", "content": [{"type": "text", "text": "Answer in French."}]}  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "drop", "late", "betas"),
    [
        (BOUND, False, False, set()),
        (BOUND, False, True, {CLEAR_AT_BETA}),
        (BOUND, True, False, {"thinking-binding-controls-2026-08-01"}),
        (BOUND, True, True, {CLEAR_AT_BETA, "thinking-binding-controls-2026-08-01"}),
    ],
)
async def test_the_header_is_sent_where_it_is_needed(name: str, drop: bool, late: bool, betas: set[str]) -> None:
    received: list[bytes] = []
    async with answering(http(500, b"null"), received) as url:
        model = hiding(connected("anthropic", url, name))
        segments = (SYSTEM, ASKED, REMINDER) if late else (SYSTEM, ASKED)
        made = prompt(name, *segments, sampling=Sampling(4_000, drop_unbound_thinking=drop))
        await listen(model, request_of(model, made))
        await model.close()
    sent = [line.partition(b": ")[2] for line in received[0].split(b"\r\n") if line.startswith(b"anthropic-beta")]
    assert {beta.decode() for line in sent for beta in line.split(b",")} == betas


@pytest.mark.parametrize("name", [BOUND, "claude-opus-5", "claude-opus-4-8", "claude-haiku-5-5", "claude-fable-5-1"])
async def test_the_provider_takes_it_and_hides_it_later(provider: Provider, name: str) -> None:
    """Sent unchanged it stays valid for the thinking behind it, and costs nothing once it is hidden."""
    provider.script(r={"text": "Bonjour.", "reasoning": "In French."})
    model = hiding(provider.model("anthropic", name))
    effort = Sampling(4_000, "low")
    first = await listen(model, request_of(model, prompt(name, SYSTEM, ASKED, REMINDER, sampling=effort)), reply="r")
    assert first.error is None
    seal = first.of(deltas.ReasoningSealed)[0].signature
    told = segment("a", "assistant", Reasoning(first.text(deltas.ReasoningDelta), seal), Text(first.text()))
    later = (told, segment("u2", "user", Text("And now?")))
    with_it = request_of(model, prompt(name, SYSTEM, ASKED, REMINDER, *later, sampling=effort))
    without = request_of(
        model, prompt(name, SYSTEM, ASKED, segment("a", "assistant", Text(first.text())), later[1], sampling=effort)
    )
    second = await listen(model, with_it, reply="r")
    assert second.error is None
    assert await model.count(with_it) - await model.count(without) == first.usage.reasoning


@pytest.mark.parametrize(
    ("vendor", "field", "role"), [("openai", "messages", "system"), ("responses", "input", "developer")]
)
async def test_openai_takes_system_messages_anywhere(provider: Provider, vendor: str, field: str, role: str) -> None:
    provider.script(r={"text": "ok"})
    model = provider.model(vendor)
    made = prompt(model.facts.name, SYSTEM, ASKED, REMINDER)
    request = model.request(made, model.wire(made).blocks, [])
    body: Json = model.body(request)
    assert [message["role"] for message in body[field]] == [role, "user", role]
    assert (await listen(model, request, reply="r")).error is None


async def test_dropped_thinking_is_told(provider: Provider) -> None:
    provider.script(r={"text": "ok", "reasoning": "hm"})
    model = provider.model("anthropic", BOUND)
    dropping = Sampling(4_000, drop_unbound_thinking=True)
    first = await listen(model, request_of(model, prompt(BOUND, SYSTEM, ASKED, sampling=dropping)), reply="r")
    assert first.of(deltas.ThinkingDropped) == []
    seal = first.of(deltas.ReasoningSealed)[0].signature
    told = segment("a", "assistant", Reasoning("hm", seal), Text("ok"))
    more = segment("u2", "user", Text("And now?"))
    same = await listen(
        model, request_of(model, prompt(BOUND, SYSTEM, ASKED, told, more, sampling=dropping)), reply="r"
    )
    assert same.of(deltas.ThinkingDropped) == []
    other = segment("u", "user", Text("Good evening?"))
    changed = await listen(
        model, request_of(model, prompt(BOUND, SYSTEM, other, told, more, sampling=dropping)), reply="r"
    )
    assert changed.error is None
    assert changed.of(deltas.ThinkingDropped) == [deltas.ThinkingDropped(1)]


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        ('[{"type":"thinking_dropped"},{"type":"thinking_mismatch_allowed"},{"type":"thinking_dropped"}]', 2),
        ('[{"type":"of_next_year"},null,5]', 0),
        ('"all"', 0),
        ("null", 0),
    ],
)
async def test_only_dropped_thinking_counts(listed: str, count: int) -> None:
    start = f'{{"type":"message_start","message":{{"usage":{{}},"input_transformations":{listed}}}}}'
    end = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}'
    async with answering(events(start, end)) as url:
        model = connected("anthropic", url, BOUND)
        heard = await listen(model, request_of(model, prompt(BOUND, ASKED)))
        await model.close()
    assert heard.error is None
    assert [dropped.count for dropped in heard.of(deltas.ThinkingDropped)] == ([count] if count else [])


CHOICES: Mapping[str, Mapping[str, object]] = {
    "anthropic": {"none": {"type": "none"}, "required": {"type": "any"}, "function f": {"type": "tool", "name": "f"}},
    "openai": {
        "none": "none",
        "required": "required",
        "function f": {"type": "function", "function": {"name": "f"}},
    },
    "responses": {"none": "none", "required": "required", "function f": {"type": "function", "name": "f"}},
}


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_must_be_called_is_said_where_there_are_tools(vendor: str) -> None:
    model = connected(vendor, "http://127.0.0.1:1")
    tools = segment("t", "user", tools=(SEARCH,), zone=Zone.FIXED)
    for tool_choice, segments, sent in (
        ("auto", (tools, ASKED), None),
        *((choice, (tools, ASKED), said) for choice, said in CHOICES[vendor].items()),
        ("none", (ASKED,), None),
        ("required", (ASKED,), None),
    ):
        made = prompt(model.facts.name, *segments, sampling=Sampling(4_000, tool_choice=tool_choice))
        assert model.body(model.request(made, model.wire(made).blocks, [])).get("tool_choice") == sent


@pytest.mark.parametrize("vendor", VENDORS)
def test_how_to_answer_is_said_and_what_changes_the_cache_is_in_its_key(vendor: str) -> None:
    model = connected(vendor, "http://127.0.0.1:1")
    tools = segment("t", "user", tools=(SEARCH,), zone=Zone.FIXED)
    plain = Sampling(4_000)
    schema = '{"name":"sky","schema":{"type":"object"},"strict":true}'
    asked = replace(plain, temperature=0.5, top_p=0.9, parallel_calls=False, schema=schema)
    made = prompt(model.facts.name, tools, ASKED, sampling=asked)
    body = model.body(model.request(made, model.wire(made).blocks, []))
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
    match vendor:
        case "anthropic":
            assert body["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}
            assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
        case "openai":
            said = {"name": "sky", "schema": {"type": "object"}, "strict": True}
            assert body["response_format"] == {"type": "json_schema", "json_schema": said}
            assert body["parallel_tool_calls"] is False
        case _:
            said = {"name": "sky", "schema": {"type": "object"}, "strict": True}
            assert body["text"] == {"format": {"type": "json_schema", **said}}
            assert body["parallel_tool_calls"] is False
    salts = model.salts(plain)
    assert model.salts(replace(plain, temperature=0.5, top_p=0.9)) == salts
    assert model.salts(replace(plain, schema=schema)) != salts
    assert model.salts(replace(plain, parallel_calls=False)) != salts
    assert (model.salts(replace(plain, tool_choice="required")) != salts) is (vendor == "anthropic")
