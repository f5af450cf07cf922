"""An upstream that keeps what it gets and answers what a test says, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Got:
    """A request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: bytes
    method: str = ""


@dataclass
class UpstreamServer:
    """`pieces` are written one after the other, `pause` seconds apart; then the connection is closed if `breaks`, and
    nothing comes any more if `stalls`. One that `drops` closes it at once, one that is `silent` never answers.

    `closed` is set when the other side closed the connection; `open` counts connections.
    """

    url: str = ""
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),)
    pieces: Sequence[bytes] = (b"{}",)
    pause: float = 0.0
    breaks: bool = False
    silent: bool = False
    drops: bool = False
    stalls: bool = False
    open: int = 0
    got: list[Got] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
                headers = {name.lower(): value for name, value in headers.items()}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.got.append(Got(head[0].split()[1], headers, body, head[0].split()[0]))
                await self._reply(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        finally:
            self.open -= 1
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.silent:
            await reader.read()
        if self.silent or self.drops:
            raise ConnectionError
        lines = [f"HTTP/1.1 {self.status} X", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        leaving = asyncio.ensure_future(reader.read(1)) if self.pause else None
        if leaving is not None:  # a reset is one way to leave
            leaving.add_done_callback(lambda task: task.cancelled() or task.exception())
        for piece in self.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            if leaving is not None:
                done, _ = await asyncio.wait({leaving}, timeout=self.pause)
                if done:
                    raise ConnectionError
        if leaving is not None:
            leaving.cancel()
            await asyncio.wait({leaving})
        if self.stalls:
            await reader.read()
        if self.breaks or self.stalls:
            raise ConnectionError
        writer.write(b"0\r\n\r\n")


@asynccontextmanager
async def upstream_server() -> AsyncIterator[UpstreamServer]:
    """One that listens on a free port."""
    found = UpstreamServer()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0, limit=2**26)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
