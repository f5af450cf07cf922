"""Stored responses: `/v1/responses/{id}` with its events, its input items, its cancellation and its deletion.

A response is its turn. It is read from the packets of the turn, so that it is the same object here, at the end of its
stream, and in the answer to its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from lamella.app.app import App
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, NotFound, TurnInProgress
from lamella.core.json import JsonObject
from lamella.core.messages import Attachment
from lamella.core.records import StoredResponse, TurnRecord
from lamella.gateway.forwarded import ForwardedAnswer
from lamella.server.objects import AnyObject
from lamella.server.routes.response_writer import Item, ResponseWriter
from lamella.server.routes.responses import (
    RESPONSE,
    TURN,
    is_own,
    no_response,
    written_events,
)
from lamella.server.routes.turns import LAST_PACKET
from lamella.server.routing import JSON, Answers, TheApp, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, EventStream

router = api_router("/v1")

CANCEL_SECONDS = 5.0
"""How long a cancellation waits for the turn to end; then it answers with the response as it is."""

ANSWER: Answers = {200: {JSON: AnyObject}}
Include = Annotated[list[str] | None, Query()]


async def find_response(
    app: App, identity: Identity, response_id: str, *, deleted: bool = False
) -> tuple[TurnRecord, JsonObject]:
    """The turn of a response, and the fields of its request that it repeats. Raises `NotFound`, also for one that was
    deleted, unless those are looked for too.
    """
    stored = await app.store.responses.response(identity.caller, response_id)
    if not response_id.startswith(RESPONSE) or (stored is not None and stored.deleted and not deleted):
        raise no_response(response_id)
    try:
        turn = await app.store.turns.turn(identity.caller, TURN + response_id.removeprefix(RESPONSE))
    except NotFound:
        raise no_response(response_id) from None
    return turn, stored.fields if stored is not None else {}


async def of_upstream(app: App, identity: Identity, response_id: str, tail: str = "") -> ForwardedAnswer | None:
    """What the upstream answers that keeps a response of this caller; None if it is one of this server, or nobody
    knows it. A response of another owner is not asked for.
    """
    caller, gateway = identity.caller, app.gateway
    if is_own(response_id):
        return None
    account = await gateway.recorder.issued.account(caller, response_id)
    if account is None and await gateway.recorder.issued.is_somebodys(response_id):
        return None
    try:
        return ForwardedAnswer(await gateway.issuer(account), response_id, tail)
    except NotFound:
        return None


async def whole_response(app: App, identity: Identity, turn: TurnRecord, fields: JsonObject) -> Item:
    """The response of a turn as it is now. While it runs it has no output yet."""
    writer = ResponseWriter(turn, fields, inf)
    writer.begin()
    if turn.finished_at is not None:
        async for packet in app.packets(turn.id, identity):
            writer.take(packet)
    return writer.response


@router.get("/responses/{response_id}", responses={200: {JSON: AnyObject, EVENT_STREAM: AnyObject}})
async def retrieve_response(
    response_id: str,
    request: Request,
    app: TheApp,
    identity: TheIdentity,
    stream: bool = False,
    starting_after: Annotated[int, Query(ge=-1, le=LAST_PACKET)] = -1,
    include: Include = None,
) -> Response:
    """A response. With `stream` its events, from the one after number `starting_after`, to its end."""
    if (forwarded := await of_upstream(app, identity, response_id)) is not None:
        return forwarded
    turn, fields = await find_response(app, identity, response_id)
    if not stream:
        return JSONResponse(await whole_response(app, identity, turn, fields))
    writer = ResponseWriter(turn, fields, starting_after)
    return EventStream(written_events(writer, app.packets(turn.id, identity)), request.state.silence)


@router.delete("/responses/{response_id}", responses=ANSWER)
async def delete_response(response_id: str, app: TheApp, identity: TheIdentity) -> Response:
    """Delete a response: it is not found any more, and no request can continue it.

    Its messages stay in their conversation until that is deleted. A conversation that began with a response, without a
    name of its own, is deleted with the last of its responses.
    """
    if (forwarded := await of_upstream(app, identity, response_id)) is not None:
        return forwarded
    turn, _ = await find_response(app, identity, response_id)
    gone = StoredResponse(response_id, turn.started_at, turn.id)
    try:
        conversation_id = await app.store.responses.delete_response(identity.caller, gone)
    except TurnInProgress:
        raise TurnInProgress("This response is still being written.", hint="Cancel it, or wait for its end.") from None
    if conversation_id is not None:
        await app.chat.delete(identity.caller, conversation_id)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


@router.post("/responses/{response_id}/cancel", responses=ANSWER)
async def cancel_response(response_id: str, app: TheApp, identity: TheIdentity) -> Response:
    """Stop a response that is being written, and return it. One that has ended is returned as it is."""
    if (forwarded := await of_upstream(app, identity, response_id, "/cancel")) is not None:
        return forwarded
    turn, fields = await find_response(app, identity, response_id)
    if turn.finished_at is None:
        await app.chat.stop(identity.caller, turn.id)
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                async for _ in app.packets(turn.id, identity):
                    pass
        turn = await app.store.turns.turn(identity.caller, turn.id)
    return JSONResponse(await whole_response(app, identity, turn, fields))


@router.get("/responses/{response_id}/input_items", responses=ANSWER)
async def input_items(
    response_id: str,
    app: TheApp,
    identity: TheIdentity,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
    include: Include = None,
) -> Response:
    """The items of the request that a response answers."""
    if (forwarded := await of_upstream(app, identity, response_id, "/input_items")) is not None:
        return forwarded
    turn, _ = await find_response(app, identity, response_id)
    return JSONResponse(page_of(input_items_of(turn), limit, order, after))


def input_items_of(turn: TurnRecord) -> list[Item]:
    """The outputs that came with a turn and the user's message, with its files, as items."""
    items: list[Item] = []
    for number, result in enumerate(turn.results):
        status = "incomplete" if result.is_error else "completed"
        output = {"type": "function_call_output", "call_id": result.call_id, "output": result.content}
        items.append({"id": f"fco_{turn.id.removeprefix(TURN)}_{number}", **output, "status": status})
    if turn.text or turn.attachments:
        content = [*map(_file_part, turn.attachments), {"type": "input_text", "text": turn.text}]
        said = {"type": "message", "status": "completed", "role": "user", "content": content}
        items.append({"id": f"msg_{turn.id.removeprefix(TURN)}", **said})
    return items


def _file_part(file: Attachment) -> Item:
    if file.image is not None or file.media_type.startswith("image/"):
        return {"type": "input_image", "file_id": file.file_id, "detail": "auto"}
    return {"type": "input_file", "file_id": file.file_id, "filename": file.title}


def page_of(items: Sequence[Item], limit: int, order: str, after: str | None) -> dict[str, Any]:
    """A page of items in ascending order. Raises `InvalidRequest` for an `after` that is none of them."""
    ordered = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        place = next((n for n, item in enumerate(ordered) if item["id"] == after), None)
        if place is None:
            raise no_cursor(after)
        ordered = ordered[place + 1 :]
    return listed_items(ordered[:limit], has_more=len(ordered) > limit)


def no_cursor(after: str) -> InvalidRequest:
    """The error for an `after` that names no item of the list."""
    return InvalidRequest(
        f"“{after[:80]}” is no item of this list.", hint="Send the `last_id` of a page.", param="after"
    )


def listed_items(items: Sequence[Item], *, has_more: bool) -> dict[str, Any]:
    """A page in the shape of OpenAI's API."""
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    return {"object": "list", "data": list(items), "first_id": first, "last_id": last, "has_more": has_more}
