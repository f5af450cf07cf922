"""The server: its socket, and the ways to break a connection on purpose, which ASGI does not have."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import uvicorn
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lamella_simulator.stream import ConnectionDropped


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle's algorithm on, and an event can wait 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    listener.listen(1_024)
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """The URL of a listening socket: `http://127.0.0.1:9999`."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server whose connections can be broken; `serve(sockets=[listener])` runs it."""
    config = uvicorn.Config(
        app, http=BreakableProtocol, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    return uvicorn.Server(config)


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
