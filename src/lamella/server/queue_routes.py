"""What waits in a conversation, under `/api/v1`: see it, change it, take it out, answer it now, follow it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lamella.server.asked import PREFIX, TheApp, TheCaller
from lamella.server.schemas import Json, QueuedPatch, queued_json, whole_list_json
from lamella.server.sse import event_stream

router = APIRouter(prefix=PREFIX)


@router.get("/conversations/{conversation_id}/queue")
async def queue(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The messages and commands that wait, in order."""
    return whole_list_json([queued_json(one) for one in await app.chat.queue.listed(caller, conversation_id)])


@router.post("/conversations/{conversation_id}/queue/flush")
async def flush(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Answer what waits as soon as the conversation is free, without waiting for more messages. Gives the queue."""
    await app.chat.flush(caller, conversation_id)
    return await queue(conversation_id, app, caller)


@router.get("/conversations/{conversation_id}/queue/{message_id}")
async def queued(conversation_id: str, message_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One message, whether or not it still waits; `turn_id` is the turn that answers it."""
    return queued_json(await app.chat.queue.find(caller, conversation_id, message_id))


@router.get("/conversations/{conversation_id}/queue/{message_id}/events")
async def events(conversation_id: str, message_id: str, request: Request, app: TheApp, caller: TheCaller) -> Response:
    """`turn.queued`, then the packets of the turn that answers it, or what else became of it."""
    found = await app.chat.queue.find(caller, conversation_id, message_id)
    return event_stream(await app.chat.packets(caller, found), request.state.silence)


@router.patch("/conversations/{conversation_id}/queue/{message_id}")
async def change(conversation_id: str, message_id: str, body: QueuedPatch, app: TheApp, caller: TheCaller) -> Json:
    """Give a waiting message another text."""
    return queued_json(await app.chat.queue.change(caller, conversation_id, message_id, body.text))


@router.delete("/conversations/{conversation_id}/queue/{message_id}", status_code=204)
async def cancel(conversation_id: str, message_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Take a waiting message or command out of the queue."""
    await app.chat.queue.cancel(caller, conversation_id, message_id)
    return Response(status_code=204)
