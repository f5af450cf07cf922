"""Limits on connections before authentication: bytes, time, and number.

uvicorn with httptools reads heads of any length, for any time, from any number of connections. Here a head has limits.
If all places are taken, the connection that has kept the server waiting longest is closed, so silent clients can't lock
out others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from lamella.core.errors import InvalidRequest, LamellaError, PayloadTooLarge, TooManyConnections
from lamella.server.balancing import Networks, is_within
from lamella.server.failures import error_answer

MAX_HEAD_BYTES = 64_000
"""Maximum bytes of a request's line and headers, and of the data between and after the chunks of a body."""
MAX_HEADERS = 100
MAX_URL_BYTES = 16_000
LINGER_SECONDS = 1.0
"""How long the rest of a refused request is read and discarded: closing at once could lose the error message."""


_LONG_HEAD = PayloadTooLarge(f"The headers are longer than {MAX_HEAD_BYTES // 1000} kB.")


@dataclass(frozen=True, slots=True)
class Limits:
    """Connections in all and of one address; seconds for a head, and of silence within a body."""

    in_all: int = 2_000
    per_address: int = 500
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    trusted: Networks = ()
    """Proxies: all clients come from their addresses, so no limit holds for one of these."""


DEFAULT = Limits()


class Connections:
    """The connections of a server, and those that wait for their client, longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._addresses: Counter[str] = Counter()
        self._waiting: dict[BoundedProtocol, None] = {}

    def admit(self, connection: BoundedProtocol) -> bool:
        """Whether a new connection gets a place. The longest waiting connection may be closed for it."""
        address = connection.address
        if self._addresses[address] >= self.limits.per_address and not is_within(address, self.limits.trusted):
            longest = next((other for other in self._waiting if other.address == address), None)
        elif self._addresses.total() >= self.limits.in_all:
            longest = next(iter(self._waiting), None)
        else:
            longest = None
            self._addresses[address] += 1
            return True
        if longest is not None:
            longest.give_up()
            self._addresses[address] += 1
        return longest is not None

    def leave(self, connection: BoundedProtocol) -> None:
        """A connection was closed. Calling it again has no effect."""
        self._waiting.pop(connection, None)
        self._addresses[connection.address] -= 1
        if self._addresses[connection.address] <= 0:
            del self._addresses[connection.address]

    def wait(self, connection: BoundedProtocol) -> None:
        """From now on this connection waits for its client."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def is_waiting(self, connection: BoundedProtocol) -> bool:
        """Whether the next word is its client's."""
        return connection in self._waiting

    def heard(self, connection: BoundedProtocol) -> None:
        """The client has sent its whole request."""
        self._waiting.pop(connection, None)


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """The `http` of a uvicorn server within these limits."""
    # uvicorn calls it for each connection; its types want a class.
    return cast("type[asyncio.Protocol]", partial(BoundedProtocol, Connections(limits)))


class _Refused(Exception):
    """Ends the reading of a request that was answered already."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's connection, which answers 408, 414 or 431 and closes if a request's head exceeds a limit."""

    def __init__(self, among: Connections, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._among = among
        self._has_place = False
        self._is_refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._bytes = 0
        """Received since the message began, or since the last piece of its body."""
        self._head_bytes = 0
        """Of the headers that ended."""
        self._in_body = False

    @property
    def address(self) -> str:
        """The client's, as the socket says; "" for a socket without."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._has_place = self._among.admit(self)
        if self._has_place:
            self._wait()
            return
        limits = self._among.limits
        hint = f"At most {limits.in_all} are open, {limits.per_address} of one address (LAMELLA_CONNECTIONS…)."
        self._write(TooManyConnections("This server has no place for another connection.", hint=hint), None)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close at once, for another connection."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        if self._has_place:
            self._has_place = False
            self._among.leave(self)

    # What the client sends

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._bytes += len(data)
        super().data_received(data)
        if self._bytes > MAX_HEAD_BYTES and not self._is_refused:
            self._refuse(_LONG_HEAD, 431)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._refuse(PayloadTooLarge(f"The address is longer than {MAX_URL_BYTES // 1000} kB."), 414)
            raise _Refused

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(_LONG_HEAD, 431)
            raise _Refused
        if len(self.headers) > MAX_HEADERS:
            self._refuse(PayloadTooLarge(f"The request has more than {MAX_HEADERS} headers."), 431)
            raise _Refused

    def on_headers_complete(self) -> None:
        self._in_body = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes = 0
        self._heard_at = self.loop.time()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes, self._in_body = 0, False
        self._among.heard(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_body and not self.pipeline and self._has_place:
            self._wait()

    # Time

    def _wait(self) -> None:
        """The next word is the client's."""
        self._among.wait(self)
        self._heard_at = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_later(self._among.limits.head_seconds, self._look)

    def _look(self) -> None:
        """End a connection whose client lets it wait for too long."""
        self._timer = None
        if self._is_refused:
            self.transport.abort()
        elif self._among.is_waiting(self):
            limits = self._among.limits
            allowed = limits.body_seconds if self._in_body else limits.head_seconds
            # A body that nobody reads on our side is not its client's silence.
            since = self.loop.time() if self.flow.read_paused else self._heard_at
            left = since + allowed - self.loop.time()
            if left > 0.001:
                self._timer = self.loop.call_later(left, self._look)
            else:
                what = "body stopped" if self._in_body else "headers did not end"
                self._refuse(InvalidRequest(f"The request's {what} for {allowed:g} seconds."), 408)

    # Refusals

    def send_400_response(self, msg: str) -> None:
        if not self._is_refused:
            self._refuse(InvalidRequest("This is not a request of HTTP/1.1."), 400)

    def _refuse(self, error: LamellaError, status: int) -> None:
        """Send the error if no other answer has begun, and close after the client had time to read it."""
        self._is_refused = True
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering != self._in_body or (is_answering and (cycle.response_started or self.pipeline)):
            self.transport.abort()
            return
        if is_answering:
            cycle.disconnected = True
            cycle.message_event.set()
        self._write(error, status)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(LINGER_SECONDS, self._look)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _write(self, error: LamellaError, status: int | None) -> None:
        answer = error_answer(error, {"path": "", "headers": []}, status)
        fields = [*answer.raw_headers, (b"connection", b"close")]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        self.transport.write(STATUS_LINE[answer.status_code] + head + b"\r\n" + bytes(answer.body))
