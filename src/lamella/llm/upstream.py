"""HTTP to a provider's server: bytes out; status, headers and the bytes of the answer back, as they come.

    upstream = Upstream("Anthropic", "https://api.anthropic.com", timeout=60)
    async with upstream.send("/v1/messages", body, {"authorization": "Bearer …"}) as reply:
        print(reply.status, reply.headers.get("request-id"))
        async for data in reply.chunks:
            print(data)

A request carries the given headers, `host` and `content-length`. Nothing is retried, redirected or unpacked. Leaving
the block before the answer is whole closes the connection at once. After a whole answer the connection is used again.

Servers on this machine are connected directly. Others are reached through the proxy that the environment names
(`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`), unless `NO_PROXY` names them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
from yarl import URL

from lamella.core.errors import ProviderError
from lamella.llm.failures import broken, cause_of, timed_out, unreachable

CONNECTIONS = 1000
"""Requests at once; more wait."""

CONNECTING_SECONDS = 60
"""For so long a connection may take, if the silence that is allowed is not shorter."""

KEPT_SECONDS = 4
"""How long an unused connection is kept. Some servers close it after 5 s, and a request must not meet that moment."""

_FAILURES = (aiohttp.ClientError, OSError, ValueError)
_ADDED_BY_AIOHTTP = ("accept", "accept-encoding", "content-type", "user-agent")


@dataclass(frozen=True, slots=True)
class UpstreamReply:
    """A server's answer, of any status. The names of `headers` have no case; a repeated header has several items."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    """The body as it arrives, to be read once. Raises `ProviderError` if it breaks off or stays silent."""

    async def whole(self) -> bytes:
        """All of the body."""
        return b"".join([data async for data in self.chunks])


class Upstream:
    """The connections to one server. `provider` names it in errors; `timeout` is in seconds of silence."""

    def __init__(self, provider: str, base_url: str, timeout: float) -> None:
        self.provider = provider
        self.base_url = base_url
        connect = min(timeout, CONNECTING_SECONDS)
        self._timeout = aiohttp.ClientTimeout(None, connect=connect, sock_connect=connect, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def send(
        self, path: str, body: bytes, headers: Mapping[str, str], method: str = "POST"
    ) -> AsyncIterator[UpstreamReply]:
        """The answer to one request. `path` follows the base URL and may have a query. Raises `ProviderError`."""
        try:
            response = await self._opened().request(
                method,
                URL(str(URL(self.base_url)).rstrip("/") + path, encoded=True),
                data=BytesIO(body) if body else None,  # written in pieces, so that a cancelled upload ends
                headers=headers,
                skip_auto_headers=_ADDED_BY_AIOHTTP,
                allow_redirects=False,
                proxy=proxy_of(self.base_url),
            )
        except _FAILURES as error:
            raise self._not_begun(error) from error
        try:
            yield UpstreamReply(response.status, response.headers, _ReplyBody(response.content, self.provider))
        finally:
            response.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """Made on first use, in the event loop."""
        if self._session is None:
            tls = httpx2.create_ssl_context() if self.base_url.lower().startswith("https:") else True
            connector = aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEPT_SECONDS, ssl=tls)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    def _not_begun(self, error: Exception) -> ProviderError:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return unreachable(self.provider, self.base_url, "it took no connection in time")
        if isinstance(error, TimeoutError):
            return timed_out(self.provider)
        return unreachable(self.provider, self.base_url, _unsent(error))


class _ReplyBody:
    """The body of an answer. An iterator, not a generator: one that is left early needs no task to end it."""

    def __init__(self, content: aiohttp.StreamReader, provider: str) -> None:
        self._content = content
        self._provider = provider

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._content.readany()
        except TimeoutError as error:
            raise timed_out(self._provider) from error
        except _FAILURES as error:
            raise broken(self._provider, cause_of(error, began=True)) from error
        if not data:
            raise StopAsyncIteration
        return data


def _unsent(error: Exception) -> str:
    """Why no answer began; a half sentence."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy at {error.host}:{error.port} can't be reached"
        case aiohttp.NonHttpUrlClientError() | aiohttp.InvalidURL():
            return "this is no HTTP address"
        case aiohttp.ClientError() | OSError():
            return cause_of(error, began=False)
        case _:
            return "a header can't be sent"


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for this address; None to connect directly."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_this_machine(url):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(host) or _is_in_network(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_this_machine(url: str) -> bool:
    """Whether an address is one of this machine's own."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_in_network(host: str, no_proxy: str) -> bool:
    """Whether `NO_PROXY` names a network with this address, such as `10.0.0.0/8`."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        try:
            if address in ip_network(entry.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
