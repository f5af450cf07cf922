"""`POST /v1/responses`: the chat for clients of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from lamella.app.app import App
from lamella.chat.message import ExecutionRequest
from lamella.core.access import Identity
from lamella.core.packets import AnyPacket
from lamella.server.asked import IdempotencyKey, TheApp, TheIdentity
from lamella.server.failures import STATUS
from lamella.server.responses.asked import Asked, asked_of
from lamella.server.responses.openai_request import from_openai
from lamella.server.responses.writer import ResponseWriter
from lamella.server.sse import EventStream

router = APIRouter(prefix="/v1")


@router.post("/responses", response_model=None)
async def create_response(
    body: dict[str, Any], request: Request, app: TheApp, identity: TheIdentity, key: IdempotencyKey = None
) -> Response:
    """Answer one message, as a response of OpenAI's API: whole, or with `stream` its events.

    What was said before is named by `conversation` or `previous_response_id`; without either a conversation begins. All
    that an `ExecutionRequest` says beyond the API travels in `metadata`.
    """
    asked = asked_of(from_openai(body))
    turn_id = await app.begin(await _placed(app, identity, asked), identity, key=key)
    turn = await app.store.turn(identity.caller, turn_id)
    writer = ResponseWriter(turn, asked.request.metadata)
    packets = app.packets(turn_id, identity)
    if asked.streams:
        return EventStream(_written(writer, packets), request.state.silence)
    async for packet in packets:
        writer.take(packet)
    if writer.error is None:
        return JSONResponse(writer.response)
    # A client of the API would send what failed again by itself, and begin another turn.
    failed = {"error": dict(writer.error), "response": writer.response}
    status = STATUS.get(str(writer.error.get("code")), 500)
    return JSONResponse(failed, status_code=status, headers={"x-should-retry": "false"})


async def _placed(app: App, identity: Identity, asked: Asked) -> ExecutionRequest:
    """The request behind the response that it names; raises `NotFound`."""
    if asked.after is None:
        return asked.request
    turn = await app.store.turn(identity.caller, asked.after)
    return replace(asked.request, conversation_id=turn.conversation_id, parent_message_id=turn.run.id)


async def _written(writer: ResponseWriter, packets: AsyncIterator[AnyPacket]) -> AsyncGenerator[bytes, None]:
    yield writer.begin()
    async for packet in packets:
        if written := writer.take(packet):
            yield written
