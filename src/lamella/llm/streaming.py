"""How every adapter streams: the SDK's response opened, its events read as deltas, its errors told as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderError
from lamella.llm.failures import MALFORMED, broken, timed_out


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
    """Reads the events of a response; None: the SDK's objects of them."""


async def streamed(
    vendor: Vendor, base_url: str, opening: AbstractAsyncContextManager[Any], reader: EventReader
) -> AsyncIterator[Delta]:
    """The deltas of one request, `Opened` first; raises `ProviderError`."""
    began = False
    try:
        async with opening as response:
            began = True
            yield deltas.Opened(response.headers.get(vendor.request_id), response.http_request.content)
            async for event in vendor.events(response) if vendor.events else await response.parse():
                for delta in reader.of(event):
                    yield delta
    except vendor.error as error:
        raise vendor.failure(error, base_url, began=began) from error
    except httpx2.TimeoutException as error:
        raise timed_out(vendor.name) from error
    except (httpx2.HTTPError, *MALFORMED) as error:
        raise broken(vendor.name, str(error) or type(error).__name__) from error
    if not reader.ended:
        raise broken(vendor.name, "the stream ended before the message did")
