"""A provider's answer, read from the bytes that were relayed: its parts, its bill, and how it ended.

The same readers are used as for the engine's own requests. An answer that is no stream is turned into the events that
a stream of it would have ended with.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from lamella.agent.container import OpenStep, count_part, spent
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import LamellaError, ProviderError
from lamella.core.json import decode_object, encode, fields_but
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import MAX_COPY_BYTES, PROMPT_FIELDS, Exchange
from lamella.llm.anthropic import MessagesReader
from lamella.llm.event_stream import EventDecoder, StreamEvent
from lamella.llm.failures import MALFORMED, broken, of_status
from lamella.llm.fields import ANTHROPIC_FIELD, OPENAI_FIELD, name_of, part
from lamella.llm.openai import ChatReader
from lamella.llm.responses import ResponsesReader
from lamella.llm.streaming import EventReader

EVENT_STREAM = "text/event-stream"
READERS: Mapping[Dialect, Callable[..., EventReader]] = {
    Dialect.MESSAGES: MessagesReader,
    Dialect.CHAT: ChatReader,
    Dialect.RESPONSES: ResponsesReader,
}
_COMPARISONS = {
    Dialect.MESSAGES: (ANTHROPIC_FIELD, "previous_message_id"),
    Dialect.RESPONSES: ("prompt_cache_options", OPENAI_FIELD),
}
"""The field of a body that asks why the cache was missed, and the name in it of the answer to compare with."""


def read_answer(exchange: Exchange, opened: OpenStep) -> LamellaError | None:
    """Feed an answer to a step, as far as it came. Returns the error with which it ended, if it did."""
    if not exchange.status:
        return exchange.error or broken("The provider", "the client left before the answer began")
    data = unpacked(b"".join(exchange.answer), exchange.headers.get("content-encoding", ""))
    if exchange.status >= 400:
        return of_status("The provider", exchange.status, json_or_text(data), "", exchange.headers.get("retry-after"))
    if exchange.size > MAX_COPY_BYTES:
        return broken("The provider", "the answer is too long to be recorded")
    streams = exchange.headers.get("content-type", "").startswith(EVENT_STREAM)
    cause = (
        "the client left before the answer was whole" if exchange.left else "the stream ended before the message did"
    )
    ended = exchange.error or broken("The provider", cause)
    reader = _reader(exchange)
    try:
        for event in EventDecoder().feed(data) if streams else events_of(exchange.dialect, decode_object(data)):
            for delta in reader.of(event):
                opened.feed(delta)
    except ProviderError as error:
        return error
    except (*MALFORMED, msgspec.DecodeError) as error:
        is_cut = exchange.error is not None or exchange.left
        return ended if is_cut else broken("The provider", f"its answer can't be read: {error}")
    return None if reader.ended else ended


def read_billed(exchange: Exchange, opened: OpenStep) -> LamellaError | None:
    """As `read_answer`. Of an answer that was cut, what its bill leaves out is estimated: Anthropic tells the input
    first, OpenAI tells everything last.
    """
    error = read_answer(exchange, opened)
    if error is not None and exchange.status == 200 and exchange.size <= MAX_COPY_BYTES:
        opened.began = True
        opened.usage = spent(opened, sum(count_part(part, ApproximateCounter()) for part in opened.parts()))
    return error


def _reader(exchange: Exchange) -> EventReader:
    """The reader of an answer. It reads the provider's diagnosis too, if the caller asked for one."""
    field, name = _COMPARISONS.get(exchange.dialect, ("", ""))
    if not name or name.encode() not in exchange.body:
        return READERS[exchange.dialect]()
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return READERS[exchange.dialect](name_of(part(fields_but(exchange.body, PROMPT_FIELDS), field).get(name)))
    return READERS[exchange.dialect]()


def unpacked(data: bytes, encoding: str) -> bytes:
    """An answer that was packed though nobody asked for that, as far as it came."""
    if encoding not in ("gzip", "deflate"):
        return data
    with suppress(zlib.error):
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, MAX_COPY_BYTES)
    return data


def json_or_text(data: bytes) -> object:
    """The object of a body; of a page of a proxy its beginning."""
    try:
        return decode_object(data)
    except msgspec.DecodeError:
        return data.decode("utf-8", "replace")[:1000]


def events_of(dialect: Dialect, message: Any) -> Iterator[StreamEvent]:
    """The events of a whole answer."""
    match dialect:
        case Dialect.MESSAGES:
            yield from _of_message(message)
        case Dialect.CHAT:
            yield from _of_completion(message)
        case _:
            yield from _of_response(message)


def _event(value: dict[str, Any], name: str = "") -> StreamEvent:
    return StreamEvent(name, encode(value))


def _of_message(message: Any) -> Iterator[StreamEvent]:
    def event(kind: str, **fields: Any) -> StreamEvent:
        return _event({"type": kind, **fields}, kind)

    yield event("message_start", message=message)
    for index, block in enumerate(message.get("content") or ()):
        yield event("content_block_start", index=index, content_block=block)
        if block.get("type") == "tool_use":
            arguments = encode(block.get("input") or {}).decode()
            yield event(
                "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": arguments}
            )
        if block.get("signature"):
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            yield event("content_block_delta", index=index, delta=sealed)
    delta = {name: message.get(name) for name in ("stop_reason", "stop_details")}
    yield event("message_delta", delta=delta, usage=message.get("usage") or {})


def _of_completion(completion: Any) -> Iterator[StreamEvent]:
    choice = (completion.get("choices") or [{}])[0]
    message = dict(choice.get("message") or {})
    message["tool_calls"] = [{**call, "index": n} for n, call in enumerate(message.get("tool_calls") or ())]
    choices = [{"index": 0, "delta": message, "finish_reason": choice.get("finish_reason")}]
    yield _event({**completion, "choices": choices})


def _of_response(response: Any) -> Iterator[StreamEvent]:
    yield _event({"type": "response.created", "response": response})
    for index, item in enumerate(response.get("output") or ()):
        yield _event({"type": "response.output_item.done", "output_index": index, "item": item})
    status = response.get("status") or "completed"
    yield _event({"type": f"response.{status}", "response": response})
