"""Lines: the conversations of clients whose requests went through the gateway."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

from fastapi import Request, Response

from lamella.app.forks import LineFork, fork_line
from lamella.cache.difference import Cause
from lamella.core.json import encode
from lamella.core.packets import UsageBody
from lamella.core.records import Line, LoopAlarm, LoopKind, Page, Replacement, ReplacementKind
from lamella.gateway.exchange import Recorded
from lamella.gateway.loops import told
from lamella.gateway.matching import Relation
from lamella.server.objects import Body, ListObject, Moment, Object, listed, usage_of
from lamella.server.routes.conversations import ConversationObject, conversation_object
from lamella.server.routes.requests import ModelRequestObject, request_object
from lamella.server.routing import TheApp, TheCaller, ThePage, api_router
from lamella.server.sse import EVENT_STREAM, EventStream, frame

router = api_router()


class LoopObject(Object, kw_only=True):
    """A client that loops: `text` says what happened. It did the same `times` times, in so many `requests` for `cost`
    US dollars; `refused` more were refused. `active`: it has not been silent for a minute since.
    """

    kind: LoopKind
    text: str
    times: int
    requests: int
    cost: float
    refused: int
    since: Moment
    at: Moment
    active: bool


class LineObject(Object, kw_only=True):
    """A client's conversation, recorded request by request. Its turns are those of the conversation `id`.

    `session` is the id by which the client groups its requests. `label` is `conversation`, or what a side call makes.
    `breaks` are the requests that did not read what was cached, `lost` and `lost_cost` the tokens and US dollars of
    that. `saved` is what the markers that were added here saved. `alarm` is the newest loop of its client.
    `compactions` are the summaries that were made here to keep the history short (managed context), and `context_saved`
    is about what that saved.
    """

    id: str
    object: Literal["line"] = "line"
    client: str
    session: str | None
    dialect: str
    label: str
    title: str
    model: str
    begun_at: Moment
    at: Moment
    requests: int
    turns: int
    breaks: int
    lost: int
    lost_cost: float
    saved: float
    compactions: int
    context_saved: float
    usage: UsageBody | None
    cost: float
    request_id: str
    alarm: LoopObject | None


class RecordedObject(Object, kw_only=True):
    """A request as it was recorded: its line, and why it read what it read from the cache."""

    object: Literal["line.request"] = "line.request"
    line: LineObject
    request: ModelRequestObject
    relation: Relation
    why: str
    cause: Cause


def line_object(line: Line, active: LoopAlarm | None) -> LineObject:
    """A line for the API, with the alarm that it has now."""
    alarm = active or line.alarm
    loop = LoopObject.of(alarm, text=told(alarm), active=active is not None) if alarm is not None else None
    return LineObject.of(line, usage=usage_of(line.usage), alarm=loop)


class ReplacementObject(Object, kw_only=True):
    """What stands upstream in the place of messages of a line (managed context).

    `kind` is `summary`, `prune` (old results of tools are stubs), or `undone` for a summary that was taken back.
    `numbers` are the figures behind it: `before` and `after` are tokens of the window. `request_id` is the first
    request that had it, null for none.
    """

    id: str
    object: Literal["line.replacement"] = "line.replacement"
    kind: ReplacementKind
    made_at: Moment
    why: str
    numbers: dict[str, float]
    summary: str
    request_id: str | None


def replacement_object(made: Replacement) -> ReplacementObject:
    """A replacement for the API."""
    return ReplacementObject.of(made, numbers=dict(made.numbers))


def recorded_object(recorded: Recorded, active: LoopAlarm | None) -> RecordedObject:
    """A recorded request for the API."""
    return RecordedObject(
        line=line_object(recorded.line, active),
        request=request_object(recorded.request),
        relation=recorded.relation,
        why=recorded.why.text,
        cause=recorded.why.cause,
    )


@router.get("/lines")
async def lines(app: TheApp, caller: TheCaller, page: ThePage) -> ListObject[LineObject]:
    """Your clients' conversations, the newest first."""
    alarm = app.gateway.recorder.alarm
    return listed(await app.store.lines.lines(caller, page), lambda line: line_object(line, alarm(caller, line)))


@router.get("/lines/live", responses={200: {EVENT_STREAM: RecordedObject}})
async def live_lines(request: Request, app: TheApp, caller: TheCaller) -> Response:
    """Your clients' requests as they are recorded."""

    async def written() -> AsyncGenerator[bytes, None]:
        number = 0
        recorder = app.gateway.recorder
        async with recorder.watch(caller) as records:
            async for recorded in records:
                number += 1
                made = recorded_object(recorded, recorder.alarm(caller, recorded.line))
                yield frame(number, encode(made))

    return EventStream(written(), request.state.silence)


class ForkBody(Body):
    """`POST /api/v1/lines/{id}/fork`. All up to the turn `turn_id` is taken, by default up to the newest; `system`: the
    client's system prompt too, in the first message.
    """

    turn_id: str | None = None
    system: bool = False


@router.post("/lines/{line_id}/fork", status_code=201)
async def fork(line_id: str, body: ForkBody, app: TheApp, caller: TheCaller) -> ConversationObject:
    """A new conversation that begins with the turns of a line, to go on with here. The line stays as it is."""
    return conversation_object(await fork_line(app.agents, caller, line_id, LineFork(body.turn_id, body.system)))


@router.get("/lines/{line_id}")
async def line(line_id: str, app: TheApp, caller: TheCaller) -> LineObject:
    """One line."""
    found = await app.store.lines.line(caller, line_id)
    return line_object(found, app.gateway.recorder.alarm(caller, found))
    return line_object(await app.store.lines.line(caller, line_id))


@router.get("/lines/{line_id}/replacements")
async def replacements(line_id: str, app: TheApp, caller: TheCaller) -> ListObject[ReplacementObject]:
    """What stands upstream in the place of a line's messages, the oldest first."""
    found = await app.store.lines.replacements_of_line(caller, line_id)
    return listed(Page(found, False), replacement_object)


@router.delete("/lines/{line_id}/replacements/{replacement_id}")
async def undo_replacement(line_id: str, replacement_id: str, app: TheApp, caller: TheCaller) -> ReplacementObject:
    """Take a replacement back: the messages go on upstream as the client sends them. No summary is made by itself of
    messages of which one was taken back.
    """
    return replacement_object(await app.store.lines.undo_replacement(caller, line_id, replacement_id))
