"""Lines: the conversations of clients whose requests went through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import msgspec
from fastapi import Request, Response
from pydantic import Field

from lamella.app.app import App
from lamella.app.forks import LineFork, fork_line
from lamella.cache.difference import Cause
from lamella.core.access import Identity, LineStorage
from lamella.core.caching import Ttl
from lamella.core.errors import InvalidRequest
from lamella.core.json import decode_object, encode
from lamella.core.packets import UsageBody
from lamella.core.prompt import Marker
from lamella.core.records import Line, LoopAlarm, LoopKind, Page, Replacement, ReplacementKind
from lamella.gateway.dialects import Dialect, ObservedWindow, rough_tokens_of
from lamella.gateway.exchange import Exchange, Recorded, Route, window_of_exchange
from lamella.gateway.loops import told
from lamella.gateway.matching import Relation
from lamella.gateway.observed import hashed_session
from lamella.gateway.relay import fields_of, model_of
from lamella.gateway.wrap import RECORDED_HEADERS
from lamella.llm.upstream import Upstream
from lamella.server.objects import Body, ListObject, Moment, Object, listed, usage_of
from lamella.server.routes.conversations import ConversationObject, conversation_object
from lamella.server.routes.requests import ModelRequestObject, request_object
from lamella.server.routing import TheApp, TheCaller, TheIdentity, ThePage, api_router
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

    `session` is the id by which the client groups its requests. `label` is `conversation`, what a side call makes, or
    `refused` while the upstream has taken no request of it.
    `breaks` are the requests that did not read what was cached, `lost` and `lost_cost` the tokens and US dollars of
    that. `saved` is what the markers that were added here saved. `alarm` is the newest loop of its client. If the bill
    of an answer that was cut is estimated, so are the sums: `usage.estimated`.
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


class AddedMarkerBody(Body):
    """A marker that was added to a request: the block of the window that it follows, and why it is there."""

    index: int = Field(ge=0)
    ttl: Literal["5m", "30m", "1h"]
    why: str = Field(max_length=1_000)


class RecordBody(Body):
    """`POST /api/v1/lines/records`: a request that a program sent to the vendor itself, with its answer.

    `body` and `answer` are the bytes that passed, as text; `markers` are those that were added to the body. `headers`
    are those of the answer, `age` the seconds since the request began, `took` the seconds until its answer had ended.
    `account` names the cache that requests share, such as an address with a digest of the key.
    """

    dialect: Literal["messages", "chat", "responses"]
    body: str
    status: int = Field(ge=0, le=599)
    headers: dict[str, str] = Field({}, max_length=50)
    answer: str = ""
    markers: list[AddedMarkerBody] = Field([], max_length=8)
    age: float = Field(0.0, ge=0, le=86_400)
    took: float = Field(0.0, ge=0, le=86_400)
    left: bool = False
    client: str = Field("unnamed", max_length=200)
    session: str | None = Field(None, max_length=200)
    account: str = Field("", max_length=300)


class PostedRecordObject(Object, kw_only=True):
    """What was recorded; null if nothing is stored of the requests of this key."""

    object: Literal["line.record"] = "line.record"
    recorded: RecordedObject | None


@router.post("/lines/records", status_code=201)
async def post_record(body: RecordBody, app: TheApp, identity: TheIdentity) -> PostedRecordObject:
    """Record a request that went to its vendor without this server, as if it had passed the gateway."""
    exchange = _exchange(body, app, identity)
    if exchange.storage is LineStorage.OFF:
        return PostedRecordObject(recorded=None)
    window = await asyncio.to_thread(_window, exchange)
    if any(one.index >= len(window.blocks) for one in exchange.added):
        raise InvalidRequest("A marker follows no block of the body.", hint="Send its index.", param="markers")
    recorder = app.gateway.recorder
    exchange.recorded = asyncio.get_running_loop().create_future()
    recorder.take(exchange)
    recorded = await exchange.recorded
    return PostedRecordObject(recorded=recorded_object(recorded, recorder.alarm(identity.caller, recorded.line)))


def _exchange(sent: RecordBody, app: App, identity: Identity) -> Exchange:
    """The exchange of a record. Its cache belongs to its owner alone, since nobody can tell whose the account is."""
    dialect, gateway, body = Dialect[sent.dialect.upper()], app.gateway, sent.body.encode()
    model = model_of(fields_of(body))
    facts = gateway.facts(model, "anthropic" if dialect is Dialect.MESSAGES else "openai")
    account = f"{identity.caller.user_id}/{sent.account}".replace("\0", "")
    upstream = Upstream("The provider", "", 1.0)
    route = Route(upstream, "", "", model, account, replace(facts, name=model), dialect)
    storage = identity.options.storage or gateway.storage
    session = sent.session.replace("\0", "") if sent.session else None
    if session and storage is LineStorage.HASHES:
        session = hashed_session(session)
    at = gateway.clock.now() - timedelta(seconds=sent.age)
    client = sent.client.replace("\0", "") or "unnamed"
    exchange = Exchange(identity.caller, dialect, client, session or None, route, body, at, storage)
    exchange.added = tuple(Marker(one.index, Ttl(one.ttl), one.why.replace("\0", "")) for one in sent.markers)
    exchange.status, exchange.left, exchange.ended = sent.status, sent.left, at + timedelta(seconds=sent.took)
    headers = {name.lower(): value.replace("\0", "") for name, value in sent.headers.items()}
    exchange.headers = {name: headers[name] for name in RECORDED_HEADERS if name in headers}
    exchange.keep(sent.answer.encode())
    return exchange


def _window(exchange: Exchange) -> ObservedWindow:
    """The window of a request's body. Raises `InvalidRequest` for what is no request of its API."""
    name, kinds = ("input", list | str) if exchange.dialect is Dialect.RESPONSES else ("messages", list)
    try:
        if not isinstance(decode_object(exchange.body).get(name), kinds):
            raise InvalidRequest(
                f"The body is no request of this API: it has no list “{name}”.", hint="Name its API.", param="dialect"
            )
        return window_of_exchange(exchange, rough_tokens_of)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body can't be read: {error}.", hint="Send it as it went.", param="body") from None


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
