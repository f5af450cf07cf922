"""A bare relay: what a server between a client and a provider costs at least, by either of two HTTP libraries.

    python -m relaying.relay aiohttp|httpx2 UPSTREAM

An ASGI application under the same server and event loop as Lamella's. It reads the body, sends it on, and passes the
answer's bytes on as they come; it parses, stores and checks nothing.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.loops.auto import auto_loop_factory

from lamella.llm.upstream import Upstream

SENT_ON = (b"content-type", b"x-api-key", b"authorization", b"anthropic-version", b"user-agent")


def relay(library: str, url: str) -> ASGIApp:
    """The application. `library` is what it asks the upstream with."""
    upstream = Upstream("upstream", url, 60)
    client = httpx2.AsyncClient(base_url=url, timeout=60, limits=httpx2.Limits(max_connections=1000), trust_env=False)

    @asynccontextmanager
    async def asked(
        path: str, body: bytes, headers: dict[str, str]
    ) -> AsyncIterator[tuple[int, str, AsyncIterator[bytes]]]:
        if library == "aiohttp":
            async with upstream.send(path, body, headers) as reply:
                yield reply.status, reply.headers["content-type"], reply.chunks
        else:
            async with client.stream("POST", path, content=body, headers=headers) as answer:
                yield answer.status_code, answer.headers["content-type"], answer.aiter_raw()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name in SENT_ON}
        relaying = asyncio.ensure_future(_pass(scope["path"], body, headers, send))
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait({relaying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        relaying.cancel()
        leaving.cancel()

    async def _pass(path: str, body: bytes, headers: dict[str, str], send: Send) -> None:
        async with asked(path, body, headers) as (status, kind, chunks):
            raw = [(b"content-type", kind.encode())]
            await send({"type": "http.response.start", "status": status, "headers": raw})
            async for data in chunks:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def _main(library: str, url: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(relay(library, url), log_config=None, access_log=False, lifespan="off", http="httptools")
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_main(*sys.argv[1:]))
