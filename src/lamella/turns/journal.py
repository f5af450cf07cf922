"""The journal of packets: numbered, published at once, stored in groups for all turns together.

`MemoryBus` carries live packets within one process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import structlog

from lamella.core.clock import Clock
from lamella.core.errors import LeaseLost, StoreFailed
from lamella.core.packets import Packet, encode_packet
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import JournalEntry
from lamella.storage import Store
from lamella.storage.database import FENCE, Fence

log = structlog.get_logger()


FLUSH_SECONDS = 0.25
"""The longest part of a stream that a killed process loses."""


@dataclass(slots=True)
class TurnLog:
    """The packets of one turn that are not stored yet. `fence` is that of the turn, which `ends` with its last ones."""

    owner: str
    turn_id: str
    fence: Fence | None = None
    n: int = 0
    first: int = 1
    lines: list[bytes] = field(default_factory=list)
    ends: bool = False


class Journal:
    """Receives the packets of all turns of this process."""

    def __init__(self, store: Store, bus: StreamBus, clock: Clock) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._logs: dict[str, TurnLog] = {}
        self._dirty = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to store packets in the background."""
        self._flusher = asyncio.create_task(self._flush_often())

    @property
    def is_working(self) -> bool:
        """Whether packets are stored."""
        return self._flusher is not None and not self._flusher.done()

    async def close(self) -> None:
        """Store the rest and end. Packets that can't be stored are lost, and logged."""
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        try:
            await self.flush()
        except StoreFailed as error:
            log.error("the last packets could not be stored", error=error.message)

    def open(self, owner: str, turn_id: str) -> None:
        """A turn begins. From now on it can be followed and stopped."""
        self._logs[turn_id] = TurnLog(owner, turn_id, FENCE.get())
        self._bus.open(turn_id)

    def owner(self, turn_id: str) -> str | None:
        """Whose turn this is, while it runs here."""
        turn = self._logs.get(turn_id)
        return turn.owner if turn is not None else None

    def append(self, turn_id: str, packet: Packet) -> None:
        """Number a packet, send it to followers, and keep it for the next flush.

        Nothing more is said of a turn that another process has taken over.
        """
        turn = self._logs.get(turn_id)
        if turn is None or (turn.fence is not None and turn.fence.lost.is_set()):
            return
        turn.n += 1
        data = _numbered(turn, turn.n, packet)
        turn.lines.append(data)
        self._bus.publish(turn_id, turn.n, data)
        self._dirty.set()

    @asynccontextmanager
    async def ending(self, turn_id: str, last: Sequence[Packet]) -> AsyncIterator[JournalEntry]:
        """The packets of a turn that are not stored yet and its last ones, which the block stores with the turn's end.

        Its followers get the last ones after the block, and its stream ends. If the block raises, nothing has ended.
        Raises `LeaseLost` if another process has taken the turn over.
        """
        if (turn := self._logs.get(turn_id)) is None:
            raise LeaseLost("Another process has taken over this turn.")
        async with self._flushing:  # what is being stored is stored first
            turn.ends = True
        made = [_numbered(turn, n, packet) for n, packet in enumerate(last, start=turn.n + 1)]
        lines = [*turn.lines, *made]
        try:
            yield JournalEntry(turn.owner, turn_id, turn.first, turn.first + len(lines) - 1, b"\n".join(lines))
        except BaseException:
            turn.ends = False
            self._dirty.set()
            raise
        for n, data in enumerate(made, start=turn.n + 1):
            self._bus.publish(turn_id, n, data)
        self.abandon(turn_id)

    def abandon(self, turn_id: str) -> None:
        """The turn never began, has ended, or another process has it: nothing more of it is stored."""
        self._logs.pop(turn_id, None)
        self._bus.close(turn_id)

    async def flush(self) -> None:
        """Store all packets that are waiting, in one transaction; on failure they stay for the next time.

        Those of turns that end are stored by them, and those of turns that another process has taken over are dropped.
        """
        async with self._flushing:
            waiting = [turn for turn in self._logs.values() if turn.lines and not turn.ends]
            for fence in dict.fromkeys(turn.fence for turn in waiting):
                await self._flush([turn for turn in waiting if turn.fence is fence], fence)

    async def _flush(self, turns: list[TurnLog], fence: Fence | None) -> None:
        taken = [(turn, len(turn.lines), turn.first) for turn in turns]
        entries = [
            JournalEntry(turn.owner, turn.turn_id, first, first + count - 1, b"\n".join(turn.lines[:count]))
            for turn, count, first in taken
        ]
        token = FENCE.set(fence)
        try:
            await self._store.turns.append_journal(entries)
        except LeaseLost:
            for turn in turns:
                self._logs.pop(turn.turn_id, None)
            return
        finally:
            FENCE.reset(token)
        for turn, count, first in taken:
            del turn.lines[:count]
            turn.first = first + count

    async def _flush_often(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._clock.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except StoreFailed as error:
                log.error("packets could not be stored; trying again", error=error.message)
                self._dirty.set()


def _numbered(turn: TurnLog, n: int, packet: Packet) -> bytes:
    return encode_packet(msgspec.structs.replace(packet, n=n, turn_id=turn.turn_id))


@dataclass(slots=True)
class _Live:
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    closed: bool = False
    followers: set[asyncio.Event] = field(default_factory=set)

    def wake(self) -> None:
        for follower in self.followers:
            follower.set()


class MemoryBus:
    """The `StreamBus` of a single process: a list of packets per running turn."""

    def __init__(self) -> None:
        self._turns: dict[str, _Live] = {}

    @property
    def problem(self) -> str | None:
        """See `StreamBus.problem`."""
        return None

    def open(self, turn_id: str) -> None:
        """See `StreamBus.open`."""
        self._turns[turn_id] = _Live()

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """See `StreamBus.publish`."""
        live = self._turns[turn_id]
        live.packets.append((n, data))
        live.wake()

    def close(self, turn_id: str) -> None:
        """See `StreamBus.close`."""
        live = self._turns.pop(turn_id, None)
        if live is not None:
            live.closed = True
            live.wake()

    def is_live(self, turn_id: str) -> bool:
        """See `StreamBus.is_live`."""
        return turn_id in self._turns

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """See `StreamBus.follow`."""
        return _follow(self._turns.get(turn_id) or _Live(closed=True), after)


async def _follow(live: _Live, after: int) -> AsyncIterator[Batch]:
    news = asyncio.Event()
    live.followers.add(news)
    try:
        index = 0
        while True:
            news.clear()
            fresh = [packet for packet in live.packets[index:] if packet[0] > after]
            index = len(live.packets)
            if fresh:
                yield fresh
            elif live.closed:
                return
            else:
                await news.wait()
    finally:
        live.followers.discard(news)
