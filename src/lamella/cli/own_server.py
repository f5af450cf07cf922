"""The server's API without a server: the app is opened in this process, and its routes are called without a socket.

Loaded only if no server runs over the data folder: a terminal that asks a server does not load the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from starlette.types import ASGIApp, Message

from lamella.app.app import open_app
from lamella.server.authentication import Authentication
from lamella.server.web import create_web
from lamella.settings import Settings


@asynccontextmanager
async def own_client(
    settings: Settings, headers: Mapping[str, str]
) -> AsyncIterator[tuple[httpx2.AsyncClient, Callable[[str], Awaitable[None]]]]:
    """A client of the whole API; `headers` go with each request. With it, what waits until no compaction of a
    conversation runs in this process.

    Whoever opens the data folder has all that is in it; with a key they are the user whose key it is.
    """
    async with open_app(settings) as app:
        web = create_web(app, Authentication(app.accounts, is_local=False, holds_folder=True))
        async with httpx2.AsyncClient(
            transport=StreamingTransport(web), base_url="http://127.0.0.1", headers=headers
        ) as client:
            yield client, app.sessions.wait_until_idle


class StreamingTransport(httpx2.AsyncBaseTransport):
    """Calls an ASGI application and streams its answers; httpx2's own transport gives an answer when it is whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer as soon as its head is there; raises what the application raises."""
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        exchange = _Exchange(request.stream)
        url = request.url
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }
        head = await exchange.begin(self._app, scope)
        return httpx2.Response(head["status"], headers=head.get("headers", []), stream=exchange)


class _Exchange(httpx2.AsyncByteStream):
    """One request, and its answer as the application writes it."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = aiter(body)
        self._is_read = False
        self._closed = asyncio.Event()
        self._sent: asyncio.Queue[Message | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None

    async def begin(self, app: ASGIApp, scope: dict[str, Any]) -> Message:
        """Call the application; gives the head of its answer."""
        self._work = asyncio.create_task(self._run(app, scope))
        head = await self._sent.get()
        if head is None:
            await self._work
            raise httpx2.RemoteProtocolError("the application ended without an answer")
        return head

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._sent.put)
        finally:
            self._sent.put_nowait(None)

    async def _receive(self) -> Message:
        if self._is_read:
            await self._closed.wait()
            return {"type": "http.disconnect"}
        try:
            return {"type": "http.request", "body": await anext(self._body), "more_body": True}
        except StopAsyncIteration:
            self._is_read = True
            return {"type": "http.request", "body": b"", "more_body": False}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        more = True
        while more and (message := await self._sent.get()) is not None:
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def aclose(self) -> None:
        """Nobody reads on: the application hears of a disconnect, as over a socket. Raises what it raises."""
        self._closed.set()
        if self._work is not None:
            await self._work
