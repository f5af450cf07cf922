"""Both vendors' streams become the same deltas: text, reasoning with its seal, parallel calls, usage, an end."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

import pytest

from lamella.context.input import ContextInput
from lamella.core import deltas
from lamella.core.json import decode_object
from lamella.core.messages import Reasoning, Step, StopReason, Text, ToolCall, ToolResult
from lamella.core.ports import ChatModel
from lamella.core.prompt import Marker, Ttl
from lamella.core.tokens import Usage
from lamella.llm.openai import FILTERED
from lamella_simulator.replies import REFUSAL

from .provider import NOON, VENDORS, Heard, Json, Provider, ask, context, listen, made_after, request_of

pytestmark = pytest.mark.anyio
ODD = "Straße 東京 🙂 e\u0301\u200d \x00 done."
CALLS = [
    {"id": "c1", "name": "search", "arguments": {"query": "ünïcode ✓"}},
    {"id": "c2", "name": "search", "arguments": {}},
    {"id": "c3", "name": "other", "arguments": {"z": 1, "a": [True, None, 1.5]}},
]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("chunk", [1, 7, 1_000])
async def test_text_comes_in_pieces_and_whole(provider: Provider, vendor: str, chunk: int) -> None:
    provider.script(r={"text": ODD, "chunk": chunk})
    heard = await ask(provider.model(vendor))
    assert heard.error is None
    assert heard.text() == ODD
    assert len(heard.of(deltas.TextDelta)) == -(-len(ODD) // chunk)
    assert len({delta.block for delta in heard.of(deltas.TextDelta)}) == 1
    assert heard.deltas[-2 if vendor == "openai" else -1] == deltas.Closed(StopReason.END_TURN)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_what_opens_a_stream_names_the_request_and_its_bytes(provider: Provider, vendor: str) -> None:
    provider.script(r={"text": "ok"})
    model = provider.model(vendor)
    request = request_of(model, context(model, "東京?"), marked=[-1])
    heard = await listen(model, request, reply="r")
    opened = heard.deltas[0]
    assert isinstance(opened, deltas.Opened)
    assert str(opened.provider_request_id).startswith("req_")
    sent = json.loads(opened.body)
    assert {key: json.dumps(value) for key, value in sent.items()} == {
        key: json.dumps(value) for key, value in model.body(request).items()
    }
    assert provider.requests()[-1]["body"] == sent


@pytest.mark.parametrize("vendor", VENDORS)
async def test_parallel_calls_are_blocks_of_their_own(provider: Provider, vendor: str) -> None:
    provider.script(r={"text": "Looking.", "tool_calls": CALLS, "chunk": 3})
    heard = await ask(provider.model(vendor))
    opened = heard.of(deltas.ToolCallOpened)
    assert [(call.id, call.name) for call in opened] == [("c1", "search"), ("c2", "search"), ("c3", "other")]
    assert [decode_object(heard.arguments()[call.block]) for call in opened] == [c["arguments"] for c in CALLS]
    assert len({call.block for call in opened} | {delta.block for delta in heard.of(deltas.TextDelta)}) == 4
    assert heard.of(deltas.Closed) == [deltas.Closed(StopReason.TOOL_CALLS)]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_reasoning_comes_before_text_in_its_own_block(provider: Provider, vendor: str) -> None:
    provider.script(r={"text": "42.", "reasoning": "Six times seven.", "chunk": 4})
    heard = await ask(provider.model(vendor))
    assert heard.text(deltas.ReasoningDelta) == "Six times seven."
    assert heard.text() == "42."
    assert {d.block for d in heard.of(deltas.ReasoningDelta)} == {0}
    assert {d.block for d in heard.of(deltas.TextDelta)} == {1}
    seals = heard.of(deltas.ReasoningSealed)
    assert [seal.block for seal in seals] == ([] if vendor == "openai" else [0])
    assert all(seal.signature for seal in seals)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        ({"text": "All said."}, StopReason.END_TURN),
        ({"text": "0123456789", "fault": {"kind": "max_tokens", "when": 4}}, StopReason.MAX_TOKENS),
        ({"text": "0123456789", "fault": {"kind": "refusal", "when": 4}}, StopReason.REFUSAL),
        ({"text": "0123456789", "fault": {"kind": "refusal"}}, StopReason.REFUSAL),
        ({"text": "0123456789", "fault": {"kind": "content_filter", "when": 4}}, StopReason.REFUSAL),
        ({"text": "0123456789", "fault": {"kind": "content_filter"}}, StopReason.REFUSAL),
        ({"text": "x", "tool_calls": CALLS[:1]}, StopReason.TOOL_CALLS),
        ({"text": "x", "fault": {"kind": "empty"}}, StopReason.END_TURN),
    ],
)
async def test_why_an_answer_ended(provider: Provider, vendor: str, reply: dict[str, object], stop: StopReason) -> None:
    provider.script(r=reply)
    heard = await ask(provider.model(vendor))
    assert heard.error is None
    [closed] = heard.of(deltas.Closed)
    assert closed.stop_reason is stop


@pytest.mark.parametrize(
    ("vendor", "kind", "text", "why"),
    [
        ("anthropic", "refusal", "0123", REFUSAL),
        ("anthropic", "content_filter", "0123", ""),
        ("openai", "refusal", f"0123{REFUSAL}", ""),
        ("openai", "content_filter", "0123", FILTERED),
        ("responses", "refusal", f"0123{REFUSAL}", ""),
        ("responses", "content_filter", "0123", FILTERED),
    ],
)
async def test_what_a_provider_says_of_a_refusal(
    provider: Provider, vendor: str, kind: str, text: str, why: str
) -> None:
    """Anthropic gives its reason apart; OpenAI's models say it in the answer, and its filter says nothing."""
    provider.script(r={"text": "0123456789", "fault": {"kind": kind, "when": 4}})
    heard = await ask(provider.model(vendor))
    assert heard.of(deltas.Closed) == [deltas.Closed(StopReason.REFUSAL, why)]
    assert heard.text() == text


@pytest.mark.parametrize("vendor", VENDORS)
async def test_arguments_that_broke_off_come_as_they_are(provider: Provider, vendor: str) -> None:
    provider.script(r={"tool_calls": CALLS[:1], "fault": {"kind": "truncated_tool_json", "when": 9}})
    heard = await ask(provider.model(vendor))
    assert list(heard.arguments().values()) == ['{"query":']
    assert heard.of(deltas.Closed) == [deltas.Closed(StopReason.MAX_TOKENS)]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_what_came_can_be_sent_back(provider: Provider, vendor: str) -> None:
    """Thinking with its seal passes the provider's checks; calls meet their results."""
    provider.script(
        call={"text": "Looking.", "reasoning": "Search first.\n\nThen read.", "tool_calls": CALLS},
        end={"text": "Found.", "reasoning": "That is it."},
    )
    model = provider.model(vendor)
    asked = context(model, effort="low")
    first = await listen(model, request_of(model, asked), reply="call")
    second = await listen(model, request_of(model, answered(asked, model, first)), reply="end")
    assert (first.error, second.error) == (None, None)
    assert second.text() == "Found."
    assert ("Search first." in str(provider.requests()[-1]["body"])) == (vendor != "openai")


def answered(asked: ContextInput, model: ChatModel, heard: Heard) -> ContextInput:
    """The context of the next step, with what came as the engine keeps it."""
    seals = heard.of(deltas.ReasoningSealed)
    words = heard.text(deltas.ReasoningDelta)
    thought = Reasoning(words, seals[0].signature, seals[0].redacted) if seals else Reasoning(words)
    arguments = heard.arguments()
    calls = [ToolCall(call.id, call.name, arguments[call.block]) for call in heard.of(deltas.ToolCallOpened)]
    step = Step(
        id="step_1",
        model=model.facts.name,
        parts=(thought, Text(heard.text()), *calls),
        stop_reason=StopReason.TOOL_CALLS,
        made_after=made_after(asked),
        tokens=10,
        results=tuple(ToolResult(call.id, call.name, "Nothing.") for call in calls),
    )
    return replace(asked, turn=replace(asked.turn, steps=(step,)))


@pytest.mark.parametrize("vendor", VENDORS)
async def test_usage_counts_the_whole_prompt_once(provider: Provider, vendor: str) -> None:
    """Anthropic reports the uncached rest as input, OpenAI all of it: ours is all of it for both."""
    provider.script(r={"text": "ok", "reasoning": "hm", "output_tokens": 50})
    model = provider.model(vendor)
    asked = context(model, "Tell me of the sea. " * 20, system="You answer from documents. " * 400, effort="low")
    request = request_of(model, asked, marked=[1])
    cold = await listen(model, request, reply="r", now=NOON.isoformat())
    warm = await listen(model, request, reply="r", now=(NOON + timedelta(minutes=4)).isoformat())
    gone = await listen(model, request, reply="r", now=(NOON + timedelta(hours=9)).isoformat())
    for heard, billed in zip((cold, warm, gone), provider.requests(), strict=True):
        assert heard.usage == usage_of(vendor, billed["usage"])
        assert heard.usage.fresh > 0
        assert heard.usage.output == 50
        assert 0 < heard.usage.reasoning < 50
    assert (cold.usage.cache_read, cold.usage.cache_write) == (0, warm.usage.cache_read)
    assert warm.usage.cache_write == 0
    assert cold.usage.input == warm.usage.input == gone.usage.input
    assert gone.usage == cold.usage


def usage_of(vendor: str, billed: Json) -> Usage:
    """The simulator's own record of a request."""
    if vendor == "anthropic":
        read, written = billed["cache_read_input_tokens"], billed["cache_creation_input_tokens"]
        total, output = billed["input_tokens"] + read + written, billed["output_tokens"]
        return Usage(total, read, written, 0, output, billed["output_tokens_details"]["thinking_tokens"])
    if vendor == "responses":
        prompt, completion = billed["input_tokens_details"], billed["output_tokens_details"]
        return Usage(
            input=billed["input_tokens"],
            cache_read=prompt["cached_tokens"],
            cache_write_5m=prompt["cache_write_tokens"],
            output=billed["output_tokens"],
            reasoning=completion["reasoning_tokens"],
        )
    prompt, completion = billed["prompt_tokens_details"], billed["completion_tokens_details"]
    return Usage(
        input=billed["prompt_tokens"],
        cache_read=prompt["cached_tokens"],
        cache_write_5m=prompt["cache_write_tokens"],
        output=billed["completion_tokens"],
        reasoning=completion["reasoning_tokens"],
    )


async def test_an_hour_long_write_is_counted_apart(provider: Provider) -> None:
    provider.script(r={"text": "ok"})
    model = provider.model("anthropic")
    request = request_of(model, context(model, system="You answer from documents. " * 400))
    hour, minutes = Marker(1, Ttl.ONE_HOUR, "test"), Marker(2, Ttl.FIVE_MINUTES, "test")
    heard = await listen(model, replace(request, markers=(hour, minutes)), reply="r")
    assert heard.usage.cache_write_1h > heard.usage.cache_write_5m > 0
    assert heard.usage.fresh == 0


@pytest.mark.parametrize("vendor", ["anthropic", "responses"])
async def test_a_request_is_counted_without_being_answered(provider: Provider, vendor: str) -> None:
    provider.script(r={"text": "ok"})
    model = provider.model(vendor)
    request = request_of(model, context(model, effort="low"), marked=[-1])
    counted = await model.count(request)
    assert counted == (await listen(model, request, reply="r")).usage.input


async def test_a_reader_who_leaves_closes_the_connection(slow_provider: Provider) -> None:
    slow_provider.script(r={"text": "0123456789" * 100, "chunk": 10})
    for vendor in VENDORS:
        model = slow_provider.model(vendor)
        request = request_of(model, context(model))
        async with aclosing(model.stream(request, {"x-sim-reply": "r", "x-sim-rate": "500"})) as stream:  # type: ignore[type-var]
            async for delta in stream:
                if isinstance(delta, deltas.TextDelta):
                    break
        assert await ended(slow_provider) < 500


async def ended(provider: Provider) -> int:
    """The characters that the provider had streamed when it stopped streaming its last request."""
    streamed = -1
    for _ in range(20):
        last = provider.requests()[-1]
        assert not last["finished"]
        if last["streamed"] == streamed:
            return streamed
        streamed = last["streamed"]
        await asyncio.sleep(0.15)
    raise AssertionError("the provider goes on streaming")


async def test_an_adapter_can_be_closed(provider: Provider) -> None:
    provider.script(r={"text": "ok"})
    for vendor in VENDORS:
        model = provider.model(vendor)
        assert (await ask(model)).text() == "ok"
        await model.close()
