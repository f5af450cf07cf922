"""Commands and sessions under `/api/v1`: each verb is a command, answered and stored as if it had been typed."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lamella.app.app import App
from lamella.chat import Message
from lamella.commands.parse import Typed
from lamella.core.errors import InvalidRequest
from lamella.core.records import Caller
from lamella.server.asked import PREFIX, IdempotencyKey, TheApp, TheCaller, ThePage
from lamella.server.outcomes import in_json
from lamella.server.schemas import (
    CommandBody,
    CompactBody,
    Json,
    list_json,
    notice_json,
    session_json,
    whole_list_json,
)

router = APIRouter(prefix=PREFIX)


@router.post("/conversations/{conversation_id}/commands")
async def command(
    conversation_id: str, body: CommandBody, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> Response:
    """Run a command, such as `/status`. No model is asked for its answer."""
    typed = app.chat.sender.read(Message(body.text))
    if not isinstance(typed, Typed):
        raise InvalidRequest(
            "This is no command.",
            hint="Commands begin with a slash; /help lists them. Messages are turns.",
            param="text",
        )
    return await _run(app, caller, conversation_id, typed, key, queue=body.queue)


@router.get("/conversations/{conversation_id}/commands")
async def commands(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The commands of a conversation with their answers, and its notifications."""
    return list_json(await app.store.notices(caller, conversation_id, page), notice_json)


@router.get("/commands")
async def known(app: TheApp) -> Json:
    """The commands to choose from."""
    shaped = [
        {"name": command.name, "object": "command.kind", "usage": command.usage, "summary": command.summary}
        for command in app.chat.commands.all()
    ]
    return whole_list_json(shaped, "name")


@router.get("/conversations/{conversation_id}/sessions")
async def sessions(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The sessions of a conversation."""
    found = await app.store.session_page(caller, conversation_id, page)
    figures = await app.sessions.figures(caller, conversation_id)
    return list_json(found, lambda session: session_json(session, figures))


@router.get("/sessions/{session_id}")
async def session(session_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One session."""
    found = await app.store.session(caller, session_id)
    return session_json(found, await app.sessions.figures(caller, found.conversation_id))


@router.post("/conversations/{conversation_id}/compact")
async def compact(
    conversation_id: str, app: TheApp, caller: TheCaller, body: CompactBody | None = None, key: IdempotencyKey = None
) -> Response:
    """`/compact`, with what to give most room to."""
    focus = body.focus.strip() if body is not None else ""
    return await _run(app, caller, conversation_id, Typed("compact", focus), key)


@router.post("/conversations/{conversation_id}/prune")
async def prune(conversation_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/prune`."""
    return await _run(app, caller, conversation_id, Typed("prune"), key)


@router.post("/conversations/{conversation_id}/new")
async def new(conversation_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/new`."""
    return await _run(app, caller, conversation_id, Typed("new"), key)


@router.post("/sessions/{session_id}/undo")
async def undo(session_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/undo ID`."""
    found = await app.store.session(caller, session_id)
    return await _run(app, caller, found.conversation_id, Typed("undo", found.id), key)


@router.post("/sessions/{session_id}/resume")
async def resume(session_id: str, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """`/resume ID`."""
    found = await app.store.session(caller, session_id)
    return await _run(app, caller, found.conversation_id, Typed("resume", found.id), key)


async def _run(
    app: App, caller: Caller, conversation_id: str, typed: Typed, key: str | None, *, queue: bool = True
) -> Response:
    """The command's answer; 202 with its place in the queue where it has to wait."""
    done = await app.chat.orders.submit(caller, conversation_id, typed, key=key, queue=queue)
    return await in_json(app, caller, done, await app.chat.packets(caller, done))
