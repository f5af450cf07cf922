"""`POST /v1/responses`: the chat for clients of OpenAI's Responses API.

A field that can't be followed is refused; none is ignored silently. The packets of its turn
are written as the events of a response, and as the response they come to:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from lamella.app.app import App
from lamella.chat.message import ExecutionRequest
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.json import Json, JsonObject, encode
from lamella.core.messages import TurnStatus
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    PartialPacket,
    ReasoningPacket,
    RunFinished,
    SourcePacket,
    TextPacket,
    ToolCallPacket,
    ToolHandedOut,
    TurnFinished,
)
from lamella.core.records import StoredResponse, TurnRecord
from lamella.gateway.errors import STATUS
from lamella.server.objects import AnyObject
from lamella.server.routes.openai_items import read_input
from lamella.server.routes.openai_request import from_openai
from lamella.server.routing import JSON, IdempotencyKey, TheApp, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, EventStream

router = api_router("/v1")

CONVERSATION_HEADER = "x-conversation-id"
"""The conversation of a request whose body can't name it; `new` begins one."""

RESPONSE, TURN = "resp_", "turn_"
"""A response is named as its turn, with another prefix."""

SAYS_NOTHING = frozenset(
    {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"}
    | {"client_metadata", "truncation"}
)
"""Fields that only concern a provider. The key says who asks, caching is planned here, and what does not fit gives way
in any case.
"""

AS_EVER: Mapping[str, tuple[Json, ...]] = {
    "store": (True,),
    "service_tier": ("auto", "default"),
    "top_logprobs": (0,),
}
"""Fields with values that match what is done anyway; null is always accepted."""

INSTEAD = {
    "store": "Every turn is stored; delete its conversation afterwards. A request without a conversation is forwarded, "
    "and stored nowhere.",
    "include": "Thinking is kept here, with its conversation.",
}

NO_ITEMS = ("file_search_call.", "web_search_call.", "code_interpreter_call.", "computer_call_output.")
"""What `include` may name: parts of items that no response of this server has."""

REPEATED = (
    *("instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "temperature", "text"),
    *("tool_choice", "tools", "top_p", "truncation"),
)
"""Fields of a request that its response repeats."""

EFFORTS = {"none": "off", "minimal": "low"}
"""Efforts of the API that are called otherwise here."""


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """The request in the form of a message, whether its answer streams, and the turn that it follows.

    `fields` are those that the response repeats.
    """

    request: ExecutionRequest
    streams: bool
    after: str | None
    fields: JsonObject

    @property
    def is_background(self) -> bool:
        """Whether the caller does not wait for the answer."""
        return self.fields.get("background") is True


def asked_of(request: ExecutionRequest, body: JsonObject) -> ResponseRequest:
    """The request of a body. Raises `InvalidRequest` for anything that this server does not do."""
    fields = {name: value for name, value in request.body_fields.items() if value is not None}
    streams, previous = fields.pop("stream", False), fields.pop("previous_response_id", None)
    background = fields.pop("background", False)
    fields.pop("stream_options", None)
    effort = _effort(fields.pop("reasoning", None))
    included = fields.pop("include", None)
    names = included if isinstance(included, list) else [included] if included else []
    if any(not str(name).startswith(NO_ITEMS) for name in names):
        raise InvalidRequest("“include” can't have this value here.", hint=INSTEAD["include"], param="include")
    for name, value in (("stream", streams), ("background", background)):
        if not isinstance(value, bool):
            raise InvalidRequest(f"“{name}” is true or false.", hint="Send one of them.", param=name)
    for name, value in fields.items():
        if name not in SAYS_NOTHING and value not in AS_EVER.get(name, ()):
            raise InvalidRequest(
                f"“{name[:60]}” can't have this value here.", hint=INSTEAD.get(name, "Leave it out."), param=name[:60]
            )
    if len(request.models) > 1:
        raise InvalidRequest(
            "A response is one model's.",
            hint="Name one; several answer by POST /api/v1/conversations/{conversation_id}/turns, as `models`.",
            param="models",
        )
    chosen = replace(request, thinking_effort=request.thinking_effort or effort)
    after = _turn_id(previous, request) if previous is not None else None
    repeated: dict[str, Json] = {name: body[name] for name in REPEATED if body.get(name) is not None}
    told: dict[str, Json] = {"metadata": dict(request.metadata), "background": background}
    told["previous_response_id"] = previous
    repeated |= {name: value for name, value in told.items() if value}
    return ResponseRequest(chosen, bool(streams), after, repeated)


def _effort(reasoning: Json) -> str | None:
    """The effort of a `reasoning` object. Its summary is streamed in any case."""
    if reasoning is None:
        return None
    if not isinstance(reasoning, Mapping) or set(reasoning) - {"effort", "summary", "generate_summary", "context"}:
        raise InvalidRequest("“reasoning” has an effort.", hint="Send {effort: …}.", param="reasoning")
    effort = reasoning.get("effort")
    return None if effort is None else EFFORTS.get(str(effort), str(effort))


def _turn_id(previous: Json, request: ExecutionRequest) -> str:
    if request.conversation_id is not None:
        raise InvalidRequest(
            "A request names its conversation or its previous response, not both.",
            hint="Leave one out.",
            param="previous_response_id",
        )
    if not isinstance(previous, str) or not previous.startswith(RESPONSE):
        raise InvalidRequest(
            f"A response's id begins with {RESPONSE}.", hint="Send it as it was given.", param="previous_response_id"
        )
    return TURN + previous.removeprefix(RESPONSE)


@router.post("/responses", responses={200: {JSON: AnyObject, EVENT_STREAM: AnyObject}})
async def create_response(
    body: dict[str, Any], request: Request, app: TheApp, identity: TheIdentity, key: IdempotencyKey = None
) -> Response:
    """Answer one message as a response of OpenAI's API: complete, or with `stream` as events.

    `conversation` or `previous_response_id` names the history; without either a new conversation begins. Other fields
    of an `ExecutionRequest` are in `metadata`.
    """
    placed = _in_conversation(body, request.headers.get(CONVERSATION_HEADER))
    response_request = asked_of(from_openai(placed), body)
    request_placed = await _placed(app, identity, response_request)
    with conversation_named(request_placed.conversation_id):
        request_placed = await _with_files(app, identity, request_placed, body, key)
        turn_id = await app.begin(request_placed, identity, key=key)
    turn = await app.store.turns.turn(identity.caller, turn_id)
    writer = ResponseWriter(turn, await _stored(app, identity, response_request, turn))
    packets = app.packets(turn_id, identity)
    if response_request.is_background and not response_request.streams:
        return JSONResponse(writer.response)
    if response_request.streams:
        return EventStream(written_events(writer, packets), request.state.silence)
    async for packet in packets:
        writer.take(packet)
    if writer.error is None:
        return JSONResponse(writer.response)
    # A client of the API would send what failed again by itself, and begin another turn.
    failed = {"error": dict(writer.error), "response": writer.response}
    status = STATUS.get(str(writer.error.get("code")), 500)
    return JSONResponse(failed, status_code=status, headers={"x-should-retry": "false"})


def _in_conversation(body: dict[str, Any], named: str | None) -> dict[str, Any]:
    """The body with the conversation that a header names, unless it names its place itself."""
    if named in (None, "new") or body.get("conversation") or body.get("previous_response_id"):
        return body
    return {**body, "conversation": named}


async def _placed(app: App, identity: Identity, request: ResponseRequest) -> ExecutionRequest:
    """The request after the response that it names. Raises `NotFound`."""
    if request.after is None:
        return request.request
    previous = response_id_of(request.after)
    stored = await app.store.responses.response(identity.caller, previous)
    try:
        turn = await app.store.turns.turn(identity.caller, request.after)
    except NotFound:
        turn = None
    if turn is None or (stored is not None and stored.deleted):
        raise no_response(previous, "previous_response_id")
    return replace(request.request, conversation_id=turn.conversation_id, parent_message_id=turn.run.id)


async def _stored(app: App, identity: Identity, request: ResponseRequest, turn: TurnRecord) -> JsonObject:
    """Store what the response has besides its turn; returns the fields that it repeats."""
    id, begins = response_id_of(turn.id), request.request.conversation_id is None and request.after is None
    if begins or request.fields:
        made = StoredResponse(id, turn.started_at, turn.id, fields=request.fields, begins=begins)
        await app.store.responses.add_response(identity.caller, made)
    return request.fields


_OWN = re.compile(rf"{RESPONSE}[0-9a-z]{{26}}", re.ASCII)


def is_own(response_id: str) -> bool:
    """Whether an id has the form of this server's: those of vendors are longer, or are no word of these letters."""
    return _OWN.fullmatch(response_id) is not None


def response_id_of(turn_id: str) -> str:
    """The id of a turn's response."""
    return RESPONSE + turn_id.removeprefix(TURN)


@contextmanager
def conversation_named(conversation_id: str | None) -> Iterator[None]:
    """Words the error for a conversation that is not there as OpenAI's API does."""
    try:
        yield
    except NotFound as error:
        if error.param != "conversation_id":
            raise
        named = str(conversation_id)[:80]
        raise NotFound(f"Conversation with id '{named}' not found.", param="conversation") from None


def no_response(response_id: str, param: str | None = None) -> NotFound:
    """The error for a response that is not there, in the words of OpenAI's API."""
    which = "Previous response" if param is not None else "Response"
    return NotFound(f"{which} with id '{response_id[:80]}' not found.", param=param)


async def _with_files(
    app: App, identity: Identity, request: ExecutionRequest, body: JsonObject, key: str | None
) -> ExecutionRequest:
    """The request with the files of its body, which are stored first. The same request sent again finds them."""
    ids: dict[str, str] = {}
    for file in read_input(body.get("input")).inline:
        its_key = None if key is None else f"{key}#{file.id}"
        ids[file.id] = (await app.intake.receive(identity.caller, file.name, _once(file.data), its_key)).id
    return replace(request, file_ids=tuple(ids.get(file_id, file_id) for file_id in request.file_ids))


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def written_events(writer: ResponseWriter, packets: AsyncIterator[AnyPacket]) -> AsyncGenerator[bytes, None]:
    yield writer.begin()
    async for packet in packets:
        if written := writer.take(packet):
            yield written


# Events


Item = dict[str, Any]

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter", "step_limit": "max_tool_calls"}
"""Why a response is incomplete, by the reason of a partial answer."""


ERRORS = {
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "invalid_prompt",
    "invalid_request": "invalid_prompt",
}
"""Codes of a failed response, by ours; `server_error` for all others."""


class ResponseWriter:
    """One response. Only calls of the caller's tools are items: of the server's a client would think them its to run.

    A call is written once it is handed out, after its step: one that was cut off or refused is not the caller's.
    `fields` are those of the request that it repeats. Events up to number `after` are not written.
    """

    def __init__(self, turn: TurnRecord, fields: JsonObject, after: float = -1) -> None:
        self._after = after
        self._suffix = turn.id.partition("_")[2]
        self._number = 0
        self._items: dict[int, Item] = {}
        """By the block of the turn, in the order that they began in."""
        self._open: int | None = None
        self._sources: dict[int, SourcePacket] = {}
        self.error: Mapping[str, str | None] | None = None
        self.response: Item = {
            "id": f"{RESPONSE}{self._suffix}",
            "object": "response",
            "created_at": int(turn.started_at.timestamp()),
            "status": "queued" if fields.get("background") else "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": turn.model,
            "conversation": {"id": turn.conversation_id},
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "tool_choice": "auto",
            "tools": [],
            "store": True,
            "temperature": None,
            "top_p": None,
            "usage": None,
            **fields,
        }

    def begin(self) -> bytes:
        """The first events."""
        written = self._event("response.created", response=self.response)
        if self.response["status"] == "queued":
            written += self._event("response.queued", response=self.response)
            self.response["status"] = "in_progress"
        return written + self._event("response.in_progress", response=self.response)

    def take(self, packet: AnyPacket) -> bytes:
        """The events of a packet; with that of the turn's end the response is whole."""
        match packet:
            case TextPacket() | ReasoningPacket():
                return b"".join(self._said(packet))
            case ToolCallPacket():
                return self._close()
            case ToolHandedOut():
                return self._close() + b"".join(self._handed_out(packet))
            case SourcePacket():
                self._sources[packet.document] = packet
            case CitationPacket():
                return self._cited(packet)
            case PartialPacket():
                self.response["incomplete_details"] = {"reason": INCOMPLETE[packet.reason]}
            case RunFinished():
                self.error = packet.error
            case TurnFinished():
                return self._close() + self._end(packet)
            case _:
                pass
        return b""

    def _said(self, packet: TextPacket | ReasoningPacket) -> Iterator[bytes]:
        block = packet.block_index or 0
        if block != self._open:
            yield self._close()
            yield self._begun(block, packet)
        item, place = self._items[block], self._place(block)
        if isinstance(packet, TextPacket):
            item["content"][0]["text"] += packet.text
            yield self._event("response.output_text.delta", **place, content_index=0, delta=packet.text, logprobs=[])
        else:
            item["summary"][0]["text"] += packet.text
            yield self._event("response.reasoning_summary_text.delta", **place, summary_index=0, delta=packet.text)

    def _handed_out(self, packet: ToolHandedOut) -> Iterator[bytes]:
        """A call of the caller's tool, whole."""
        block, call_id, name = packet.block_index or 0, packet.call_id, packet.name
        item: Item = {"id": f"fc_{self._suffix}_{block}", "type": "function_call", "call_id": call_id, "name": name}
        self._items[block] = item
        begun = {**item, "arguments": "", "status": "in_progress"}
        place, arguments = self._place(block), packet.arguments
        yield self._event("response.output_item.added", output_index=place["output_index"], item=begun)
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.function_call_arguments.done", **place, name=name, arguments=arguments)
        item |= {"arguments": arguments, "status": "completed"}
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _begun(self, block: int, packet: TextPacket | ReasoningPacket) -> bytes:
        """A new item, with its one part."""
        self._open = block
        if isinstance(packet, TextPacket):
            item: Item = {"id": f"msg_{self._suffix}_{block}", "type": "message", "role": "assistant"}
            held, part = "content", {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            kind, index = "response.content_part.added", "content_index"
        else:
            item = {"id": f"rs_{self._suffix}_{block}", "type": "reasoning"}
            held, part = "summary", {"type": "summary_text", "text": ""}
            kind, index = "response.reasoning_summary_part.added", "summary_index"
        self._items[block] = item
        added = self._event(
            "response.output_item.added", output_index=len(self._items) - 1, item={**item, held: [], **_running(item)}
        )
        item[held] = [part]
        return added + self._event(kind, **self._place(block), **{index: 0}, part=part)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        block, self._open = self._open, None
        item, place = self._items[block], self._place(block)
        if item["type"] == "message":
            [part] = item["content"]
            item["status"] = "completed"
            place["content_index"] = 0
            done = self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
            done += self._event("response.content_part.done", **place, part=part)
        else:
            [part] = item["summary"]
            place["summary_index"] = 0
            done = self._event("response.reasoning_summary_text.done", **place, text=part["text"])
            done += self._event("response.reasoning_summary_part.done", **place, part=part)
        return done + self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _cited(self, packet: CitationPacket) -> bytes:
        """A citation of a page by its address; of a file or a document by its name."""
        block, source = packet.block_index, self._sources.get(packet.document)
        item = self._items.get(block) if block is not None else None
        if block is None or item is None or source is None or item["type"] != "message":
            return b""
        annotations = item["content"][0]["annotations"]
        annotation = _annotation(packet, source)
        annotations.append(annotation)
        return self._event(
            "response.output_text.annotation.added",
            **self._place(block),
            content_index=0,
            annotation_index=len(annotations) - 1,
            annotation=annotation,
        )

    def _end(self, packet: TurnFinished) -> bytes:
        response, usage = self.response, packet.usage
        response["output"] = list(self._items.values())
        response["usage"] = {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }
        if packet.status == TurnStatus.INTERRUPTED:
            response["error"] = {"code": "server_error", "message": "The server stopped before the answer was whole."}
            # What a process wrote last before it was killed is not stored: the end has a number that is new to all.
            self._number = max(self._number, int(self._after) + 1)
        elif self.error is not None:
            code = str(self.error.get("code"))
            response["error"] = {"code": ERRORS.get(code, "server_error"), "message": self.error.get("message")}
        if packet.status == TurnStatus.STOPPED:
            response["status"] = "cancelled"
        elif response["error"] is not None or packet.status == TurnStatus.FAILED:
            response["status"] = "failed"
        else:
            response["status"] = "incomplete" if response["incomplete_details"] else "completed"
        # The API has no event of its own for an answer that was stopped.
        kind = "incomplete" if response["status"] == "cancelled" else response["status"]
        return self._event(f"response.{kind}", response=response)

    def _place(self, block: int) -> Item:
        return {"item_id": self._items[block]["id"], "output_index": list(self._items).index(block)}

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        if value["sequence_number"] <= self._after:
            return b""
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(value))


def _running(item: Item) -> Item:
    return {"status": "in_progress"} if item["type"] == "message" else {}


def _annotation(packet: CitationPacket, source: SourcePacket) -> Item:
    if source.url is not None:
        place = {"start_index": packet.start, "end_index": packet.end}
        return {"type": "url_citation", "url": source.url, "title": source.title, **place}
    file_id = source.file_id or f"document_{packet.document}"
    return {"type": "file_citation", "file_id": file_id, "filename": source.title, "index": packet.start}
