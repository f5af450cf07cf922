"""A typed client of a Lamella server: it sends messages, reads their packets, and resumes a stream that broke.

    async with connect("http://127.0.0.1:8377", key="lam_…") as lamella:
        conversation = await lamella.conversation()
        async for packet in lamella.send(conversation, "What is a tide?"):
            if isinstance(packet, TextPacket):
                print(packet.text, end="")

A message is sent with an Idempotency-Key, so it is sent again safely when the connection breaks before its turn has an
id. Later the packets are read on by their numbers: none is lost, none comes twice. Everything else that the API has is
reached by `get`, `post` and `ask`, for example `await lamella.get("/sessions", limit=5)`. What the server refuses is
raised as the error that it would be in the server, `NotFound` or `ContextLengthExceeded` for example.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import httpx2
import msgspec

from lamella.core.errors import CallerError, ConfigurationError, InvalidRequest, LamellaError
from lamella.core.packets import AnyPacket, ErrorPacket, TurnFinished, TurnQueued, decode_packet

__all__ = ["Client", "ServerBusy", "ServerUnreachable", "StoredFile", "connect"]

Object = dict[str, Any]
"""A JSON object of the API; `/docs` of a server describes each."""

TIMEOUT = httpx2.Timeout(120, connect=5)
"""Seconds without a byte; a server sends a comment every few seconds while nothing happens."""

PAUSES = (0.1, 0.3, 1.0, 3.0, 5.0)
"""Seconds before each attempt to send a message, or to resume a stream, that broke or was refused by a busy server. A
packet resets them.
"""


Events = AbstractAsyncContextManager[AsyncIterator[tuple[int | None, str]]]
"""A stream: the number and the JSON of each event. A packet that is not stored has no number, a comment has neither."""


class ServerUnreachable(LamellaError):
    """No server answers there, or it stopped in the middle of an answer."""

    code = "server_unreachable"


class ServerBusy(LamellaError):
    """The server takes nothing now, or a proxy in front of it found none: 502, 503 or 504. A message and the rest of a
    stream are asked for again; everything else is the caller's to send again.
    """

    code = "overloaded"


BUSY = frozenset({502, 503, 504})


class StoredFile(msgspec.Struct, frozen=True):
    """An uploaded file. `status` is `ready`, `failed` or that it is being read; `reason` says why it has no text."""

    id: str
    name: str
    status: str
    reason: str | None = None


class Client:
    """`/api/v1` of one server, as one user. `pauses` are the seconds before each attempt to go on with a stream."""

    def __init__(self, http: httpx2.AsyncClient, pauses: Sequence[float] = PAUSES) -> None:
        self.http = http
        self.pauses = pauses

    async def ask(self, method: str, path: str, **options: Any) -> Object:
        """The JSON answer of any request under `/api/v1`; `options` are those of httpx2. Raises the server's error."""
        answer = await self.call(method, path, **options)
        if answer.is_error:
            raise _refused(answer)
        body: Object = answer.json() if answer.content else {}
        return body

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """The answer to any request under `/api/v1`, with any status."""
        with _reachable(self.http):
            return await self.http.request(method, f"/api/v1{path}", **options)

    @asynccontextmanager
    async def events(
        self, method: str, path: str, **options: Any
    ) -> AsyncIterator[AsyncIterator[tuple[int | None, str]]]:
        """The events of a stream as they come; leaving the block closes the connection. Raises as `ask` does."""
        async with self.http.stream(method, f"/api/v1{path}", **options) as answer:
            if answer.is_error:
                await answer.aread()
                raise _refused(answer)
            yield _read(answer.aiter_lines())

    async def get(self, path: str, **query: Any) -> Object:
        """The JSON of a GET."""
        return await self.ask("GET", path, params=query or None)  # no query leaves that of the path

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Object:
        """The JSON of a POST."""
        return await self.ask("POST", path, json=body or {})

    async def conversation(self, model: str | None = None, **fields: Any) -> str:
        """The id of a new conversation."""
        return str((await self.post("/conversations", {"model": model, **fields}))["id"])

    async def upload(self, path: Path) -> StoredFile:
        """Upload a file and read it; its id goes into `file_ids` of a message."""
        with opened(path) as file:
            found = await self.ask("POST", "/files", files={"file": (path.name, file)})
        return msgspec.convert(found, StoredFile)

    async def send(
        self,
        conversation_id: str,
        text: str,
        *,
        file_ids: Sequence[str] = (),
        models: Sequence[str] = (),
        timezone: str = "UTC",
        thinking_effort: str | None = None,
        dynamic_context: Sequence[str] = (),
        debounce_ms: int | None = None,
    ) -> AsyncIterator[AnyPacket]:
        """Send a message and yield the packets of its turn to the end; a command yields one packet.

        `debounce_ms` is how long the server waits for more messages; None: its setting.
        """
        body: Object = {"text": text, "file_ids": list(file_ids), "timezone": timezone}
        optional = {
            "models": list(models),
            "thinking_effort": thinking_effort,
            "dynamic_context": list(dynamic_context),
            "debounce_ms": debounce_ms,
        }
        body |= {name: value for name, value in optional.items() if value not in (None, [])}
        path, headers = f"/conversations/{conversation_id}/turns", {"idempotency-key": token_hex(16)}

        def again() -> Events:
            return self.events("POST", path, json=body, headers=headers)

        async for packet in self._resumed(again, "", 0):
            yield packet

    async def follow(self, turn_id: str, after: int = 0) -> AsyncIterator[AnyPacket]:
        """The packets of a turn after number `after`, to its end."""
        async for packet in self._resumed(None, turn_id, after):
            yield packet

    async def stop(self, turn_id: str) -> None:
        """Ask a turn to stop."""
        await self.post(f"/turns/{turn_id}/stop")

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str = "") -> None:
        """Let a waiting tool call run, or not. The model sees the `reason`."""
        await self.post(f"/turns/{turn_id}/calls/{call_id}/approval", {"approved": approved, "reason": reason})

    async def _resumed(self, send: Callable[[], Events] | None, turn_id: str, last: int) -> AsyncIterator[AnyPacket]:
        """The packets of a turn over as many connections as necessary; `send` makes the first request."""
        pauses, queued = iter(self.pauses), ""
        while True:
            stream = send() if send is not None and not turn_id else self._rest(turn_id, last)
            broken: Exception | None = None
            waits = False
            try:
                async with stream as events:
                    async for _, data in events:
                        if not data:
                            continue
                        packet = decode_packet(data.encode())
                        # A message that waits is answered by another server if this one ends.
                        if waits and isinstance(packet, ErrorPacket) and packet.error["code"] == ServerBusy.code:
                            break
                        waits = isinstance(packet, TurnQueued)
                        if isinstance(packet, TurnQueued):
                            if packet.message_id == queued:
                                continue
                            queued = packet.message_id
                        pauses = iter(self.pauses)
                        turn_id, last = packet.turn_id or turn_id, packet.n or last
                        yield packet
                        if isinstance(packet, TurnFinished):
                            return
                if not turn_id and not waits:
                    return
            except (httpx2.TransportError, ServerBusy) as error:
                broken = error
            pause = next(pauses, None)
            if pause is None:
                if isinstance(broken, ServerBusy):
                    raise broken
                raise _unreachable(self.http, broken) from broken
            await asyncio.sleep(pause)

    def _rest(self, turn_id: str, after: int) -> Events:
        return self.events("GET", f"/turns/{turn_id}/events", params={"after": after})


@asynccontextmanager
async def connect(url: str, key: str | None = None) -> AsyncIterator[Client]:
    """A client of the server at `url`, as the user of this API key; a server without accounts needs none."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, trust_env=False) as http:
        yield Client(http)


async def _read(lines: AsyncIterator[str]) -> AsyncIterator[tuple[int | None, str]]:
    number: int | None = None
    async for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            yield number, value
            number = None
        elif not name and value:
            yield None, ""


def opened(path: Path) -> BinaryIO:
    """A file to send; raises `InvalidRequest`."""
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None


def _callers(kind: type[CallerError] = CallerError) -> Iterator[type[CallerError]]:
    """Every error that is the caller's."""
    for error in kind.__subclasses__():
        yield error
        yield from _callers(error)


_KINDS: Mapping[str, type[LamellaError]] = {
    ConfigurationError.code: ConfigurationError,
    **{error.code: error for error in reversed([*_callers()])},
}
"""Errors by their codes; of several with one code, the base class."""


def refusal(error: Mapping[str, Any]) -> LamellaError:
    """The error that a server answered with, as the kind that it would be there."""
    kind = _KINDS.get(str(error.get("code")), LamellaError)
    return kind(str(error.get("message")), hint=error.get("hint"), param=error.get("param"))


def _refused(answer: httpx2.Response) -> LamellaError:
    """The error of an answer; for an answer that is not Lamella's, such as a proxy's page, its status and first
    words.
    """
    try:
        error = answer.json()["error"]
        if answer.status_code in BUSY:
            return ServerBusy(str(error.get("message")), hint=error.get("hint"), param=error.get("param"))
        return refusal(error)
    except (ValueError, TypeError, LookupError, AttributeError):
        detail = " ".join(answer.text.split())[:200]
        status = f"{answer.status_code} {answer.reason_phrase}".strip()
        why = f"The server at {answer.request.url} answered {status}" + (f": {detail}" if detail else ".")
        kind = ServerBusy if answer.status_code in BUSY else LamellaError
        return kind(why, hint="Is it a Lamella server?")


@contextmanager
def _reachable(http: httpx2.AsyncClient) -> Iterator[None]:
    try:
        yield
    except httpx2.TransportError as error:
        raise _unreachable(http, error) from error


def _unreachable(http: httpx2.AsyncClient, error: Exception | None) -> ServerUnreachable:
    why = f": {error}" if error is not None and str(error) else ""
    return ServerUnreachable(f"The server at {http.base_url} does not answer{why}.", hint="Is it running there?")
