"""Breaking connections on purpose: a uvicorn protocol that hands its socket over, and responses that abort it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lamella_simulator.stream import ConnectionDropped


class BreakableProtocol(HttpToolsProtocol):
    """ASGI has no way to drop a connection, so each connection puts its `abort` into the request's state."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}


class DroppedResponse(Response):
    """Not a byte of an answer: the socket closes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await abort(scope)


class EventStream(StreamingResponse):
    """Server-sent events that may end in a dropped connection."""

    def __init__(self, events: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(
            events,
            headers={**headers, "cache-control": "no-cache"},
            media_type="text/event-stream; charset=utf-8",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ConnectionDropped:
            await abort(scope)


async def abort(scope: Scope) -> None:
    """Closes the socket of a request; outside a real server the request just fails."""
    state: dict[str, Any] = scope.get("state", {})
    if "abort" not in state:
        raise ConnectionResetError("the simulator dropped this connection")
    # What was written so far must leave first, or the caller would see a drop before the first byte.
    await asyncio.sleep(0.01)
    state["abort"]()
    await asyncio.sleep(0.01)
