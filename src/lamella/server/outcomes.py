"""What a message or a command came to, as JSON, for clients that do not read the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import JSONResponse

from lamella.app.app import App
from lamella.chat import Queued
from lamella.core.ports import Batch
from lamella.core.records import Caller, Notice, QueueStatus
from lamella.server.failures import STATUS
from lamella.server.schemas import Json, notice_json, queued_json, turn_json
from lamella.server.sse import EVENT_STREAM


def wants_json(accept: str) -> bool:
    """Whether a client that names what it takes names JSON and not the stream."""
    named = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    return "application/json" in named and EVENT_STREAM not in named


async def in_json(app: App, caller: Caller, done: str | Queued | Notice, packets: AsyncIterator[Batch]) -> JSONResponse:
    """The answer of a command; of a message its finished turn, or its place behind what has to be done before it."""
    if isinstance(done, Notice):
        return JSONResponse(notice_json(done))
    if isinstance(done, Queued) and done.place and not done.only_debounced:
        return JSONResponse(queued_json(done), status_code=202)
    async for _ in packets:
        pass
    if isinstance(done, str):
        return await _turn(app, caller, done)
    return await _left(app, caller, done)


async def _turn(app: App, caller: Caller, turn_id: str) -> JSONResponse:
    turn = await app.store.turn(caller, turn_id)
    if turn.error is None:
        return JSONResponse(turn_json(turn))
    return _failed(dict(turn.error), {"turn": turn_json(turn)})


async def _left(app: App, caller: Caller, queued: Queued) -> JSONResponse:
    """What became of a message that waited for more of its kind alone."""
    found = await app.chat.queue.find(caller, queued.row.conversation_id, queued.row.id)
    if found.row.turn_id is not None:
        return await _turn(app, caller, found.row.turn_id)
    if found.row.status in (QueueStatus.QUEUED, QueueStatus.CANCELLED):
        return JSONResponse(queued_json(found), status_code=202 if found.place else 200)
    notice = await app.store.notice(caller, found.row.notice_id)
    if found.row.status is QueueStatus.BEGUN:
        return JSONResponse(notice_json(notice))
    error = notice.data["error"]
    assert isinstance(error, dict)
    return _failed(error, {"queued": queued_json(found)})


def _failed(error: Json, beside: Json) -> JSONResponse:
    return JSONResponse({"error": error, **beside}, status_code=STATUS.get(str(error.get("code")), 500))
