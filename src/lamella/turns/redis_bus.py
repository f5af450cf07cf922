"""`RedisBus`: live packets between processes, and their doorbell, by streams of a Redis or Valkey server.

    publish ─▶ followers in this process, at once
            ─▶ the turn's stream, in groups: XADD lamella:turn:ID 45-0 p "packet 43\\npacket 44\\npacket 45"
    reader  ◀─ one XREAD of this process's bell and of all turns that are followed here from elsewhere

An entry has the number of its last packet as its id. So the server itself refuses what was sent before, a group may be
sent again after a lost answer, and a reader goes on from the number that it has seen, also on a server that lost its
memory. A stream holds the last `STREAM_BYTES` of a turn and expires; who needs more reads the journal.

Nothing here blocks or fails a turn. While the server is away, a bounded number of packets waits; the others are given
up, and followers find them in the journal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from secrets import token_hex
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from lamella.core.clock import Clock
from lamella.turns.heard import HeardTurns
from lamella.turns.journal import MemoryBus
from lamella.turns.redis_server import Failures, Outage, check_server, redis_client

log = structlog.get_logger()

FLUSH_SECONDS, READ_PAUSE = 0.01, 0.005
"""Packets of this time are sent together; a read waits so long after one that found something."""

PAUSE_A_TURN, MOST_PAUSE = 0.002, 0.04
"""Both pauses grow with the turns that stream, up to this: a command costs the same for one packet and for three."""

BLOCK_SECONDS = 1.0
"""The longest wait of a read. It is shorter than `ANSWER_SECONDS`: a silent server answers it with nothing."""

AGAIN_SECONDS = 0.5
"""Before a server that is away is tried again."""

STREAM_BYTES = 256 * 1024
"""Of a turn's stream. A larger packet is not sent."""

ENTRY_BYTES = 32 * 1024
"""Of an entry: as much more may be in a stream."""

WAITING_BYTES = 8 * 1024 * 1024
"""Of all packets that wait for the server."""

EXPIRE_SECONDS, RENEW_SECONDS, ENDED_SECONDS = 120, 5.0, 30
"""When a silent stream is removed; how often that is said while it grows; when an ended one is removed."""

ENTRIES = 64
"""Of a stream in one read."""

Command = tuple[str | bytes | int, ...]
Packets = list[tuple[int, bytes]]


def stream_of(turn_id: str) -> str:
    """The key of a turn's stream."""
    return f"lamella:turn:{turn_id}"


def bell_of(process_id: str) -> str:
    """The key of a process's bell: a stream of at most one entry."""
    return f"lamella:bell:{process_id}"


@dataclass(slots=True)
class _Outgoing:
    """A turn that runs here. `waiting` is not sent yet, `sent` are the ids and sizes of the entries in its stream."""

    turn_id: str
    waiting: Packets = field(default_factory=list)
    sent: deque[tuple[int, int]] = field(default_factory=deque)
    sent_bytes: int = 0
    renewed_at: float = float("-inf")
    closed: bool = False

    def entries(self, packets: Packets) -> Iterator[Command]:
        """The commands that add these packets to the stream, and cut it."""
        for group in _groups(packets):
            data = b"\n".join(packet for _, packet in group)
            last = group[-1][0]
            if not self.sent or last > self.sent[-1][0]:  # else it is sent again
                self.sent.append((last, len(data)))
                self.sent_bytes += len(data)
            yield ("XADD", stream_of(self.turn_id), *self._cut(), f"{last}-0", "p", data)

    def _cut(self) -> Command:
        if self.sent_bytes <= STREAM_BYTES:
            return ()
        while self.sent_bytes > STREAM_BYTES and len(self.sent) > 1:
            self.sent_bytes -= self.sent.popleft()[1]
        return ("MINID", "=", self.sent[0][0])


def _groups(packets: Packets) -> Iterator[Packets]:
    """Packets in groups for an entry each: not too large, and their numbers without a gap."""
    size, begun = 0, 0
    for at, (before, after) in enumerate(pairwise(packets), start=1):
        size += len(before[1])
        if after[0] != before[0] + 1 or size + len(after[1]) > ENTRY_BYTES:
            yield packets[begun:at]
            size, begun = 0, at
    yield packets[begun:]


def _packets(id: bytes, data: bytes) -> Packets:
    """The packets of an entry."""
    lines = data.split(b"\n")
    first = int(id.partition(b"-")[0]) - len(lines) + 1
    return list(enumerate(lines, start=first))


class RedisBus(MemoryBus):
    """The `StreamBus` and the `Doorbell` of one of several processes. `heard` gets the packets of the others."""

    def __init__(self, client: Redis, heard: HeardTurns, clock: Clock) -> None:
        super().__init__()
        self.outage = Outage(clock)
        self._client = client
        self.heard = heard
        self._clock = clock
        self._outgoing: dict[str, _Outgoing] = {}
        self._waiting_bytes = 0
        self._dirty = asyncio.Event()
        self._rings: set[str] = set()
        self._wake = token_hex(8)
        """Names a bell of this object, which ends a read whose streams have changed."""
        self._process_id = self._wake
        self._rung = asyncio.Event()
        self._bells: dict[str, str] = {}
        """The last entry of this process's bells that was read."""
        heard.on_change = lambda: self.ring(self._wake)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RedisBus]:
        """Send and read until the block ends, then send what waits if the server answers."""
        tasks = [
            asyncio.create_task(work)
            for work in (self._often("writing", self._write), self._often("reading", self._read))
        ]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.outage.problem is None:
                with suppress(*Failures):
                    await self._send()
            await self._client.aclose()

    # The bus

    @property
    def problem(self) -> str | None:
        """See `StreamBus.problem`."""
        return self.outage.problem

    def open(self, turn_id: str) -> None:
        """See `StreamBus.open`."""
        super().open(turn_id)
        self._outgoing[turn_id] = _Outgoing(turn_id)

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """See `StreamBus.publish`."""
        super().publish(turn_id, n, data)
        if len(data) > STREAM_BYTES:
            return
        if self._waiting_bytes > WAITING_BYTES:
            self._give_up()
        self._outgoing[turn_id].waiting.append((n, data))
        self._waiting_bytes += len(data)
        self._dirty.set()

    def close(self, turn_id: str) -> None:
        """See `StreamBus.close`."""
        super().close(turn_id)
        if (turn := self._outgoing.get(turn_id)) is not None:
            turn.closed = True
            self._dirty.set()

    # The doorbell

    def ring(self, process_id: str) -> None:
        """See `Doorbell.ring`."""
        self._rings.add(process_id)
        self._dirty.set()

    async def rung(self, process_id: str, seconds: float) -> None:
        """See `Doorbell.rung`."""
        if process_id != self._process_id:
            self._process_id = process_id
            self.ring(self._wake)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()

    # Writing

    async def _write(self) -> None:
        await self._dirty.wait()
        await self._clock.sleep(_pause(FLUSH_SECONDS, len(self._outgoing)))
        await self._send()

    async def _send(self) -> None:
        """Send what waits; on failure it waits for the next time."""
        self._dirty.clear()
        taken = [(turn, turn.waiting) for turn in self._outgoing.values() if turn.waiting or turn.closed]
        rings, self._rings = self._rings, set()
        commands, size = [*self._adds(taken), *self._ringing(rings)], self._waiting_bytes
        self._waiting_bytes = 0
        for turn, _ in taken:
            turn.waiting = []
        try:
            await self._sent(commands)
        except BaseException:
            for turn, packets in taken:
                turn.waiting = packets + turn.waiting
            self._waiting_bytes += size
            self._rings |= rings
            self._dirty.set()
            raise
        for turn, _ in taken:
            if turn.closed and not turn.waiting:
                self._outgoing.pop(turn.turn_id, None)

    def _adds(self, taken: Sequence[tuple[_Outgoing, Packets]]) -> Iterator[Command]:
        now = self._clock.monotonic()
        for turn, packets in taken:
            if packets:
                yield from turn.entries(packets)
            if turn.closed and turn.sent:
                yield ("EXPIRE", stream_of(turn.turn_id), ENDED_SECONDS)
            elif packets and now - turn.renewed_at > RENEW_SECONDS:
                turn.renewed_at = now
                yield ("EXPIRE", stream_of(turn.turn_id), EXPIRE_SECONDS)

    def _ringing(self, rings: set[str]) -> Iterator[Command]:
        for process_id in rings:
            yield ("XADD", bell_of(process_id), "MAXLEN", 1, "*", "r", "")
            yield ("EXPIRE", bell_of(process_id), EXPIRE_SECONDS)

    async def _sent(self, commands: Sequence[Command]) -> None:
        """Raises one of `Failures`; an entry that was sent before is none."""
        if not commands:
            return
        sending = self._client.pipeline(transaction=False)
        for command in commands:
            sending.execute_command(*command)
        for answer in await sending.execute(raise_on_error=False):
            if isinstance(answer, Exception) and not _was_sent_before(answer):
                raise answer

    def _give_up(self) -> None:
        for turn in self._outgoing.values():
            turn.waiting = []
        self._waiting_bytes = 0

    # Reading

    async def _read(self) -> None:
        bells = {bell_of(id): self._bells.get(id, "0-0") for id in {self._wake, self._process_id}}
        turns = {stream_of(id): f"{turn.position}-0" for id, turn in self.heard.turns.items()}
        places: dict[Any, Any] = {**bells, **turns}
        found: Any = await self._client.xread(places, count=ENTRIES, block=int(1000 * BLOCK_SECONDS))
        for key, entries in found:
            kind, _, id = key.decode().removeprefix("lamella:").partition(":")
            if kind == "bell":
                self._bells[id] = entries[-1][0].decode()
                if id == self._process_id:
                    self._rung.set()
            else:
                for entry, fields in entries:
                    self.heard.hear(id, _packets(entry, fields[b"p"]))
        if found:
            await self._clock.sleep(_pause(READ_PAUSE, len(turns)))

    async def _often(self, connection: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do it again and again, and wait while the server is away.

        The client library can swallow a cancellation (`asyncio.wait_for` before Python 3.12), so the task is asked.
        """
        task = asyncio.current_task()
        while task is None or not task.cancelling():
            try:
                await work()
                self.outage.works(connection)
            except Failures as error:
                self.outage.failed(connection, error)
                self._bells = {}  # the next server may number its entries anew
                await self._clock.sleep(AGAIN_SECONDS)


def _pause(shortest: float, turns: int) -> float:
    return min(shortest + PAUSE_A_TURN * turns, MOST_PAUSE)


@asynccontextmanager
async def opened_bus(url: str, clock: Clock) -> AsyncIterator[RedisBus]:
    """A bus by this server, which may be away, until the block ends. Raises `ConfigurationError` as `check_server`."""
    client = redis_client(url)
    await check_server(client)
    async with RedisBus(client, HeardTurns(), clock).running() as bus:
        yield bus


def _was_sent_before(answer: Exception) -> bool:
    """Whether the stream has this entry, or a later one."""
    return isinstance(answer, ResponseError) and "equal or smaller" in str(answer)
