"""Commands, notifications and sessions. Each action is a command, answered and stored as if typed. And the search over
messages.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response
from msgspec import UNSET, UnsetType
from pydantic import StringConstraints

from lamella.app.app import App
from lamella.chat import Message
from lamella.commands.parse import TypedCommand
from lamella.core.errors import InvalidRequest
from lamella.core.packets import UsageBody
from lamella.core.recall import Hit, SessionHit
from lamella.core.records import Caller
from lamella.core.sessions import CarriedSummary, Session, SessionCause
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.server.objects import (
    Body,
    ListObject,
    Moment,
    Object,
    SnippetObject,
    listed,
    snippet_object,
    usage_of,
    whole_list,
)
from lamella.server.routes.sending import (
    CommandObject,
    NoticeObject,
    QueuedMessageObject,
    in_json,
    notice_object,
)
from lamella.server.routing import JSON, Answers, IdempotencyKey, TheApp, TheCaller, ThePage, api_router
from lamella.sessions.sessions import SessionFigures

router = api_router()


class CommandBody(Body):
    """`POST /api/v1/conversations/{id}/commands`."""

    text: Annotated[str, StringConstraints(max_length=4000)]
    queue: bool = True


class CompactBody(Body):
    """`POST /api/v1/conversations/{id}/compact`."""

    focus: Annotated[str, StringConstraints(max_length=2000)] = ""


class CommandKindObject(Object, kw_only=True):
    """A command to choose from."""

    name: str
    object: Literal["command.kind"] = "command.kind"
    usage: str
    summary: str


class CarriedObject(Object, kw_only=True):
    """An earlier summary in the window of a session: the `lines` that are shown, counted from 0; null for all."""

    session_id: str
    lines: list[int] | None


class SummaryCheckObject(Object, kw_only=True):
    """The comparison of a summary with its source: `items` were looked for, `kept_literally` were added word for word.
    `ranks` is the importance of each line, 0 most. Empty if nothing was checked.
    """

    items: int | UnsetType = UNSET
    found: int | UnsetType = UNSET
    kept_literally: list[str] | UnsetType = UNSET
    missing: list[str] | UnsetType = UNSET
    missing_count: int | UnsetType = UNSET
    invented: list[str] | UnsetType = UNSET
    unknown_ids: list[str] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    ranks: list[int] | UnsetType = UNSET


class SessionObject(Object, kw_only=True):
    """A session. Its window holds the turns after `begins_after`.

    `numbers` are the figures of the compaction that opened it, in tokens; `usage` is its usage by purpose. `check`
    compares its summary with the source, and names the model.
    """

    id: str
    object: Literal["session"] = "session"
    conversation_id: str
    number: int
    current: bool
    parent_id: str | None
    begins_after: str | None
    inherits_summary: bool
    carried_summaries: list[CarriedObject] | None
    opened_at: Moment
    opened_by: SessionCause
    closed_at: Moment | None
    closed_by: SessionCause | None
    why: str
    summary: str | None
    summary_tokens: int
    check: SummaryCheckObject
    messages: int
    numbers: dict[str, float]
    usage: dict[str, UsageBody]


class SearchHitObject(Object, kw_only=True):
    """A found passage. `call_id` and `name` are set for a tool's result."""

    object: Literal["search.hit"] = "search.hit"
    conversation_id: str
    session_id: str
    turn_id: str
    message_id: str
    call_id: str | None
    role: Literal["user", "assistant", "tool"]
    name: str | None
    at: Moment
    score: float
    snippet: SnippetObject


class SessionHitObject(Object, kw_only=True):
    """A session that was found, with its best passage."""

    id: str
    object: Literal["search.session"] = "search.session"
    conversation_id: str
    number: int
    opened_at: Moment
    score: float
    summary: str | None
    best: SearchHitObject | None


class SearchObject(Object, kw_only=True):
    """The hits of a search. `lexical_only_reason` says why vectors took no part, null if they did."""

    object: Literal["search"] = "search"
    query: str
    embedder: str
    lexical_only_reason: str | None
    data: list[SearchHitObject]
    sessions: list[SessionHitObject]


def session_object(session: Session, figures: SessionFigures) -> SessionObject:
    """A session with its figures."""
    return SessionObject.of(
        session,
        current=session.id == figures.current_id,
        inherits_summary=session.inherits,
        carried_summaries=None if session.carries is None else [_carried(one) for one in session.carries],
        check=dict(session.check),
        messages=figures.messages.get(session.id, 0),
        numbers=dict(figures.numbers.get(session.id, {})),
        usage={purpose: usage_of(usage) for purpose, usage in session.usage.items()},
    )


def _carried(carried: CarriedSummary) -> CarriedObject:
    return CarriedObject(session_id=carried.session_id, lines=None if carried.lines is None else list(carried.lines))


def search_hit_object(hit: Hit, terms: tuple[str, ...]) -> SearchHitObject:
    """A found passage."""
    source = hit.source
    return SearchHitObject.of(
        source,
        message_id=source.id,
        call_id=source.call_id or None,
        role=source.speaker,
        name=source.name or None,
        score=round(hit.score, 4),
        snippet=snippet_object(snippet_of(source.content, terms, hit.start, hit.end)),
    )


def session_hit_object(hit: SessionHit, session: Session, terms: tuple[str, ...]) -> SessionHitObject:
    """A session that was found."""
    return SessionHitObject.of(
        session,
        score=round(hit.score, 4),
        summary=snippet_of(session.summary, terms).text if session.summary else None,
        best=search_hit_object(hit.best, terms) if hit.best is not None else None,
    )


@router.get("/sessions/search")
async def search(
    app: TheApp,
    caller: TheCaller,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    conversation_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> SearchObject:
    """Search messages for `q`, by words and meaning, in one conversation or in all. Also returns the best sessions."""
    found = await app.recall.search(caller, q, conversation_id, limit)
    terms = query_terms(q)
    sessions = [
        session_hit_object(hit, await app.store.sessions.session(caller, hit.session_id), terms)
        for hit in found.sessions
    ]
    return SearchObject(
        query=q,
        embedder=app.recall.embedder,
        lexical_only_reason=found.without or None,
        data=[search_hit_object(hit, terms) for hit in found.hits],
        sessions=sessions[:limit],
    )


COMMANDED: Answers = {200: {JSON: CommandObject}, 202: {JSON: QueuedMessageObject}}
"""The answers to a command."""


@router.post("/conversations/{conversation_id}/commands", responses=COMMANDED)
async def command(
    conversation_id: str, body: CommandBody, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> Response:
    """Run a command such as `/status`. No model is asked."""
    typed = app.chat.sender.read(Message(body.text))
    if not isinstance(typed, TypedCommand):
        raise InvalidRequest(
            "This is no command.",
            hint="Commands begin with a slash; /help lists them. Messages are turns.",
            param="text",
        )
    return await _run(app, caller, conversation_id, typed, key, queue=body.queue)


@router.get("/conversations/{conversation_id}/commands")
async def commands(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[NoticeObject]:
    """The commands of a conversation with their answers, and its notifications."""
    return listed(await app.store.notices.notices(caller, conversation_id, page), notice_object)


@router.get("/commands")
async def known(app: TheApp) -> ListObject[CommandKindObject]:
    """The commands to choose from."""
    return whole_list([CommandKindObject.of(command) for command in app.chat.commands.all()], "name")


@router.get("/conversations/{conversation_id}/sessions")
async def sessions(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[SessionObject]:
    """The sessions of a conversation."""
    found = await app.store.sessions.session_page(caller, conversation_id, page)
    figures = await app.sessions.figures(caller, conversation_id)
    return listed(found, lambda session: session_object(session, figures))


@router.get("/sessions/{session_id}")
async def session(session_id: str, app: TheApp, caller: TheCaller) -> SessionObject:
    """One session."""
    found = await app.store.sessions.session(caller, session_id)
    return session_object(found, await app.sessions.figures(caller, found.conversation_id))


@router.post("/conversations/{conversation_id}/compact", responses=COMMANDED)
async def compact(
    conversation_id: str, app: TheApp, caller: TheCaller, body: CompactBody | None = None, key: IdempotencyKey = None
) -> Response:
    """`/compact`, with an optional focus."""
    focus = body.focus.strip() if body is not None else ""
    return await _run(app, caller, conversation_id, TypedCommand("compact", focus), key)


@router.post("/conversations/{conversation_id}/prune", responses=COMMANDED)
async def prune(conversation_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/prune`."""
    return await _run(app, caller, conversation_id, TypedCommand("prune"), key)


@router.post("/conversations/{conversation_id}/new", responses=COMMANDED)
async def new(conversation_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/new`."""
    return await _run(app, caller, conversation_id, TypedCommand("new"), key)


@router.post("/sessions/{session_id}/undo", responses=COMMANDED)
async def undo(session_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/undo ID`."""
    found = await app.store.sessions.session(caller, session_id)
    return await _run(app, caller, found.conversation_id, TypedCommand("undo", found.id), key)


@router.post("/sessions/{session_id}/resume", responses=COMMANDED)
async def resume(session_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/resume ID`."""
    found = await app.store.sessions.session(caller, session_id)
    return await _run(app, caller, found.conversation_id, TypedCommand("resume", found.id), key)


async def _run(
    app: App, caller: Caller, conversation_id: str, typed: TypedCommand, key: str | None, *, queue: bool = True
) -> Response:
    """The command's answer; 202 with its position in the queue if it must wait."""
    done = await app.chat.orders.submit(caller, conversation_id, typed, key=key, queue=queue)
    return await in_json(app, caller, done, await app.chat.packets(caller, done))
