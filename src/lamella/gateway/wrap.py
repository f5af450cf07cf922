"""`lamella.wrap`: what the gateway does, inside a program that uses the library of Anthropic or OpenAI.

    client = lamella.wrap(anthropic.Anthropic())
    client.messages.create(...)
    print(client.lamella.newest().why.text)

Requests go to the same address as before. Markers are added to a Messages request that has none. Each request is
recorded in a data folder, as a server would: `lamella clients --data lamella-records` lists them, `lamella why --last`
explains the newest.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from lamella.cache.ledger import Ledger
from lamella.core.access import LOCAL_USER
from lamella.core.clock import SystemClock
from lamella.core.errors import InvalidRequest, LamellaError
from lamella.core.ids import RandomIds
from lamella.core.json import decode_object
from lamella.core.records import Caller
from lamella.gateway.additions import UsageFilter, asks_for_usage, with_usage
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Exchange, Recorded, Route
from lamella.gateway.matching import client_of, session_of
from lamella.gateway.recorder import LineRecorder, recording
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.storage import open_store
from lamella.storage.folder import FolderLock

ClientT = TypeVar("ClientT")

FOLDER = Path("lamella-records")
"""Where requests are recorded by default, in the working folder."""

WAIT = 30.0
"""Seconds that `newest` and `close` wait for a record."""

_DIALECTS = {
    "/messages": (Dialect.MESSAGES, "anthropic"),
    "/chat/completions": (Dialect.CHAT, "openai"),
    "/responses": (Dialect.RESPONSES, "openai"),
}


class Records:
    """The records of a folder, made in a thread of their own. Wrapped clients have them as `lamella`."""

    def __init__(self, folder: Path, *, markers: bool) -> None:
        self.folder = folder
        self._markers = markers
        self._table = ModelTable.shipped()
        self._clock = SystemClock()
        self._upstream = Upstream("The provider", "", 1.0)
        self._recorder: LineRecorder
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._newest: Recorded | None = None
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="lamella records", daemon=True)
        self._thread.start()
        opened.result(WAIT)
        atexit.register(self.close)

    def newest(self) -> Recorded | None:
        """The newest request with its line and its why, after all that came so far is recorded; None without any."""
        asyncio.run_coroutine_threadsafe(self._recorder.drain(), self._loop).result(WAIT)
        return self._newest

    def close(self) -> None:
        """Record what came so far, and let the folder go."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(WAIT)
        _open.pop(self.folder.resolve(), None)

    def begin(self, request: httpx2.Request, body: bytes) -> Exchange | None:
        """The exchange of a request, with its markers; None for one that is not recorded."""
        found = next((kind for path, kind in _DIALECTS.items() if request.url.path.endswith(path)), None)
        if found is None or request.method != "POST":
            return None
        dialect, provider = found
        try:
            fields = decode_object(body)
        except msgspec.DecodeError:
            return None
        model = str(fields.get("model") or "")
        key = request.headers.get("authorization") or request.headers.get("x-api-key") or ""
        account = f"{request.url.netloc!r}#{blake2b(key.encode(), digest_size=8).hexdigest()}"
        facts = replace(self._table.facts(model, provider), name=model)
        route = Route(self._upstream, "", "", model, account, facts, dialect)
        client, session = client_of(request.headers.get("user-agent", "")), session_of(request.headers, fields)
        exchange = Exchange(Caller(LOCAL_USER), dialect, client, session, route, body, self._clock.now())
        if dialect is Dialect.CHAT and not asks_for_usage(fields):
            exchange.body, exchange.hides_usage = with_usage(body), True
        if self._markers:
            asyncio.run_coroutine_threadsafe(self._recorder.mark(exchange), self._loop).result(WAIT)
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Record an exchange, later."""
        self._loop.call_soon_threadsafe(self._recorder.take, exchange)

    def _run(self, opened: Future[None]) -> None:
        self._loop.run_until_complete(self._live(opened))
        self._loop.close()

    async def _live(self, opened: Future[None]) -> None:
        async with AsyncExitStack() as stack:
            try:
                stack.enter_context(FolderLock(self.folder))
                ids = RandomIds(self._clock)
                store = await stack.enter_async_context(await open_store(self.folder / "lamella.db", ids))
                ids.follow(*await store.turns.newest_ids())
                self._recorder = await stack.enter_async_context(recording(store, Ledger(), self._clock, ids))
            except LamellaError as error:
                opened.set_exception(error)
                return
            watching = asyncio.create_task(self._watch())
            stack.callback(watching.cancel)
            opened.set_result(None)
            await self._ended.wait()

    async def _watch(self) -> None:
        async with self._recorder.watch(Caller(LOCAL_USER)) as records:
            async for recorded in records:
                self._newest = recorded


_open: dict[Path, Records] = {}
"""The open folders of this process."""


def wrap(client: ClientT, folder: Path | str = FOLDER, *, markers: bool = True) -> ClientT:
    """The same client of `anthropic` or `openai`, whose requests are recorded in `folder` and get markers.

    It has the attribute `lamella` (`Records`). Raises `InvalidRequest` for another object, `ConfigurationError` if the
    folder is used by another process.
    """
    http = getattr(client, "_client", None)
    if not isinstance(http, httpx2.Client | httpx2.AsyncClient) or not hasattr(client, "copy"):
        raise InvalidRequest(
            f"lamella.wrap takes a client of anthropic or openai, not {type(client).__name__}.",
            hint="Wrap the client itself: lamella.wrap(anthropic.Anthropic()).",
        )
    path = Path(folder).expanduser()
    records = _open.get(path.resolve()) or _open.setdefault(path.resolve(), Records(path, markers=markers))
    made: Any
    if isinstance(http, httpx2.AsyncClient):
        made = httpx2.AsyncClient(transport=_AsyncTransport(http, records), timeout=http.timeout)
    else:
        made = httpx2.Client(transport=_Transport(http, records), timeout=http.timeout)
    wrapped: Any = client.copy(http_client=made)
    wrapped.lamella = records
    return wrapped  # type: ignore[no-any-return]


def _sent(request: httpx2.Request, exchange: Exchange | None, body: bytes) -> httpx2.Request:
    """The request as it goes on: with the body that it has now, and an answer that is not packed."""
    headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
    extensions = dict(request.extensions)
    if exchange is None:
        return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=extensions)
    headers = [(name, value) for name, value in headers if name != "accept-encoding"]
    headers.append(("accept-encoding", "identity"))
    return httpx2.Request(request.method, request.url, headers=headers, content=exchange.body, extensions=extensions)


class _Copy:
    """Keeps what passes for the record, and gives what the program gets of it."""

    def __init__(self, answer: httpx2.Response, exchange: Exchange) -> None:
        exchange.status, exchange.headers, exchange.left = answer.status_code, answer.headers, True
        self._exchange = exchange
        streams = answer.headers.get("content-type", "").startswith("text/event-stream")
        self._hidden = UsageFilter() if exchange.hides_usage and streams else None

    def take(self, data: bytes) -> bytes:
        self._exchange.keep(data)
        return data if self._hidden is None else self._hidden.feed(data)

    def end(self) -> bytes:
        self._exchange.left = False
        return b"" if self._hidden is None else self._hidden.end()


class _Transport(httpx2.BaseTransport):
    """Sends by the client's own connections, and keeps a copy of what passes."""

    def __init__(self, http: httpx2.Client, records: Records) -> None:
        self._http, self._records = http, records

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = request.read()
        exchange = self._records.begin(request, body)
        answer = self._http.send(_sent(request, exchange, body), stream=True)
        stream = _Copied(answer, exchange, self._records) if exchange is not None else answer.stream
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)

    def close(self) -> None:
        self._http.close()


class _Copied(httpx2.SyncByteStream):
    """The answer's bytes as they come; the exchange is recorded at their end."""

    def __init__(self, answer: httpx2.Response, exchange: Exchange, records: Records) -> None:
        self._answer, self._exchange, self._records = answer, exchange, records
        self._copy = _Copy(answer, exchange)

    def __iter__(self) -> Iterator[bytes]:
        for data in self._answer.iter_raw():
            yield self._copy.take(data)
        yield self._copy.end()

    def close(self) -> None:
        self._answer.close()
        self._records.end(self._exchange)


class _AsyncTransport(httpx2.AsyncBaseTransport):
    """As `_Transport`, for clients of an event loop."""

    def __init__(self, http: httpx2.AsyncClient, records: Records) -> None:
        self._http, self._records = http, records

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        exchange = self._records.begin(request, body)
        answer = await self._http.send(_sent(request, exchange, body), stream=True)
        stream = _AsyncCopied(answer, exchange, self._records) if exchange is not None else answer.stream
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._http.aclose()


class _AsyncCopied(httpx2.AsyncByteStream):
    """As `_Copied`."""

    def __init__(self, answer: httpx2.Response, exchange: Exchange, records: Records) -> None:
        self._answer, self._exchange, self._records = answer, exchange, records
        self._copy = _Copy(answer, exchange)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._answer.aiter_raw():
            yield self._copy.take(data)
        yield self._copy.end()

    async def aclose(self) -> None:
        await self._answer.aclose()
        self._records.end(self._exchange)
