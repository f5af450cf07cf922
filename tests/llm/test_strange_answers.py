"""What no vendor documents and networks do all the same: nothing but a `ProviderError` leaves an adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella.core import deltas
from lamella.core.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefusedKey,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ProviderTimeout,
    ProviderUnreachable,
)
from lamella.core.messages import StopReason

from .provider import VENDORS, Heard, Json, connected, context, listen, request_of
from .raw_server import answering, events, http

pytestmark = pytest.mark.anyio


async def hear(vendor: str, data: bytes) -> Heard:
    """What an adapter makes of an answer of exactly these bytes."""
    async with answering(data) as url:
        model = connected(vendor, url)
        try:
            return await listen(model, request_of(model, context(model)))
        finally:
            await model.close()


def refusal(message: str, **fields: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": "some_error", "message": message, **fields}}).encode()


HTML = b"<html><body>" + b"Bad gateway. " * 400 + b"</body></html>"
REFUSALS = {
    "402": (http(402, refusal("no credit")), ProviderRefusedKey, "billing"),
    "403": (http(403, refusal("no access")), ProviderRefusedKey, "_API_KEY"),
    "404 without a body": (http(404, b""), ProviderRefusedRequest, "LAMELLA_MODEL"),
    "408": (http(408, refusal("slow")), ProviderTimeout, "Try again"),
    "413": (http(413, refusal("Request exceeds the maximum size")), ProviderContextOverflow, "larger window"),
    "429": (http(429, refusal("too many")), ProviderRateLimited, "Try again in a moment."),
    "429 until a date": (
        http(429, refusal("too many"), retry_after="Fri, 31 Dec 2027 23:59:59 GMT"),
        ProviderRateLimited,
        "Try again in a moment.",
    ),
    "429 for want of money": (
        http(429, refusal("You exceeded your current quota", code="insufficient_quota", type="insufficient_quota")),
        ProviderRefusedKey,
        "billing",
    ),
    "502 from a proxy": (http(502, HTML, "text/html"), ProviderUnreachable, "Try again"),
    "503": (http(503, b"upstream connect error", "text/plain"), ProviderOverloaded, "Try again"),
    "no object": (http(400, b"[1]"), ProviderRefusedRequest, "raw body"),
    "an error that is a text": (http(400, b'{"error":"model is loading"}'), ProviderRefusedRequest, "raw body"),
    "no error": (http(500, b"null"), ProviderUnreachable, "Try again"),
    "no HTTP": (b"hello\r\n\r\n", ProviderUnreachable, "Check the network"),
    "nothing": (b"", ProviderUnreachable, "Check the network"),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("data", "error", "hint"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal(vendor: str, data: bytes, error: type[ProviderError], hint: str) -> None:
    heard = await hear(vendor, data)
    assert type(heard.error) is error
    assert hint in str(heard.error.hint)
    assert 10 < len(heard.error.message) < 600
    assert heard.deltas == []


STREAMS = {
    "a page": http(200, HTML, "text/html"),
    "a whole answer": http(200, b'{"id":"x","type":"message","choices":[{"message":{"content":"hi"}}]}'),
    "nothing": http(200, b"", "text/event-stream"),
    "no JSON": events("{not json"),
    "null": events("null"),
    "a number": events("1"),
    "a list": events("[]"),
    "a text": events('"hello"'),
    "an empty object": events("{}"),
    "cut in the middle": events('{"type":"message_start","message":{"usage":{}}}')[:-60],
    "half of a character": http(200, b'data: {"choices":[{"index":0,"delta":{"content":"\xe6\x9d', "text/event-stream"),
    "not what its header says": http(200, b"data: {}\n\n", "text/event-stream", content_encoding="gzip"),
    "only DONE": events("[DONE]", names=False),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("data", STREAMS.values(), ids=STREAMS)
async def test_a_stream_that_makes_no_sense(vendor: str, data: bytes) -> None:
    heard = await hear(vendor, data)
    assert type(heard.error) is ProviderStreamBroken
    assert "What came is kept" in str(heard.error.hint)
    assert len(heard.error.message) < 600


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("overloaded_error", "Overloaded", ProviderOverloaded),
        ("rate_limit_error", "too many", ProviderRateLimited),
        ("api_error", "it broke", ProviderStreamBroken),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ProviderContextOverflow),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_an_error_event(kind: str, message: str, error: type[ProviderError], begun: bool) -> None:
    """Also as the first event: HTTP had said 200 by then."""
    start = ['{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}'] if begun else []
    event = json.dumps({"type": "error", "error": {"type": kind, "message": message}}, separators=(",", ":"))
    heard = await hear("anthropic", events(*start, event))
    assert type(heard.error) is error
    assert message in heard.error.message


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"message": "it broke", "type": "server_error"}, ProviderStreamBroken),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, ProviderRateLimited),
        ({"message": "too much", "code": "context_length_exceeded"}, ProviderContextOverflow),
    ],
)
async def test_an_error_chunk(fields: dict[str, str], error: type[ProviderError]) -> None:
    heard = await hear("openai", events(json.dumps({"error": fields}), names=False))
    assert type(heard.error) is error
    assert fields["message"] in heard.error.message


ANTHROPIC: list[Json] = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "a"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "b"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "r"}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "c"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "d"}},
    {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "i", "name": "n"}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "of_next_year", "more": 1}},
    {"type": "of_next_year", "index": 4},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
OPENAI: list[Json] = [
    {"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"id": "x", "choices": [{"index": 0, "delta": {"reasoning_content": "ab"}}]},
    {"id": "x", "choices": [{"index": 0, "delta": {"content": "cd"}}]},
    {
        "id": "x",
        "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "i", "function": {"name": "n"}}]}}],
    },
    {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
    {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "x", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}},
]
RESPONSES: list[Json] = [
    {"type": "response.created", "response": {"id": "x", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs", "summary": []}},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "b"},
    {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "ab"}],
            "encrypted_content": "s",
        },
    },
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "c"},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "d"},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"type": "function_call", "call_id": "i", "name": "n", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{}"},
    {"type": "response.of_next_year", "output_index": 5},
    {"type": "response.completed", "response": {"id": "x", "usage": {"input_tokens": 5, "output_tokens": 9}}},
]
SAMPLES = {"anthropic": ANTHROPIC, "openai": OPENAI, "responses": RESPONSES}


def stream_of(vendor: str, sample: list[Any]) -> bytes:
    bodies = [json.dumps(event, separators=(",", ":")) for event in sample]
    return events(*bodies, names=vendor != "openai")


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_answer_with_the_fewest_fields(vendor: str) -> None:
    """Also OpenAI's look-alikes, which leave out most of them, and types that do not exist yet."""
    heard = await hear(vendor, stream_of(vendor, SAMPLES[vendor]))
    assert heard.error is None
    assert (heard.text(deltas.ReasoningDelta), heard.text()) == ("ab", "cd")
    assert list(heard.arguments().values()) == ["{}"]
    assert (heard.usage.input, heard.usage.output) == (5, 9)
    called = vendor == "responses"  # this protocol does not say why an answer ended
    assert heard.of(deltas.Closed) == [deltas.Closed(StopReason.TOOL_CALLS if called else StopReason.END_TURN)]
    sealed = {"anthropic": [None, "r"], "openai": [], "responses": ["s"]}
    assert [seal.redacted for seal in heard.of(deltas.ReasoningSealed)] == sealed[vendor]


def choice(**delta: Any) -> Json:
    return {"id": "x", "choices": [{"index": 0, "delta": delta}]}


async def test_thinking_after_a_text_keeps_its_place() -> None:
    """Chat Completions has no blocks: one ends where another kind begins. Pieces of calls may come in turn."""

    def call(index: int, **fields: Any) -> Json:
        return choice(tool_calls=[{"index": index, **fields}])

    heard = await hear(
        "openai",
        stream_of(
            "openai",
            [
                choice(reasoning_content="Hm"),
                choice(reasoning_content=", yes."),
                choice(content="I look"),
                choice(content=" it up."),
                choice(reasoning_content="Two at once."),
                choice(content="Now."),
                call(0, id="a", function={"name": "one"}),
                call(1, id="b", function={"name": "two"}),
                call(0, function={"arguments": '{"x":'}),
                call(1, function={"arguments": "{}"}),
                call(0, function={"arguments": "1}"}),
                {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            ],
        ),
    )
    assert heard.error is None
    blocks: dict[int, str] = {}
    for delta in heard.deltas:
        if isinstance(delta, deltas.ReasoningDelta | deltas.TextDelta):
            kind = "text" if isinstance(delta, deltas.TextDelta) else "thinking"
            blocks[delta.block] = (blocks.get(delta.block) or f"{kind}: ") + delta.text
        elif isinstance(delta, deltas.ToolCallOpened):
            blocks[delta.block] = f"call: {delta.name}"
    assert blocks == {
        0: "thinking: Hm, yes.",
        1: "text: I look it up.",
        2: "thinking: Two at once.",
        3: "text: Now.",
        4: "call: one",
        5: "call: two",
    }
    assert heard.arguments() == {4: '{"x":1}', 5: "{}"}


async def test_items_that_come_only_whole_are_heard() -> None:
    """Servers that speak Responses may leave the pieces out."""
    items: list[Json] = [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": t} for t in ("a", "b")]},
        {"type": "message", "content": [{"type": "output_text", "text": "c"}, {"type": "refusal", "refusal": "d"}]},
        {"type": "function_call", "call_id": "i", "name": "n", "arguments": "{}"},
    ]
    done = [{"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate(items)]
    end = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}}
    heard = await hear("responses", stream_of("responses", [*done, end]))
    assert heard.error is None
    assert (heard.text(deltas.ReasoningDelta), heard.text(), heard.arguments()) == ("a\n\nb", "cd", {2: "{}"})
    assert heard.of(deltas.ReasoningSealed) == []
    [closed] = heard.of(deltas.Closed)
    assert (closed.stop_reason, closed.why) == (StopReason.REFUSAL, "the provider's content filter stopped it")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, ProviderRateLimited),
        ({"type": "error", "code": None, "message": "slow down"}, ProviderStreamBroken),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "server_error", "message": "slow down"}, "usage": {"input_tokens": 7}},
            },
            ProviderStreamBroken,
        ),
        ({"type": "response.failed", "response": {}}, ProviderStreamBroken),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_a_response_that_failed(event: Json, error: type[ProviderError], begun: bool) -> None:
    heard = await hear("responses", stream_of("responses", [*(RESPONSES[:3] if begun else []), event]))
    assert type(heard.error) is error
    assert "slow down" in heard.error.message or not event.get("response", {"error": 1})
    assert [reported.usage.input for reported in heard.of(deltas.UsageReported)] == (
        [7] if "usage" in event.get("response", {}) else []
    )


strange: st.SearchStrategy[Any] = st.sampled_from(
    (None, 0, -1, 1.5, "x", "\ud83d", [], {}, [{}], [None], True, {"type": "text"})
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(place for key, item in inner for place in places(item, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at `path`; `...` takes the place away."""
    head, *rest = path
    items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    items[head] = changed(items[head], tuple(rest), new) if rest else new
    kept = {key: item for key, item in items.items() if item is not ...}
    return kept if isinstance(value, dict) else list(kept.values())


@pytest.mark.parametrize("vendor", VENDORS)
@settings(
    max_examples=settings().max_examples * 3 // 2,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
async def test_a_field_that_is_not_what_it_should_be(vendor: str, data: st.DataObject) -> None:
    sample: list[Any] = SAMPLES[vendor]
    path = data.draw(st.sampled_from(places(sample)))
    new = data.draw(strange | st.just(...))
    heard = await hear(vendor, stream_of(vendor, changed(sample, path, new)))
    for delta in heard.deltas:
        assert str(delta).encode()
    assert heard.error is None or isinstance(heard.error, ProviderError)
