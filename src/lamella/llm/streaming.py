"""Streaming for all adapters: opens the SDK's response, reads events as deltas, converts errors.

The HTTP client ignores proxies for this machine's own servers, and uses only the given key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderError
from lamella.llm.failures import MALFORMED, broken, cause_of, timed_out, unreachable


class EventReader(Protocol):
    """Reads a provider's stream events as deltas; `of` raises one of `MALFORMED` for an event that can't be read."""

    ended: bool
    """Whether the message came to its end."""

    def of(self, event: Any) -> Iterator[Delta]:
        """The deltas of one event."""
        ...


class Failure(Protocol):
    """An SDK's error as one of ours; `began`: the provider had accepted the request."""

    def __call__(self, error: Any, base_url: str, *, began: bool) -> ProviderError: ...


@dataclass(frozen=True, slots=True)
class Vendor:
    """A provider's SDK. `request_id` is the header of a response that names its request."""

    name: str
    request_id: str
    error: type[Exception]
    failure: Failure
    events: Callable[[Any], AsyncIterator[Any]] | None = None
    """Reads the events of a response; None uses the SDK's objects."""


@dataclass(slots=True)
class Exchange:
    """Whether the provider has accepted a request, and whether an event of its answer came."""

    began: bool = False
    heard: bool = False


@contextmanager
def plain_errors(vendor: Vendor, base_url: str, exchange: Exchange) -> Iterator[None]:
    """Converts everything that an SDK or its HTTP client raises to a `ProviderError`."""
    try:
        yield
    except vendor.error as error:
        raise vendor.failure(error, base_url, began=exchange.began) from error
    except httpx2.TimeoutException as error:
        raise timed_out(vendor.name) from error
    except (httpx2.HTTPError, *MALFORMED) as error:
        raise lost(vendor.name, base_url, error, began=exchange.began) from error


def lost(provider: str, base_url: str, error: Exception, *, began: bool) -> ProviderError:
    """A connection that failed, or an answer that made no sense."""
    cause = cause_of(error, began=began)
    is_answer = isinstance(error, (httpx2.DecodingError, *MALFORMED))
    return broken(provider, cause) if began or is_answer else unreachable(provider, base_url, cause)


async def streamed(
    vendor: Vendor, base_url: str, opening: AbstractAsyncContextManager[Any], reader: EventReader
) -> AsyncIterator[Delta]:
    """The deltas of one request, `Opened` first; raises `ProviderError`."""
    exchange = Exchange()
    with plain_errors(vendor, base_url, exchange):
        async with opening as response:
            exchange.began = True
            yield deltas.Opened(response.headers.get(vendor.request_id), response.http_request.content)
            async for event in vendor.events(response) if vendor.events else await response.parse():
                for delta in reader.of(event):
                    exchange.heard = True
                    yield delta
    if not reader.ended:
        ended = "the stream ended before the message did"
        raise broken(vendor.name, ended if exchange.heard else "it did not send a model's answer")


CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


def http_client(
    usual: Callable[..., httpx2.AsyncClient], base_url: str, key: str, timeout: float
) -> httpx2.AsyncClient:
    """A client for one provider; `usual` makes the SDK's default client. `timeout` is in seconds of silence.

    Servers on this machine are connected directly, even if the environment names a proxy.
    """
    hooks = {"request": [_speak_as(base_url, key)]}
    if _is_this_machine(base_url):
        return usual(timeout=timeout, trust_env=False, limits=CONNECTIONS, follow_redirects=False, event_hooks=hooks)
    return usual(timeout=timeout, event_hooks=hooks)


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _speak_as(base_url: str, key: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Sets the key on every request to the provider, and only to it.

    The SDKs let `ANTHROPIC_CUSTOM_HEADERS` and `OPENAI_CUSTOM_HEADERS` replace it silently. A redirect to another host
    gets no key: the client has removed it.
    """
    host = httpx2.URL(base_url).netloc

    async def put_key(request: httpx2.Request) -> None:
        request.headers.pop("x-api-key", None)
        if request.url.netloc == host:
            request.headers["authorization"] = f"Bearer {key}"
        else:
            request.headers.pop("authorization", None)

    return put_key
