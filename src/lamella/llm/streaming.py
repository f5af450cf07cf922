"""Requests of all adapters: a JSON body goes out, stream events come back as deltas, failures as `ProviderError`."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.json import decode, encode
from lamella.llm.event_stream import EventDecoder, StreamEvent
from lamella.llm.failures import MALFORMED, broken, cause_of, of_status
from lamella.llm.upstream import Upstream, UpstreamReply

NO_HEADERS: Mapping[str, str] = {}
USER_AGENT = "lamella"


class EventReader(Protocol):
    """Reads a provider's stream events as deltas; `of` raises one of `MALFORMED` for an event that can't be read."""

    ended: bool
    """Whether the message came to its end."""

    def of(self, event: StreamEvent) -> Iterator[Delta]:
        """The deltas of one event."""
        ...


@dataclass(frozen=True, slots=True)
class VendorApi:
    """A vendor's API. `request_id` is the header of an answer that names its request."""

    vendor: str
    request_id: str
    key_variable: str


class ProviderClient:
    """An API at one address, with one key: requests whose answers stream, and requests that are answered by JSON.

    `timeout` is in seconds of silence. `headers` go with every request; they can't carry another key.
    """

    def __init__(self, api: VendorApi, base_url: str, key: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._api = api
        self._upstream = Upstream(api.vendor, base_url, timeout)
        own = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": USER_AGENT}
        self._headers = {**own, **headers, "authorization": f"Bearer {key}"}
        self._headers.pop("x-api-key", None)

    async def stream(
        self, path: str, body: Mapping[str, object], headers: Mapping[str, str], reader: EventReader
    ) -> AsyncIterator[Delta]:
        """The deltas of one request, `Opened` first; raises `ProviderError`."""
        sent, heard = encode(body), False
        async with self._upstream.send(path, sent, {**self._headers, **headers}) as reply:
            await self._accepted(reply)
            yield deltas.Opened(reply.headers.get(self._api.request_id), sent)
            decoder = EventDecoder()
            with self.readable():
                async for chunk in self._unpacked(reply):
                    for event in decoder.feed(chunk):
                        for delta in reader.of(event):
                            heard = True
                            yield delta
        if not reader.ended:
            ended = "the stream ended before the message did"
            raise broken(self._api.vendor, ended if heard else "it did not send a model's answer")

    async def ask(self, path: str, body: Mapping[str, object], headers: Mapping[str, str]) -> Any:
        """The JSON answer to one request; raises `ProviderError`."""
        async with self._upstream.send(path, encode(body), {**self._headers, **headers}) as reply:
            await self._accepted(reply)
            data = await self._whole(reply)
        with self.readable():
            return json_of(data)

    async def close(self) -> None:
        """Close all connections."""
        await self._upstream.close()

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Converts what an answer that is not as documented raises to a `ProviderError`."""
        try:
            yield
        except MALFORMED as error:
            raise broken(self._api.vendor, cause_of(error, began=True)) from error

    async def _accepted(self, reply: UpstreamReply) -> None:
        """Raises the provider's refusal, unless it accepted the request."""
        if 200 <= reply.status < 300:
            return
        text = (await self._whole(reply)).decode(errors="replace").strip()
        try:
            body = json_of(text)
        except MALFORMED:
            body = text
        retry_after = reply.headers.get("retry-after")
        raise of_status(self._api.vendor, reply.status, body, self._api.key_variable, retry_after)

    async def _whole(self, reply: UpstreamReply) -> bytes:
        return b"".join([data async for data in self._unpacked(reply)])

    def _unpacked(self, reply: UpstreamReply) -> AsyncIterator[bytes]:
        """The body. A few servers pack it although no request allows that."""
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        return reply.chunks if encoding in ("", "identity") else self._inflated(reply.chunks)

    async def _inflated(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
        async for chunk in chunks:
            try:
                data = unpacking.decompress(chunk)
            except zlib.error as error:
                raise broken(self._api.vendor, cause_of(error, began=True)) from error
            if data:
                yield data


_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def json_of(data: bytes | str) -> Any:
    """The value of a JSON text; raises `ValueError`. Unpaired surrogates and `NaN` are allowed, as few servers send."""
    try:
        return decode(data)
    except ValueError:
        return json.loads(data)
