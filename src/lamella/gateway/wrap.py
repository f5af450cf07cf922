"""`lamella.wrap`: what the gateway does, inside a program that uses the library of Anthropic or OpenAI.

    client = lamella.wrap(anthropic.Anthropic())
    client.messages.create(...)
    print(client.lamella.newest().why.text)

Requests go to the same address as before. Markers are added to a Messages request that has none. Each request is
recorded in a data folder, as a server would: `lamella clients --data lamella-records` lists them, `lamella why --last`
explains the newest. With `server="http://host:8377", key="lam_…"` the records go to a server instead, which shows them
with those of its gateway; the requests themselves still go to the vendor.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import httpx2
import msgspec
import structlog

from lamella.cache.ledger import Ledger
from lamella.cache.planner import note_written
from lamella.core.access import LOCAL_USER
from lamella.core.clock import SystemClock
from lamella.core.errors import InvalidRequest, LamellaError, QueueFull, error_of_fields
from lamella.core.ids import RandomIds
from lamella.core.json import decode_object
from lamella.core.records import Caller
from lamella.gateway.additions import UsageFilter, asks_for_usage, with_usage
from lamella.gateway.answers import unpacked
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import BlockWeights, Exchange, Recorded, Route, window_of_exchange
from lamella.gateway.matching import Match, Relation, client_of, session_of
from lamella.gateway.observed import Observation
from lamella.gateway.recorder import DROPS_TOLD, WAITING, WAITING_BYTES, LineRecorder, mark, recording
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.storage import open_store
from lamella.storage.folder import FolderLock

ClientT = TypeVar("ClientT")

FOLDER = Path("lamella-records")
"""Where requests are recorded by default, in the working folder."""

WAIT = 30.0
"""Seconds that `newest` and `close` wait for a record."""

SENDING = 10.0
"""Seconds of silence after which a server is taken to be away."""

RECORDS = "/api/v1/lines/records"
"""Where a server takes records."""

RECORDED_HEADERS = ("content-type", "request-id", "x-request-id", "retry-after")
"""The headers of an answer that are sent to a server."""

JSON = "application/json"

log = structlog.get_logger()

_DIALECTS = {
    "/messages": (Dialect.MESSAGES, "anthropic"),
    "/chat/completions": (Dialect.CHAT, "openai"),
    "/responses": (Dialect.RESPONSES, "openai"),
}


class Recording(ABC):
    """Records requests in a thread of its own. Wrapped clients have it as `lamella`."""

    def __init__(self, *, markers: bool) -> None:
        self._markers = markers
        self._table = ModelTable.shipped()
        self._clock = SystemClock()
        self._upstream = Upstream("The provider", "", 1.0)
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="lamella records", daemon=True)
        self._thread.start()
        opened.result(WAIT)
        atexit.register(self.close)

    def close(self) -> None:
        """Record what came so far, and end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(WAIT)

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
        client, session = client_of(request.headers), session_of(request.headers, fields)
        exchange = Exchange(Caller(LOCAL_USER), dialect, client, session, route, body, self._clock.now())
        if dialect is Dialect.CHAT and not asks_for_usage(fields):
            exchange.body, exchange.hides_usage = with_usage(body), True
        if self._markers:
            asyncio.run_coroutine_threadsafe(self._mark(exchange), self._loop).result(WAIT)
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Record an exchange, later."""
        self._loop.call_soon_threadsafe(self._take, exchange)

    def _run(self, opened: Future[None]) -> None:
        self._loop.run_until_complete(self._live(opened))
        self._loop.close()

    @abstractmethod
    async def _live(self, opened: Future[None]) -> None:
        """Set `opened` once records are taken, and return after `_ended` is set."""

    @abstractmethod
    async def _mark(self, exchange: Exchange) -> None:
        """Add markers to a body that has none, if they pay."""

    @abstractmethod
    def _take(self, exchange: Exchange) -> None:
        """Record an exchange, later; in the event loop of the records."""


class Records(Recording):
    """The records of a folder."""

    def __init__(self, folder: Path, *, markers: bool) -> None:
        self.folder = folder
        self._recorder: LineRecorder
        self._newest: Recorded | None = None
        super().__init__(markers=markers)

    def newest(self) -> Recorded | None:
        """The newest request with its line and its why, after all that came so far is recorded; None without any."""
        asyncio.run_coroutine_threadsafe(self._recorder.drain(), self._loop).result(WAIT)
        return self._newest

    def close(self) -> None:
        """Record what came so far, and let the folder go."""
        super().close()
        _open.pop(self.folder.resolve(), None)

    async def _mark(self, exchange: Exchange) -> None:
        await self._recorder.mark(exchange)

    def _take(self, exchange: Exchange) -> None:
        self._recorder.take(exchange)

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


class ServerRecords(Recording):
    """Records that are sent to a server, in the order of their requests. A record that the server does not take is
    dropped and counted (`dropped`); the request is never held up. Markers are planned here, by what went through here.
    """

    def __init__(self, server: str, key: str, *, markers: bool) -> None:
        self.server = server
        self.dropped = 0
        self._key = key
        self._ledger, self._weights = Ledger(), BlockWeights()
        self._queue: asyncio.Queue[Exchange] = asyncio.Queue()
        self._bytes = 0
        self._newest: SimpleNamespace | LamellaError | None = None
        super().__init__(markers=markers)

    def newest(self) -> SimpleNamespace | None:
        """The newest request as the server recorded it, after all that came so far was sent: `line`, `request`,
        `relation` and `why`, with the fields of `GET /api/v1/lines/live`.

        None without any request, and if the server stores nothing for this key. Raises why the newest was dropped.
        """
        asyncio.run_coroutine_threadsafe(self._queue.join(), self._loop).result(WAIT)
        if isinstance(self._newest, LamellaError):
            raise self._newest
        return self._newest

    def close(self) -> None:
        """Send what came so far, and end."""
        super().close()
        _servers.pop((self.server, self._key), None)

    async def _mark(self, exchange: Exchange) -> None:
        await mark(exchange, self._ledger, self._weights)

    def _take(self, exchange: Exchange) -> None:
        exchange.ended = self._clock.now()
        size = len(exchange.body) + exchange.size
        if self._queue.qsize() >= WAITING or self._bytes + size > WAITING_BYTES:
            self._drop(QueueFull("Too many records wait for the server."))
            return
        self._bytes += size
        self._queue.put_nowait(exchange)

    def _drop(self, why: LamellaError) -> None:
        self._newest = why
        self.dropped += 1
        if self.dropped % DROPS_TOLD == 1:
            log.warning("a request is not recorded", server=self.server, error=why.message, dropped=self.dropped)

    async def _live(self, opened: Future[None]) -> None:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        async with httpx2.AsyncClient(base_url=self.server, headers=headers, timeout=SENDING) as http:
            working = asyncio.create_task(self._work(http))
            opened.set_result(None)
            await self._ended.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._queue.join(), WAIT)
            working.cancel()

    async def _work(self, http: httpx2.AsyncClient) -> None:
        while True:
            exchange = await self._queue.get()
            try:
                self._note(exchange)
                self._newest = await self._send(http, exchange)
            except LamellaError as error:
                self._drop(error)
            except (httpx2.HTTPError, msgspec.MsgspecError, ValueError, LookupError, AttributeError) as error:
                why = str(error) or type(error).__name__
                self._drop(LamellaError(f"The server at {self.server} took no record: {why}."))
            finally:
                self._bytes -= len(exchange.body) + exchange.size
                self._queue.task_done()

    def _note(self, exchange: Exchange) -> None:
        """Note what the request wrote to the cache, for the markers of those that follow."""
        if exchange.added and exchange.status == 200:
            window = window_of_exchange(exchange, self._weights)
            plan, facts = Observation(exchange, window, Match(Relation.NEW), None, None).plan(self._ledger)
            note_written(plan, self._ledger, facts)

    async def _send(self, http: httpx2.AsyncClient, exchange: Exchange) -> SimpleNamespace | None:
        made = record_of(exchange, self._clock.now())
        answer = await http.post(RECORDS, content=msgspec.json.encode(made), headers={"content-type": JSON})
        if answer.is_error:
            raise _refusal(answer, self.server)
        told = answer.json(object_hook=lambda fields: SimpleNamespace(**fields)).recorded
        if told is not None:
            told.why = SimpleNamespace(text=told.why, cause=told.cause)
        return told  # type: ignore[no-any-return]


def record_of(exchange: Exchange, now: datetime) -> dict[str, Any]:
    """The body of `POST /api/v1/lines/records` for an exchange. Nothing of the request's headers is in it."""
    headers, ended = exchange.headers, exchange.ended or now
    answer = unpacked(b"".join(exchange.answer), headers.get("content-encoding", ""))
    return {
        "dialect": exchange.dialect.name.lower(),
        "body": exchange.body.decode(),
        "status": exchange.status,
        "headers": {name: headers[name] for name in RECORDED_HEADERS if name in headers},
        "answer": answer.decode("utf-8", "replace"),
        "markers": [{"index": one.index, "ttl": one.ttl.value, "why": one.why} for one in exchange.added],
        "age": max(0.0, (now - exchange.at).total_seconds()),
        "took": max(0.0, (ended - exchange.at).total_seconds()),
        "left": exchange.left,
        "client": exchange.client,
        "session": exchange.session,
        "account": exchange.route.account,
    }


def _refusal(answer: httpx2.Response, server: str) -> LamellaError:
    try:
        return error_of_fields(answer.json()["error"])
    except (ValueError, TypeError, LookupError):
        return LamellaError(f"{server} answered {answer.status_code}.", hint="Is it a Lamella server?")


_open: dict[Path, Records] = {}
"""The open folders of this process."""

_servers: dict[tuple[str, str], ServerRecords] = {}
"""The servers that this process sends records to, with the key for each."""


def wrap(
    client: ClientT,
    folder: Path | str | None = None,
    *,
    markers: bool = True,
    server: str | None = None,
    key: str = "",
) -> ClientT:
    """The same client of `anthropic` or `openai`, whose requests get markers and are recorded in `folder`
    (`lamella-records` by default), or by the Lamella server at the address `server` for the owner of `key`.

    It has the attribute `lamella` (`Records`, or `ServerRecords`). Raises `InvalidRequest` for another object, for an
    address that is none, and for a folder next to a server; `ConfigurationError` if the folder is used by another
    process.
    """
    http = getattr(client, "_client", None)
    if not isinstance(http, httpx2.Client | httpx2.AsyncClient) or not hasattr(client, "copy"):
        raise InvalidRequest(
            f"lamella.wrap takes a client of anthropic or openai, not {type(client).__name__}.",
            hint="Wrap the client itself: lamella.wrap(anthropic.Anthropic()).",
        )
    if folder is not None and server is not None:
        raise InvalidRequest(
            "lamella.wrap got a folder and a server, and records in one of them.",
            hint="Leave out folder, or server.",
            param="folder",
        )
    records = _of_folder(folder or FOLDER, markers) if server is None else _of_server(server, key, markers)
    made: Any
    if isinstance(http, httpx2.AsyncClient):
        made = httpx2.AsyncClient(transport=_AsyncTransport(http, records), timeout=http.timeout)
    else:
        made = httpx2.Client(transport=_Transport(http, records), timeout=http.timeout)
    wrapped: Any = client.copy(http_client=made)
    wrapped.lamella = records
    return wrapped  # type: ignore[no-any-return]


def _of_folder(folder: Path | str, markers: bool) -> Records:
    path = Path(folder).expanduser()
    return _open.get(path.resolve()) or _open.setdefault(path.resolve(), Records(path, markers=markers))


def _of_server(server: str, key: str, markers: bool) -> ServerRecords:
    if not server.startswith(("http://", "https://")):
        raise InvalidRequest(
            f"“{server}” is no address of a server.", hint='Name it with its scheme: server="http://localhost:8377".'
        )
    place = server.rstrip("/"), key
    return _servers.get(place) or _servers.setdefault(place, ServerRecords(*place, markers=markers))


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

    def __init__(self, http: httpx2.Client, records: Recording) -> None:
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

    def __init__(self, answer: httpx2.Response, exchange: Exchange, records: Recording) -> None:
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

    def __init__(self, http: httpx2.AsyncClient, records: Recording) -> None:
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

    def __init__(self, answer: httpx2.Response, exchange: Exchange, records: Recording) -> None:
        self._answer, self._exchange, self._records = answer, exchange, records
        self._copy = _Copy(answer, exchange)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._answer.aiter_raw():
            yield self._copy.take(data)
        yield self._copy.end()

    async def aclose(self) -> None:
        await self._answer.aclose()
        self._records.end(self._exchange)
