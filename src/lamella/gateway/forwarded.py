"""What a client asks of a response that an upstream keeps: forwarded there, and the answer relayed as it comes."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lamella.core.errors import ProviderError
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Route
from lamella.gateway.relay import Sent, cancel_on_leaving, client_headers, refuse_redirect


class ForwardedAnswer(Response):
    """What an upstream answers about one of its responses. `tail` is what follows the id, such as `/cancel`."""

    def __init__(self, route: Route, response_id: str, tail: str) -> None:
        super().__init__()
        self._route = route
        self._path = f"{route.path}/{quote(response_id, safe='')}{tail}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, and relay the answer; starlette calls this."""
        request, sent = Request(scope, receive), Sent(send)
        body = await request.body()
        relaying = asyncio.ensure_future(self._pass(request, body, sent))
        leaving = asyncio.ensure_future(cancel_on_leaving(request, relaying))
        try:
            await relaying
        except asyncio.CancelledError:
            if not leaving.done():
                raise
        except ProviderError as error:
            await sent.fail(Dialect.RESPONSES, error, b"")
        finally:
            relaying.cancel()
            leaving.cancel()

    async def _pass(self, request: Request, body: bytes, sent: Sent) -> None:
        query = request.scope.get("query_string", b"").decode("latin-1")
        path = f"{self._path}?{query}" if query else self._path
        headers = client_headers(request, self._route.key)
        async with self._route.connection.send(path, body, headers, request.method) as reply:
            refuse_redirect(self._route, reply.status)
            await sent.start(reply.status, reply.headers)
            async for data in reply.chunks:
                await sent.body(data)
            await sent.end()
