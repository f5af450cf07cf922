"""Sending messages: a message is answered or put into the queue. And the queue."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeGuard

import msgspec
from fastapi import Depends, Request, Response
from msgspec import UNSET, UnsetType
from pydantic import Field, StringConstraints
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lamella.app.app import App
from lamella.chat import Chat, IncomingMessage, Message, OutgoingMessage, Queued, WaitPolicy
from lamella.chat.message import own_tool
from lamella.chat.queued import QueuedContent, sent_of
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.packets import AnyPacket
from lamella.core.ports import Batch
from lamella.core.records import UNCHANGED, Caller, Choices, Notice, NoticeKind, QueueStatus
from lamella.gateway.errors import STATUS
from lamella.server.objects import (
    PREFIX,
    AnyObject,
    Body,
    Effort,
    FailureObject,
    Id,
    ListObject,
    Moment,
    Object,
    effort_given,
    whole_list,
)
from lamella.server.routes.turns import TurnObject, turn_object
from lamella.server.routing import JSON, Answers, IdempotencyKey, TheApp, TheCaller, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, event_stream

router = api_router()


class MessageBody(Body):
    """The content of a message. `agent_id` null: no agent in this turn; left out: the conversation's."""

    text: str
    file_ids: list[Id] = Field(default_factory=list)
    timezone: Annotated[str, StringConstraints(max_length=80)] = "UTC"
    dynamic_context: Annotated[list[str], Field(max_length=20)] | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    agent_id: Id | None = None
    thinking_effort: Effort | None = None
    knowledge_base_ids: Annotated[list[Id], Field(max_length=20)] = Field(default_factory=list)


class OwnToolBody(Body):
    """A tool of the caller's. `input_schema` is a JSON schema of type object."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None


class ResultBody(Body):
    """The result of a call that was handed out, as the model is to read it."""

    call_id: Id
    content: str
    is_error: bool = False


class NewTurnBody(MessageBody):
    """`POST /api/v1/conversations/{id}/turns`. `queue` false: answer now or refuse. `debounce_ms` overrides the
    setting; 0 answers at once, together with waiting messages. `parent_message_id` is the message that it follows: null
    for the beginning, left out for the current position. `regenerate` is a turn to answer again, instead of a text.

    `tools` are the caller's own: a call of one ends the turn, and the next one brings `results`, with or without a
    text. Such a message is not queued.
    """

    text: str = ""
    models: Annotated[list[Id], Field(min_length=1, max_length=3)] | None = None
    parent_message_id: Id | None = None
    regenerate: Id | None = None
    tools: Annotated[list[OwnToolBody], Field(max_length=128)] | None = None
    results: Annotated[list[ResultBody], Field(max_length=128)] = Field(default_factory=list)
    queue: bool = True
    debounce_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None

    def patience(self) -> WaitPolicy:
        """How long the message may wait."""
        return WaitPolicy(self.queue, None if self.debounce_ms is None else self.debounce_ms / 1000)


class PreviewBody(MessageBody):
    """`POST /api/v1/context/preview`."""

    conversation_id: Id
    model: Id | None = None


class QueuedPatch(Body):
    """`PATCH /api/v1/conversations/{id}/queue/{message_id}`."""

    text: str


def message_of(body: NewTurnBody | PreviewBody) -> Message:
    """The message of a body."""
    models = ([body.model] if body.model else []) if isinstance(body, PreviewBody) else body.models
    agent_id = body.agent_id if "agent_id" in body.model_fields_set else UNCHANGED
    return Message(
        text=body.text,
        file_ids=tuple(body.file_ids),
        timezone=body.timezone,
        models=tuple(models or ()),
        parent_message_id=body.parent_message_id if _names_parent(body) else UNCHANGED,
        tools=_tools_of(body),
        results=_results_of(body),
        dynamic=tuple(body.dynamic_context or ()),
        choices=Choices(
            body.layout,
            body.marker_policy,
            agent_id,
            effort_given(body.thinking_effort),
            tuple(body.knowledge_base_ids),
        ),
    )


def _tools_of(body: NewTurnBody | PreviewBody) -> tuple[ToolSpec, ...] | None:
    if isinstance(body, PreviewBody) or body.tools is None:
        return None
    named = enumerate(body.tools)
    return tuple(own_tool(tool.name, tool.description, tool.input_schema, f"tools.{n}") for n, tool in named)


def _results_of(body: NewTurnBody | PreviewBody) -> tuple[ToolResult, ...]:
    if isinstance(body, PreviewBody):
        return ()
    return tuple(ToolResult(result.call_id, "", result.content, result.is_error) for result in body.results)


def _names_parent(body: NewTurnBody | PreviewBody) -> TypeGuard[NewTurnBody]:
    return isinstance(body, NewTurnBody) and "parent_message_id" in body.model_fields_set


class QueuedMessageObject(Object, kw_only=True):
    """A message or command of the queue; `position` counts from 1, null if it waits no more.

    `starting`: its turn is about to be stored, which may wait for a compaction; it can't be changed any more.
    """

    id: str
    object: Literal["queued_message"] = "queued_message"
    conversation_id: str
    kind: Literal["message", "command"]
    position: int | None
    sender: str
    text: str
    file_ids: list[str]
    model: str | None
    models: list[str]
    sent_at: Moment
    timezone: str
    due_at: Moment | None
    status: QueueStatus
    starting: bool
    turn_id: str | None


class NoticeObject(Object, kw_only=True):
    """A command with its answer, or a notification: shown after the turn `turn_id`, null before the first, and read by
    no model. `data` says the same for programs."""

    id: str
    conversation_id: str
    turn_id: str | None
    data: AnyObject
    at: Moment


class CommandObject(NoticeObject, kw_only=True):
    """A command with its answer."""

    object: Literal["command"] = "command"
    name: str
    argument: str
    answer: str


class NotificationObject(NoticeObject, kw_only=True):
    """A report about the conversation, such as a compaction."""

    object: Literal["notification"] = "notification"
    name: NoticeKind
    text: str


class NotAnsweredObject(FailureObject, kw_only=True):
    """The turn failed, or the message did not become a turn: the error and the partial result."""

    turn: TurnObject | UnsetType = UNSET
    queued: QueuedMessageObject | UnsetType = UNSET


def notice_object(notice: Notice) -> NoticeObject:
    """A command with its answer, or a notification."""
    data = dict(notice.data)
    if notice.kind is NoticeKind.COMMAND:
        return CommandObject.of(notice, data=data, answer=notice.text)
    return NotificationObject.of(notice, data=data, name=notice.kind)


def queued_object(queued: Queued) -> QueuedMessageObject:
    """A message or command of the queue."""
    sent = sent_of(queued.row)
    words = sent if isinstance(sent, QueuedContent) else None
    return QueuedMessageObject.of(
        queued.row,
        kind="message" if words else "command",
        position=queued.place or None,
        file_ids=words.file_ids if words else [],
        model=words.models[0] if words else None,
        models=words.models if words else [],
        due_at=words.due.isoformat() if words else None,
        starting=queued.begins,
    )


# Sending

_TURNS = re.compile(rf"{PREFIX}/conversations/([^/]+)/turns")
_ARRIVAL = "arrival"


class Arrivals:
    """Notes an incoming message when its request begins, so that an `/abort` sent after it applies to it.

    It runs before authentication and grants no access; only `/abort` reads its notes.
    """

    def __init__(self, app: ASGIApp, chat: Chat) -> None:
        self._app = app
        self._chat = chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _TURNS.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if named is None:
            await self._app(scope, receive, send)
            return
        with self._chat.sender.arriving(named[1]) as arrival:
            scope.setdefault("state", {})[_ARRIVAL] = arrival
            await self._app(scope, receive, send)


async def _arrival(request: Request) -> IncomingMessage:
    arrival: IncomingMessage = request.scope["state"][_ARRIVAL]
    return arrival


TheArrival = Annotated[IncomingMessage, Depends(_arrival)]


SENT: Answers = {
    200: {JSON: TurnObject | CommandObject | NotificationObject | QueuedMessageObject, EVENT_STREAM: AnyPacket},
    202: {JSON: QueuedMessageObject, EVENT_STREAM: AnyPacket},
    500: {JSON: NotAnsweredObject},
}
"""The answers to a message. A failed turn has its error's own status, which is not always 500."""


def wants_json(accept: str) -> bool:
    """Whether the Accept header names JSON and not the stream."""
    named = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    return JSON in named and EVENT_STREAM not in named


@router.post("/conversations/{conversation_id}/turns", responses=SENT)
async def send(
    conversation_id: str,
    body: NewTurnBody,
    request: Request,
    app: TheApp,
    identity: TheIdentity,
    arrival: TheArrival,
    key: IdempotencyKey = None,
) -> Response:
    """Send a message. Returns the turn's packets, or with `Accept: application/json` the finished turn.

    A message that must wait returns 202: a stream that begins with `turn.queued` and continues with its turn, or JSON
    with its position in the queue. A command returns one packet, or JSON.
    """
    asked = OutgoingMessage(replace(message_of(body), key=key), body.patience(), body.regenerate)
    done = await app.chat.sender.send(identity, conversation_id, asked, arrival)
    packets = await app.chat.packets(identity.caller, done)
    if not wants_json(request.headers.get("accept", "")):
        return event_stream(packets, request.state.silence, 202 if isinstance(done, Queued) else 200)
    return await in_json(app, identity.caller, done, packets)


async def in_json(app: App, caller: Caller, done: str | Queued | Notice, packets: AsyncIterator[Batch]) -> Response:
    """A command's answer; a message's finished turn, or its position in the queue."""
    if isinstance(done, Notice):
        return _answer(notice_object(done))
    if isinstance(done, Queued) and done.place and not done.only_debounced:
        return _answer(queued_object(done), 202)
    async for _ in packets:
        pass
    if isinstance(done, str):
        return await _turn(app, caller, done)
    return await _left(app, caller, done)


async def _turn(app: App, caller: Caller, turn_id: str) -> Response:
    turn = await app.store.turns.turn(caller, turn_id)
    if turn.error is None:
        return _answer(turn_object(turn))
    return _failed(dict(turn.error), turn=turn_object(turn))


async def _left(app: App, caller: Caller, queued: Queued) -> Response:
    """The outcome of a message that waited only for its debounce."""
    found = await app.chat.queue.find(caller, queued.row.conversation_id, queued.row.id)
    if found.row.turn_id is not None:
        return await _turn(app, caller, found.row.turn_id)
    if found.row.status in (QueueStatus.QUEUED, QueueStatus.CANCELLED):
        return _answer(queued_object(found), 202 if found.place else 200)
    notice = await app.store.notices.notice(caller, found.row.notice_id)
    if found.row.status is QueueStatus.BEGUN:
        return _answer(notice_object(notice))
    error = notice.data["error"]
    assert isinstance(error, dict)
    return _failed(error, queued=queued_object(found))


def _failed(error: dict[str, Any], **beside: Any) -> Response:
    status = STATUS.get(str(error.get("code")), 500)
    return _answer(NotAnsweredObject(error=error, **beside), status)  # type: ignore[arg-type]


def _answer(answer: Object, status: int = 200) -> Response:
    return JSONResponse(msgspec.to_builtins(answer), status)


# What waits


@router.get("/conversations/{conversation_id}/queue")
async def queue(conversation_id: str, app: TheApp, caller: TheCaller) -> ListObject[QueuedMessageObject]:
    """The messages and commands that wait, in order."""
    return whole_list([queued_object(one) for one in await app.chat.queue.listed(caller, conversation_id)])


@router.post("/conversations/{conversation_id}/queue/flush")
async def flush(conversation_id: str, app: TheApp, caller: TheCaller) -> ListObject[QueuedMessageObject]:
    """Answer the queue as soon as the conversation is free, without waiting for more messages. Returns the queue."""
    await app.chat.flush(caller, conversation_id)
    return whole_list([queued_object(one) for one in await app.chat.queue.listed(caller, conversation_id)])


@router.get("/conversations/{conversation_id}/queue/{message_id}")
async def queued(conversation_id: str, message_id: str, app: TheApp, caller: TheCaller) -> QueuedMessageObject:
    """One message, whether or not it still waits; `turn_id` is the turn that answers it."""
    return queued_object(await app.chat.queue.find(caller, conversation_id, message_id))


@router.get("/conversations/{conversation_id}/queue/{message_id}/events", responses={200: {EVENT_STREAM: AnyPacket}})
async def events_of_queued(
    conversation_id: str, message_id: str, request: Request, app: TheApp, caller: TheCaller
) -> Response:
    """`turn.queued`, then the packets of the turn that answers it, or its other outcome."""
    found = await app.chat.queue.find(caller, conversation_id, message_id)
    return event_stream(await app.chat.packets(caller, found), request.state.silence)


@router.patch("/conversations/{conversation_id}/queue/{message_id}")
async def change_queued(
    conversation_id: str, message_id: str, body: QueuedPatch, app: TheApp, caller: TheCaller
) -> QueuedMessageObject:
    """Change the text of a queued message."""
    return queued_object(await app.chat.queue.change(caller, conversation_id, message_id, body.text))


@router.delete("/conversations/{conversation_id}/queue/{message_id}", status_code=204)
async def cancel_queued(conversation_id: str, message_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a message or command from the queue."""
    await app.chat.queue.cancel(caller, conversation_id, message_id)
    return Response(status_code=204)
