"""A small site on this machine, and names that lead where a test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

from lamella.tools.addresses import AddressPolicy, AllowedAddress


@dataclass
class Names:
    """A resolver of a test; each name has a list of answers, of which the last stays."""

    known: Mapping[str, Sequence[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """The next answer for a name."""
        self.asked.append(host)
        answers = self.known.get(host)
        if answers is None:
            raise OSError("no such name")
        return answers[min(self.asked.count(host), len(answers)) - 1]


@dataclass
class Site:
    """What it serves by path, as whole responses; `seen` are the requests as they came."""

    port: int
    answers: dict[str, bytes | Callable[[asyncio.StreamWriter], object]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    @property
    def policy(self) -> AddressPolicy:
        """Lets this site be opened and nothing else of this machine."""
        return AddressPolicy((AllowedAddress(ip_network("127.0.0.1"), self.port),))

    def page(self, path: str, body: bytes, *headers: str, status: str = "200 OK", type: str = "text/html") -> None:
        """Serve a body."""
        head = [f"HTTP/1.1 {status}", f"Content-Type: {type}", f"Content-Length: {len(body)}", *headers]
        self.answers[path] = "\r\n".join([*head, "", ""]).encode() + body

    def redirect(self, path: str, location: str, status: str = "302 Found") -> None:
        """Lead elsewhere."""
        self.answers[path] = f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")


@asynccontextmanager
async def site(tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A running site."""
    made = Site(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            made.seen.append(request)
            answer = made.answers.get(request.split()[1], b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)  # type: ignore[misc]
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
