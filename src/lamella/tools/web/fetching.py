"""Fetches a page from exactly the address that was checked: one resolution, one connection, bounded in every way."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Protocol

import httpcore2

from lamella.core.errors import ToolFailed
from lamella.llm.causes import cause_of
from lamella.tools.web.addresses import AddressPolicy, Place

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_READABLE = re.compile(
    r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml)|application/(?:xhtml\+xml|pdf|x-ndjson|msword|rtf)"
    r"|application/vnd\.openxmlformats-officedocument\.[\w.]+"
)
_ENCODINGS = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content encodings that are undone, with zlib's window bits."""


class Resolver(Protocol):
    """Where names are looked up."""

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a host; raises `OSError` when it has none."""
        ...


class SystemResolver:
    """The machine's own `Resolver`."""

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """See `Resolver.addresses`."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much one page may cost. Sizes in bytes: `max_bytes` as it comes and again once it is unpacked."""

    seconds: float = 25.0
    silence: float = 10.0
    max_bytes: int = 10_000_000
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched, unpacked; `media_type` as its server calls it, "" when it does not."""

    url: str
    media_type: str
    charset: str
    data: bytes


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the checked addresses whatever it is asked for: no name is looked up a second time."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failed: Exception = httpcore2.ConnectError("no address")
        for address in self._addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
        raise failed


class Fetcher:
    """Gets pages under a policy. Nothing is kept between two requests: no cookie, no connection, no name."""

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        limits: FetchLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()
        self._limits = limits or FetchLimits()
        self._tls = tls

    async def fetch(self, url: str) -> Page:
        """The page at `url`, redirects followed, each checked like the first. Raises `ToolFailed`."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._fetch(url)
        except TimeoutError:
            raise ToolFailed(f"The page did not come within {self._limits.seconds:g} s.") from None

    async def _fetch(self, url: str) -> Page:
        place = self._policy.place(url)
        for _ in range(self._limits.redirects + 1):
            async with self._asked(place) as response:
                if response.status not in _REDIRECTS:
                    return await self._page(place, response)
                location = _header(response, b"location")
                if not location:
                    raise ToolFailed(f"{place.host} redirects to nowhere.")
                place = self._policy.follow(place, location)
        raise ToolFailed(f"{place.host}: more than {self._limits.redirects} redirects.")

    @asynccontextmanager
    async def _asked(self, place: Place) -> AsyncIterator[httpcore2.Response]:
        addresses = self._policy.addresses(place, await self._resolve(place))
        silence = self._limits.silence
        url = httpcore2.URL(scheme=place.scheme, host=place.host, port=place.port, target=place.target)
        headers: dict[bytes | str, bytes | str] = {
            "Host": place.url.split("/")[2],
            "User-Agent": "Mozilla/5.0 (compatible; Lamella)",
            "Accept": "text/html,application/xhtml+xml,text/*,application/json,application/pdf;q=0.9,*/*;q=0.1",
            "Accept-Encoding": "gzip, deflate",
            "Connection": "close",
        }
        timeouts = {"connect": silence, "read": silence, "write": silence, "pool": silence}
        request = httpcore2.Request("GET", url, headers=headers, extensions={"timeout": timeouts})
        try:
            async with httpcore2.AsyncConnectionPool(
                ssl_context=self._tls, network_backend=_Pinned(addresses), max_connections=1
            ) as pool:
                response = await pool.handle_async_request(request)
                try:
                    yield response
                finally:
                    await response.aclose()
        except httpcore2.TimeoutException:
            raise ToolFailed(f"{place.host} was silent for {silence:g} s.") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError) as error:
            raise ToolFailed(f"{place.host} can't be reached: {cause_of(error, began=False)}.") from None

    async def _resolve(self, place: Place) -> Sequence[str]:
        try:
            return [str(ip_address(place.host))]
        except ValueError:
            pass
        try:
            return await self._resolver.addresses(place.host, place.port)
        except (OSError, UnicodeError):
            raise ToolFailed(f"There is no host {place.host}.", hint="Check the address.") from None

    async def _page(self, place: Place, response: httpcore2.Response) -> Page:
        if not 200 <= response.status < 300:
            raise ToolFailed(f"{place.host} answered with status {response.status}.")
        media_type, _, parameters = _header(response, b"content-type").partition(";")
        media_type = media_type.strip().lower()
        if media_type and not _READABLE.fullmatch(media_type):
            raise ToolFailed(f"What lies at {place.host} is {media_type[:80]}, which can't be read as text.")
        charset = re.search(r"charset\s*=\s*[\"']?([\w-]{1,40})", parameters, re.IGNORECASE)
        data = await self._body(place, response)
        return Page(place.url, media_type, charset[1].lower() if charset else "", data)

    async def _body(self, place: Place, response: httpcore2.Response) -> bytes:
        encoding = _header(response, b"content-encoding").strip().lower()
        if encoding not in _ENCODINGS:
            raise ToolFailed(f"{place.host} sent the page in the encoding “{encoding[:40]}”, which was not asked for.")
        unpacker = zlib.decompressobj(_ENCODINGS[encoding]) if _ENCODINGS[encoding] else None
        limit, received = self._limits.max_bytes, 0
        data = bytearray()
        async for piece in response.aiter_stream():
            received += len(piece)
            try:
                data += piece if unpacker is None else unpacker.decompress(piece, limit + 1 - len(data))
            except zlib.error:
                raise ToolFailed(f"The page of {place.host} is damaged.") from None
            if max(received, len(data)) > limit:
                raise ToolFailed(f"The page of {place.host} is larger than {limit / 1_000_000:g} MB.")
        return bytes(data)


def _header(response: httpcore2.Response, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "")
