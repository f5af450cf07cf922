"""Diagnostics of a missed cache, in the words of either vendor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, assistant, tokens, user

pytestmark = pytest.mark.anyio
TOOL: Json = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
HEAD: Json = {"system": tokens(500), "tools": [TOOL]}
TALK = [user(tokens(1_000)), assistant("Yes."), user("more")]


async def asked(provider: InProcess, body: Json, previous: str | None, key: str = "test") -> Json:
    answer = await provider.messages({**body, "diagnostics": {"previous_message_id": previous}}, key=key)
    assert answer.status == 200, answer.text
    return dict(answer.json)


@pytest.mark.parametrize(
    ("change", "reason", "missed"),
    [
        ({}, None, None),
        ({"messages": [*TALK, assistant("ok"), user("and more")]}, None, None),
        ({"model": "claude-opus-4-8"}, "model_changed", 1_800),
        ({"speed": "fast"}, "model_changed", 1_800),
        ({"tools": [{**TOOL, "description": "Looks."}]}, "tools_changed", 1_800),
        ({"system": tokens(500, "blue")}, "system_changed", 1_500),
        ({"messages": [*TALK[:2], user("less"), assistant("ok"), user("and more")]}, "messages_changed", 1),
        ({"messages": TALK[:1]}, "messages_changed", 2),
        ({"tool_choice": {"type": "none"}}, "unavailable", None),
    ],
)
async def test_claude_names_what_changed(
    provider: InProcess, change: Json, reason: str | None, missed: int | None
) -> None:
    first = (await provider.messages({**HEAD, "messages": TALK})).json
    told = (await asked(provider, {**HEAD, "messages": TALK, **change}, first["id"]))["diagnostics"]
    if reason is None:
        assert told is None
        return
    assert told["cache_miss_reason"]["type"] == reason
    if missed is not None:
        assert told["cache_miss_reason"]["cache_missed_input_tokens"] == pytest.approx(missed, rel=0.05, abs=3)


async def test_claude_on_a_first_turn_and_for_an_answer_it_does_not_know(provider: InProcess) -> None:
    first = await asked(provider, {"messages": TALK}, None)
    assert first["diagnostics"] is None
    for previous, key in (("msg_of_somebody", "test"), (first["id"], "another account")):
        told = (await asked(provider, {"messages": TALK}, previous, key))["diagnostics"]
        assert told == {"cache_miss_reason": {"type": "previous_message_not_found"}}
    plain = (await provider.messages({"messages": TALK})).json
    assert "diagnostics" not in plain


async def test_claude_may_still_be_comparing() -> None:
    provider = InProcess(replace(EXACT, diagnostics_pending=True))
    first = await asked(provider, {"messages": TALK}, None)
    assert (await asked(provider, {"messages": TALK}, first["id"]))["diagnostics"] == {"cache_miss_reason": None}


async def test_in_a_stream_the_diagnosis_comes_first(provider: InProcess) -> None:
    first = await asked(provider, {"messages": TALK}, None)
    body = {"messages": [user("else")], "stream": True, "diagnostics": {"previous_message_id": first["id"]}}
    start = (await provider.messages(body)).events[0]
    assert start["message"]["diagnostics"]["cache_miss_reason"]["type"] == "messages_changed"


SAID: list[Json] = [{"role": "user", "content": tokens(2_000)}]


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        ({}, "cache_hit", None),
        ({"model": "gpt-6.1-sol"}, "cache_miss", "model_changed"),
        ({"prompt_cache_key": "b"}, "cache_miss", "prompt_cache_key_changed"),
        ({"tools": [{"type": "function", "name": "find"}]}, "cache_miss", "tools_changed"),
        ({"text": {"format": {"type": "json_object"}}}, "cache_miss", "text_format_changed"),
        ({"text": {"verbosity": "low"}}, "cache_miss", "verbosity_changed"),
        ({"reasoning": {"effort": "low"}}, "cache_miss", "reasoning_effort_changed"),
        ({"service_tier": "flex"}, "cache_miss", "service_tier_changed"),
        ({"input": [{"role": "user", "content": tokens(2_000, "blue")}]}, "cache_miss", "input_changed"),
        ({"parallel_tool_calls": False}, "unavailable", None),
    ],
)
async def test_gpt_names_what_changed(provider: InProcess, change: Json, kind: str, reason: str | None) -> None:
    first = (await provider.responses({"input": SAID})).json
    asks = {"prompt_cache_options": {"comparison_response_id": first["id"]}}
    told = (await provider.responses({"input": SAID, **asks, **change})).json["prompt_cache_diagnostics"]
    assert (told["type"], told.get("reason")) == (kind, reason)
    if reason is not None:
        assert (told["cache_missed_tokens"], told["comparison_reusable_tokens"]) == (2_000, 2_000)


async def test_gpt_knows_a_compaction_and_no_stranger(provider: InProcess) -> None:
    first = (await provider.responses({"input": SAID})).json
    compacted = (await provider.responses({"input": SAID}, path="/v1/responses/compact")).json["output"][-1:]
    asks = {"prompt_cache_options": {"comparison_response_id": first["id"]}}
    following = {"input": [*compacted, {"role": "user", "content": "next"}], **asks}
    assert (await provider.responses(following)).json["prompt_cache_diagnostics"]["reason"] == "context_compacted"
    stranger = {"prompt_cache_options": {"comparison_response_id": "resp_none"}}
    told = (await provider.responses({"input": SAID, **stranger})).json["prompt_cache_diagnostics"]
    assert told == {"type": "comparison_response_not_found"}
