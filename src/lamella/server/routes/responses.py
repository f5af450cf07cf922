"""`POST /v1/responses`: the chat for clients of OpenAI's Responses API.

A field that can't be followed is refused; none is ignored silently. The packets of its turn
are written as the events of a response, and as the response they come to:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from lamella.app.app import App
from lamella.app.conversations import NewConversation
from lamella.chat.message import ExecutionRequest
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, LamellaError, NotFound
from lamella.core.ids import LENGTHS
from lamella.core.json import Json, JsonObject
from lamella.core.packets import (
    AnyPacket,
)
from lamella.core.records import StoredResponse, TurnRecord
from lamella.gateway.errors import STATUS
from lamella.server.objects import AnyObject
from lamella.server.routes.added_items import DraftTurn, read_items, store_items
from lamella.server.routes.openai_items import RESPONSE as RESPONSE
from lamella.server.routes.openai_items import TURN as TURN
from lamella.server.routes.openai_items import read_input, with_history
from lamella.server.routes.openai_request import from_openai
from lamella.server.routes.response_writer import ResponseWriter
from lamella.server.routing import JSON, IdempotencyKey, TheApp, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, EventStream

router = api_router("/v1")

MOST_HISTORY = 2_000
"""The most items of a history before the first message."""

CONVERSATION_HEADER = "x-conversation-id"
"""The conversation of a request whose body can't name it; `new` begins one."""

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

    `conversation` or `previous_response_id` names the history; without either a new conversation begins, with the
    history that the input may have before its new message. Other fields of an `ExecutionRequest` are in `metadata`.
    """
    placed, drafts = _with_drafts(_in_conversation(body, request.headers.get(CONVERSATION_HEADER)))
    response_request = asked_of(from_openai(placed), body)
    request_placed = await _placed(app, identity, response_request)
    with in_vendor_words(request_placed.conversation_id):
        request_placed = await _with_files(app, identity, request_placed, placed, key)
        turn_id = await _begun(app, identity, request_placed, drafts, key)
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


def _with_drafts(body: dict[str, Any]) -> tuple[dict[str, Any], list[DraftTurn]]:
    """The body with what is new, and the turns of the history before it, which only a first request may have."""
    if body.get("conversation") or body.get("previous_response_id"):
        return body, []
    history, new = with_history(body.get("input"))
    drafts = read_items(history, None, "input", MOST_HISTORY) if history else []
    return {**body, "input": new}, drafts


async def _begun(
    app: App, identity: Identity, request: ExecutionRequest, drafts: Sequence[DraftTurn], key: str | None
) -> str:
    """Begin the turn of a request, after the history that it brings. A refused request leaves no conversation."""
    if not drafts:
        return await app.begin(request, identity, key=key)
    asked = NewConversation(model=request.models[0] if request.models else None)
    its_key = None if key is None else f"{key}#conversation"
    conversation = await app.conversations.create(identity.caller, asked, its_key)
    try:
        if conversation.head is None:
            await store_items(app, identity, conversation, drafts)
        return await app.begin(replace(request, conversation_id=conversation.id), identity, key=key)
    except LamellaError:
        if key is None:
            await app.chat.delete(identity.caller, conversation.id)
        raise


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


_OWN = re.compile(rf"{RESPONSE}(?:{'|'.join(f'[0-9a-z]{{{length}}}' for length in LENGTHS)})", re.ASCII)


def is_own(response_id: str) -> bool:
    """Whether an id has the form of this server's: those of vendors are longer, or are no word of these letters."""
    return _OWN.fullmatch(response_id) is not None


def response_id_of(turn_id: str) -> str:
    """The id of a turn's response."""
    return RESPONSE + turn_id.removeprefix(TURN)


_NAMED = {"text": "input", "file_ids": "input", "regenerate": "input"}
"""Fields of OpenAI's API by fields of a message."""


@contextmanager
def in_vendor_words(conversation_id: str | None) -> Iterator[None]:
    """Words errors about a conversation, a model and a message as OpenAI's API does."""
    try:
        yield
    except NotFound as error:
        if error.param == "conversation_id":
            named = str(conversation_id)[:80]
            raise NotFound(f"Conversation with id '{named}' not found.", param="conversation") from None
        error.param = _NAMED.get(str(error.param), error.param)
        raise
    except InvalidRequest as error:
        if error.param == "model":
            raise NotFound(error.message, hint=error.hint, param="model") from None
        error.param = _NAMED.get(str(error.param), error.param)
        raise


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
