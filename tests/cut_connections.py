"""An address in front of a server, whose connections a test cuts: at any moment, or as certain bytes go by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count


class Proxy:
    """Forwards each connection to a socket of a server. It counts how often a client waits for an answer."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._refuses = False
        self._when: Callable[[bytes], bool] | None = None
        self._forwards = False
        self._then_refuses = False
        self._half = False
        self._dangling: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.trips = 0
        """How often a client sent something after it had an answer."""
        self.sent = 0
        """How often clients sent something."""
        self.cuts = 0
        """How often `cut_at` and `cut_at_number` came true."""

    def cut_at(self, pattern: bytes, *, forward: bool, then_refuse: bool = False) -> None:
        """Cut the next connection whose client sends `pattern`: after the server got it, with `forward`, or before.

        With `then_refuse`, as `refuse` from then on.
        """
        self._when, self._forwards, self._then_refuses = lambda data: pattern in data, forward, then_refuse

    def cut_at_number(self, number: int, *, forward: bool) -> None:
        """As `cut_at`, at what is sent as the `number`th from now on, 0 being the next."""
        numbers = count()
        self._when, self._forwards = lambda _: next(numbers) == number, forward

    def lose_at(self, pattern: bytes) -> None:
        """Cut the client's end alone as it sends `pattern`, which is lost: the server waits for it."""
        self.cut_at(pattern, forward=False)
        self._half = True

    def cut(self) -> None:
        """Cut every connection, as a server does that dies."""
        self._in_loop(self._cut)

    def refuse(self) -> None:
        """Cut every connection, and refuse new ones until `accept`."""
        self._refuses = True
        self.cut()

    def accept(self) -> None:
        """Take connections again."""
        self._refuses = False

    def _in_loop(self, do: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(do)
        self._loop.call_soon_threadsafe(done.set)
        done.wait(5)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def run(self, started: threading.Event) -> None:
        """Serve, in a thread of its own."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        started.set()
        self._loop.run_forever()
        self._cut()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        turn, muted = _Turn(self), asyncio.Event()
        try:
            await asyncio.gather(
                self._forward(reader, far_writer, turn.asks, ends, muted, by_client=True),
                self._forward(far_reader, writer, turn.answers, ends, muted, by_client=False),
            )
        finally:
            self._writers -= {writer, far_writer}
            for end in ends:
                end.transport.abort()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        seen: Callable[[], None],
        ends: set[asyncio.StreamWriter],
        muted: asyncio.Event,
        *,
        by_client: bool,
    ) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65_536):
                if muted.is_set():
                    continue
                seen()
                self.sent += by_client
                if by_client and self._when is not None and self._when(data):
                    self._when = None
                    self.cuts += 1
                    if self._forwards:
                        muted.set()
                        writer.write(data)
                        await writer.drain()
                        await asyncio.sleep(0.05)  # the server has done it by then
                    self._refuses = self._refuses or self._then_refuses
                    self._then_refuses = False
                    if self._half:
                        self._half = False
                        self._dangling.add(writer)
                        ends.discard(writer)
                    break
                writer.write(data)
                await writer.drain()
        for end in [*ends]:
            end.transport.abort()


class _Turn:
    """Whose turn it is to speak on one connection."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._answered = True

    def asks(self) -> None:
        if self._answered:
            self._proxy.trips += 1
        self._answered = False

    def answers(self) -> None:
        self._answered = True


@contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """An address in front of the socket `target`."""
    proxy, started = Proxy(target), threading.Event()
    thread = threading.Thread(target=proxy.run, args=(started,), daemon=True)
    thread.start()
    started.wait(5)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(5)
