"""An answer that is written in an API and read again says the same; the vendors' own libraries read it too."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.agent.container import OpenStep, StepBirth
from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderOverloaded, ProviderStreamBroken
from lamella.core.messages import Reasoning, StopReason, Text, ToolCall
from lamella.core.tokens import Usage
from lamella.gateway.answer_blocks import AnswerWriter
from lamella.gateway.canonical import CarriedThinking, ToolForm, carried_by, carrying_id, unwrapped_seal
from lamella.gateway.dialects import Dialect
from lamella.gateway.reading import read_request
from lamella.gateway.writing import writer
from lamella.llm.anthropic import MessagesReader
from lamella.llm.event_stream import EventDecoder
from lamella.llm.openai import ChatReader
from lamella.llm.responses import ResponsesReader
from lamella.llm.responses_wire import ReasoningSeal
from lamella.llm.streaming import EventReader

from .upstream_server import UpstreamServer, upstream_server

READERS: Mapping[Dialect, Callable[[], EventReader]] = {
    Dialect.MESSAGES: MessagesReader,
    Dialect.CHAT: ChatReader,
    Dialect.RESPONSES: ResponsesReader,
}
DIALECTS = pytest.mark.parametrize("dialect", READERS)
NAMES = {Dialect.MESSAGES: "msg_1", Dialect.CHAT: "chatcmpl-1", Dialect.RESPONSES: "resp_1"}


def written(dialect: Dialect, answer: Sequence[Delta], **more: Any) -> tuple[bytes, AnswerWriter]:
    made = writer(dialect, "a-model", NAMES[dialect], created=1_764_000_000, **more)
    return b"".join([*map(made.feed, answer), made.end()]), made


def read_again(dialect: Dialect, stream: bytes) -> list[Delta]:
    reader = READERS[dialect]()
    found = [delta for event in EventDecoder().feed(stream) for delta in reader.of(event)]
    assert reader.ended
    return found


# Random answers


TEXTS = st.text(min_size=1, max_size=8)
USAGES = st.builds(
    lambda fresh, read, short, long, output, thought: Usage(
        fresh + read + short + long, read, short, long, output + thought, thought
    ),
    *(st.integers(0, 10**6) for _ in range(6)),
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=6)), max_size=3)
SEALS = st.sampled_from(
    [
        ("EqQBsignature==", None),
        (None, "cmVkYWN0ZWQ="),
        (ReasoningSeal("rs_9", (3, 2)).text(), "encrypted=="),
    ]
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


@st.composite
def answers(draw: st.DrawFn) -> list[Delta]:
    """An answer block by block, as Anthropic streams it."""
    found: list[Delta] = [deltas.Opened("req_1", b"{}"), deltas.UsageReported(draw(USAGES))]
    kinds = draw(st.lists(st.sampled_from(["text", "reasoning", "call"]), max_size=5))
    kinds = [kind for n, kind in enumerate(kinds) if kind == "call" or kind not in kinds[n - 1 : n]]
    for block, kind in enumerate(kinds):
        if kind == "text":
            found += [deltas.TextDelta(block, text) for text in draw(st.lists(TEXTS, min_size=1, max_size=3))]
        elif kind == "reasoning":
            found += [deltas.ReasoningDelta(block, text) for text in draw(st.lists(TEXTS, min_size=1, max_size=3))]
            found += [deltas.ReasoningSealed(block, *draw(SEALS))] if draw(st.booleans()) else []
        else:
            found.append(deltas.ToolCallOpened(block, f"call_{block}", draw(st.sampled_from(["Read", "Write"]))))
            arguments = json.dumps(draw(ARGUMENTS))
            found += [deltas.ToolArgsDelta(block, piece) for piece in cut(draw, arguments)]
    stop = StopReason.TOOL_CALLS if "call" in kinds else StopReason.END_TURN
    stop = draw(st.sampled_from([stop, stop, StopReason.MAX_TOKENS, StopReason.REFUSAL]))
    return [*found, deltas.UsageReported(draw(USAGES)), deltas.Closed(stop)]


def renumbered(answer: Sequence[Delta]) -> list[Any]:
    """The deltas of blocks with the blocks numbered from 0; a seal without the wrap that carries another vendor's."""
    numbers: dict[int, int] = {}
    found = []
    for delta in answer:
        block = getattr(delta, "block", None)
        if block is None:
            continue
        number = numbers.setdefault(block, len(numbers))
        if isinstance(delta, deltas.ReasoningSealed):
            said = delta.redacted or delta.signature or ""
            found.append((number, "sealed", *(unwrapped_seal(said) or (delta.signature, delta.redacted))))
        else:
            found.append((number, *[getattr(delta, name) for name in delta.__slots__ if name != "block"]))
    return found


def usage_of(answer: Sequence[Delta]) -> Usage:
    return [delta for delta in answer if isinstance(delta, deltas.UsageReported)][-1].usage


@DIALECTS
@given(answer=answers())
def test_an_answer_comes_back_as_it_was_written(dialect: Dialect, answer: list[Delta]) -> None:
    stream, _ = written(dialect, answer)
    again = read_again(dialect, stream)
    before = [one for one in renumbered(answer) if dialect is not Dialect.CHAT or one[1] != "sealed"]
    assert renumbered(again) == before
    usage, said = usage_of(again), usage_of(answer)
    assert (usage.input, usage.cache_read, usage.output) == (said.input, said.cache_read, said.output)
    assert (usage.cache_write, usage.reasoning) == (said.cache_write, said.reasoning)
    closed = [delta for delta in again if isinstance(delta, deltas.Closed)]
    assert [one.stop_reason for one in closed] == [answer[-1].stop_reason]  # type: ignore[union-attr]


@DIALECTS
@given(answer=answers(), asks=st.booleans())
def test_the_whole_answer_is_what_its_stream_says(dialect: Dialect, answer: list[Delta], asks: bool) -> None:
    stream, made = written(dialect, answer, asks_for_usage=asks)
    whole = json.loads(json.dumps(made.whole()))
    if dialect is Dialect.CHAT:
        chunks = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: {")]
        [bill] = [chunk for chunk in chunks if chunk.get("usage")]
        assert bool(bill["choices"]) is not asks
        assert whole["usage"] == bill["usage"]
        assert stream.endswith(b"data: [DONE]\n\n")
        return
    reader = READERS[dialect]()
    ends = [event for event in EventDecoder().feed(stream) for _ in reader.of(event)]
    last = json.loads(ends[-1].data)
    if dialect is Dialect.RESPONSES:
        assert last["response"] == whole
    else:
        assert last["usage"] == whole["usage"]
        assert last["delta"]["stop_reason"] == whole["stop_reason"]


def parts_of(answer: Sequence[Delta]) -> Any:
    step = OpenStep(StepBirth("msg", "req", "a-model", "", "", Usage()), set())
    for delta in answer:
        step.feed(delta)
    return step.parts()


@DIALECTS
@given(answer=answers())
def test_an_answer_that_comes_back_as_history_is_the_same_parts(dialect: Dialect, answer: list[Delta]) -> None:
    _, made = written(dialect, answer)
    request = read_request(dialect, history_of(dialect, json.loads(json.dumps(made.whole()))))
    read = [part for message in request.messages for part in message.parts]
    said = list(parts_of(answer))
    if dialect is Dialect.CHAT:  # it has one text, and no seals
        for kind in (Text, Reasoning):
            assert "".join(p.text for p in read if isinstance(p, kind)) == "".join(
                p.text for p in said if isinstance(p, kind)
            )
        read = [part for part in read if isinstance(part, ToolCall)]
        said = [part for part in said if isinstance(part, ToolCall)]
    assert [same(part) for part in read] == [same(part) for part in said]


def same(part: Any) -> Any:
    """Calls by what their arguments mean; thinking without a seal can't come back with one."""
    return (part.id, part.name, json.loads(part.arguments)) if isinstance(part, ToolCall) else part


def history_of(dialect: Dialect, whole: Mapping[str, Any]) -> dict[str, Any]:
    match dialect:
        case Dialect.MESSAGES:
            return {"messages": [{"role": "assistant", "content": whole["content"]}]}
        case Dialect.CHAT:
            return {"messages": [whole["choices"][0]["message"]]}
        case _:
            return {"input": whole["output"]}


# Cases


CALLS: list[Delta] = [
    deltas.TextDelta(0, "Let me look."),
    deltas.ToolCallOpened(1, "call_a", "Read"),
    deltas.ToolCallOpened(2, "call_b", "Write"),
    deltas.ToolArgsDelta(1, '{"path":'),
    deltas.ToolArgsDelta(2, '{"text"'),
    deltas.ToolArgsDelta(1, '"a"}'),
    deltas.ToolArgsDelta(2, ':"b"}'),
    deltas.UsageReported(Usage(100, output=20)),
    deltas.Closed(StopReason.TOOL_CALLS),
]


@DIALECTS
def test_parallel_calls_whose_arguments_alternate_are_written_one_after_the_other(dialect: Dialect) -> None:
    stream, _ = written(dialect, CALLS)
    assert parts_of(read_again(dialect, stream)) == (
        Text("Let me look."),
        ToolCall("call_a", "Read", '{"path":"a"}'),
        ToolCall("call_b", "Write", '{"text":"b"}'),
    )


def test_blocks_of_a_message_are_closed_before_the_next_begins() -> None:
    stream, _ = written(Dialect.MESSAGES, CALLS)
    events = [json.loads(event.data) for event in EventDecoder().feed(stream)]
    kinds = [(event["type"].removeprefix("content_block_"), event["index"]) for event in events if "index" in event]
    assert kinds == [
        *(("start", 0), ("delta", 0), ("stop", 0)),
        *(("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)),
        *(("start", 2), ("delta", 2), ("delta", 2), ("stop", 2)),
    ]


@DIALECTS
def test_an_answer_of_nothing_is_a_whole_one(dialect: Dialect) -> None:
    stream, _ = written(dialect, [deltas.Closed(StopReason.END_TURN)])
    assert deltas.Closed(StopReason.END_TURN) in read_again(dialect, stream)


@DIALECTS
def test_a_failure_is_told_in_the_words_of_the_api_and_nothing_follows_it(dialect: Dialect) -> None:
    made = writer(dialect, "a-model", NAMES[dialect])
    stream = made.feed(deltas.TextDelta(0, "Half an ans")) + made.fail(ProviderOverloaded("It is overloaded."))
    assert b"[DONE]" not in stream
    reader = READERS[dialect]()
    with pytest.raises(ProviderOverloaded if dialect is Dialect.MESSAGES else ProviderStreamBroken, match="overloaded"):
        [delta for event in EventDecoder().feed(stream) for delta in reader.of(event)]
    if dialect is Dialect.RESPONSES:
        last = json.loads(EventDecoder().feed(stream)[-1].data)
        assert last["type"] == "response.failed"
        assert (last["response"]["status"], last["response"]["error"]["code"]) == ("failed", "server_is_overloaded")
        assert last["response"]["output"][0]["content"][0]["text"] == "Half an ans"


def test_arguments_that_are_no_object_stand_in_a_message_as_they_were() -> None:
    _, made = written(
        Dialect.MESSAGES, [deltas.ToolCallOpened(0, "call_a", "Read"), deltas.ToolArgsDelta(0, '{"path": "a')]
    )
    assert made.whole()["content"][0]["input"] == {"arguments": '{"path": "a'}


FORMS = {"code__exec": ToolForm("exec", "code", is_custom=True), "clock__sleep": ToolForm("sleep", "clock")}
FORMED: list[Delta] = [
    deltas.ToolCallOpened(0, "call_a", "code__exec"),
    deltas.ToolArgsDelta(0, '{"input": "x = 1'),
    deltas.ToolArgsDelta(0, '\\n"}'),
    deltas.ToolCallOpened(1, "call_b", "clock__sleep"),
    deltas.ToolArgsDelta(1, '{"ms":5}'),
    deltas.Closed(StopReason.TOOL_CALLS),
]


def test_custom_tools_and_those_of_a_namespace_get_their_form_back() -> None:
    stream, made = written(Dialect.RESPONSES, FORMED, forms=FORMS)
    custom, function = made.whole()["output"]
    assert (custom["type"], custom["name"], custom["namespace"]) == ("custom_tool_call", "exec", "code")
    assert (custom["input"], function["arguments"]) == ("x = 1\n", '{"ms":5}')
    assert (function["type"], function["name"], function["namespace"]) == ("function_call", "sleep", "clock")
    assert b"function_call_arguments" not in stream.split(b"fc_1_1")[0]
    again = read_request(Dialect.RESPONSES, {"input": made.whole()["output"]})
    assert [part.name for part in again.messages[0].parts if isinstance(part, ToolCall)] == list(FORMS)


def test_the_id_of_a_chat_call_carries_the_thinking_before_it() -> None:
    answer: list[Delta] = [
        deltas.ReasoningDelta(0, "First."),
        deltas.ReasoningSealed(0, "EqQB"),
        deltas.TextDelta(1, "Let me look."),
        deltas.ReasoningDelta(2, "Then."),
        deltas.ReasoningSealed(2, ReasoningSeal("rs_1", (5,)).text(), "enc"),
        deltas.ToolCallOpened(3, "call_a", "Read"),
        deltas.ToolCallOpened(4, "call_b", "Read"),
        deltas.ReasoningSealed(5, None, "redacted"),
        deltas.ToolCallOpened(6, "call_c", "Read"),
        deltas.Closed(StopReason.TOOL_CALLS),
    ]
    stream, made = written(Dialect.CHAT, answer, carries_thinking=True)
    message = made.whole()["choices"][0]["message"]
    opened = [delta for delta in read_again(Dialect.CHAT, stream) if isinstance(delta, deltas.ToolCallOpened)]
    ids = [call["id"] for call in message["tool_calls"]]
    assert [delta.id for delta in opened] == ids
    assert all(re.fullmatch(r"[\w-]+", id) for id in ids)
    assert ids[1] == "call_b"
    results = [{"role": "tool", "tool_call_id": id, "content": "x"} for id in ids]
    request = read_request(Dialect.CHAT, {"messages": [message, *results]})
    answer_parts = [part for part in request.messages[0].parts if part != Reasoning("First.Then.")]
    assert answer_parts == [
        Reasoning("First.", "EqQB"),
        Text("Let me look."),
        Reasoning("Then.", ReasoningSeal("rs_1", (5,)).text(), "enc"),
        ToolCall("call_a", "Read", ""),
        ToolCall("call_b", "Read", ""),
        Reasoning("", None, "redacted"),
        ToolCall("call_c", "Read", ""),
    ]
    assert [part.call_id for part in request.messages[1].parts] == ["call_a", "call_b", "call_c"]  # type: ignore[union-attr]


@pytest.mark.parametrize("id", ["a--lamella--", "a--lamella--????", "a--lamella--eJw", "a--lamella--" + "A" * 9])
def test_an_id_that_only_looks_as_if_it_carried_thinking_is_an_id(id: str) -> None:
    assert carried_by(id) == (id, ())


def test_an_id_can_not_unpack_to_more_than_thinking_may_be() -> None:
    bomb = carrying_id("a", [CarriedThinking("x" * 20_000_000)])
    assert len(bomb) < 100_000
    assert carried_by(bomb) == (bomb, ())


def test_a_custom_call_of_chat_has_its_text() -> None:
    _, made = written(Dialect.CHAT, FORMED[:3], forms={"code__exec": ToolForm("exec", is_custom=True)})
    [call] = made.whole()["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "call_a", "type": "custom", "custom": {"name": "exec", "input": "x = 1\n"}}


# The vendors' libraries


ANSWER: list[Delta] = [
    deltas.ReasoningDelta(0, "The user wants "),
    deltas.ReasoningDelta(0, "weather."),
    deltas.ReasoningSealed(0, "EqQBsignature=="),
    deltas.TextDelta(1, "Grüße ☕ "),
    deltas.TextDelta(1, "from here."),
    deltas.ToolCallOpened(2, "call_a", "Weather"),
    deltas.ToolArgsDelta(2, '{"place":"Tromsø"}'),
    deltas.ToolCallOpened(3, "call_b", "Ships"),
    deltas.ToolArgsDelta(3, "{}"),
    deltas.UsageReported(Usage(1_000, 700, 200, 0, 50, 20)),
    deltas.Closed(StopReason.TOOL_CALLS),
]
HI: Any = [{"role": "user", "content": "Hi"}]


@asynccontextmanager
async def answering(dialect: Dialect, *, streams: bool) -> AsyncIterator[UpstreamServer]:
    stream, made = written(dialect, ANSWER, asks_for_usage=True)
    async with upstream_server() as upstream:
        kind = "text/event-stream" if streams else "application/json"
        upstream.headers = (("content-type", kind),)
        body = stream if streams else json.dumps(made.whole()).encode()
        upstream.pieces = [body[start : start + 100] for start in range(0, len(body), 100)]
        yield upstream


@pytest.mark.parametrize("streams", [True, False])
def test_the_library_of_anthropic_reads_it(streams: bool) -> None:
    async def read() -> anthropic.types.Message:
        async with answering(Dialect.MESSAGES, streams=streams) as upstream:
            client = anthropic.AsyncAnthropic(api_key="k", base_url=upstream.url, max_retries=0)
            if not streams:
                return await client.messages.create(model="a-model", max_tokens=99, messages=HI)
            async with client.messages.stream(model="a-model", max_tokens=99, messages=HI) as stream:
                return await stream.get_final_message()

    message = asyncio.run(read())
    thought, text, weather, ships = message.content
    assert thought.type == "thinking"
    assert (thought.thinking, thought.signature) == ("The user wants weather.", "EqQBsignature==")
    assert text.type == "text"
    assert text.text == "Grüße ☕ from here."
    assert weather.type == "tool_use"
    assert ships.type == "tool_use"
    assert (weather.id, weather.name, weather.input, ships.input) == ("call_a", "Weather", {"place": "Tromsø"}, {})
    assert (message.id, message.stop_reason) == ("msg_1", "tool_use")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (100, 700, 200)
    assert usage.output_tokens == 50


@pytest.mark.parametrize("streams", [True, False])
def test_the_library_of_openai_reads_a_completion(streams: bool) -> None:
    async def read() -> Any:
        async with answering(Dialect.CHAT, streams=streams) as upstream:
            client = openai.AsyncOpenAI(api_key="k", base_url=upstream.url, max_retries=0)
            if not streams:
                return await client.chat.completions.create(model="a-model", messages=HI)
            options: Any = {"include_usage": True}
            async with client.chat.completions.stream(model="a-model", messages=HI, stream_options=options) as stream:
                return await stream.get_final_completion()

    completion = asyncio.run(read())
    [choice] = completion.choices
    assert choice.message.content == "Grüße ☕ from here."
    assert choice.message.reasoning_content == "The user wants weather."
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    assert calls == [("call_a", "Weather", '{"place":"Tromsø"}'), ("call_b", "Ships", "{}")]
    assert choice.finish_reason == "tool_calls"
    assert (completion.usage.prompt_tokens, completion.usage.prompt_tokens_details.cached_tokens) == (1_000, 700)


@pytest.mark.parametrize("streams", [True, False])
def test_the_library_of_openai_reads_a_response(streams: bool) -> None:
    async def read() -> Any:
        async with answering(Dialect.RESPONSES, streams=streams) as upstream:
            client = openai.AsyncOpenAI(api_key="k", base_url=upstream.url, max_retries=0)
            if not streams:
                return await client.responses.create(model="a-model", input="Hi")
            async with client.responses.stream(model="a-model", input="Hi") as stream:
                return await stream.get_final_response()

    response = asyncio.run(read())
    thought, message, weather, ships = response.output
    assert (thought.type, thought.summary[0].text) == ("reasoning", "The user wants weather.")
    assert unwrapped_seal(thought.encrypted_content) == ("EqQBsignature==", None)
    assert (message.type, response.output_text) == ("message", "Grüße ☕ from here.")
    assert (weather.call_id, weather.name, weather.arguments) == ("call_a", "Weather", '{"place":"Tromsø"}')
    assert (ships.name, ships.arguments) == ("Ships", "{}")
    assert (response.id, response.status) == ("resp_1", "completed")
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (1_000, 700)


def each_event(stream: bytes) -> Iterator[dict[str, Any]]:
    for event in EventDecoder().feed(stream):
        yield json.loads(event.data)


def test_events_of_a_response_are_numbered_and_each_block_is_closed() -> None:
    stream, _ = written(Dialect.RESPONSES, ANSWER)
    events = list(each_event(stream))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["output_index"] for event in events if event["type"] == "response.output_item.done"]
    assert added == done == [0, 1, 2, 3]
