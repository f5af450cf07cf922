"""An S3 server for tests, of moto. It lives as long as the tests of one process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from urllib.request import Request, urlopen

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class S3Server:
    """A running server, on which each test makes a bucket of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._numbers = count(1)

    def bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{next(self._numbers)}"
        urlopen(Request(f"{self.address}/{name}", method="PUT")).close()
        return name


@contextmanager
def running() -> Iterator[S3Server]:
    """A server on a free port. The variables of its keys are set for this process and those that it starts."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(KEYS)
    try:
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()


@asynccontextmanager
async def in_between(address: str, cut_after: int | None = None, port: int = 0) -> AsyncIterator[str]:
    """A way to a server that breaks every connection off after so many bytes were sent, or with None takes them in
    silence.
    """
    host, there = address.removeprefix("http://").split(":")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if cut_after is None:
            await asyncio.sleep(3_600)
            return
        upstream, up = await asyncio.open_connection(host, int(there))

        async def back() -> None:
            while piece := await upstream.read(65_536):
                writer.write(piece)

        returning, sent = asyncio.create_task(back()), 0
        while sent < cut_after and (piece := await reader.read(min(65_536, cut_after - sent))):
            sent += len(piece)
            up.write(piece)
            await up.drain()
        returning.cancel()
        up.close()
        writer.transport.abort()

    server = await asyncio.start_server(carry, "127.0.0.1", port)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()
