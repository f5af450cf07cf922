"""Buffers the live packets of turns that other processes run: one buffer per turn, shared by its followers.

Live packets may have gaps: a packet was too large, the other process could not send for a while, or Redis lost its
memory. The journal has every packet, a quarter of a second later at most. A buffer holds consecutive numbers without a
gap. A follower that needs earlier numbers reads them from the journal:

    journal 1 … 40      heard 45 46 47      a follower at 38: journal 39 40, waits for 41 … 44 in the journal, 45 46 47
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lamella.core.ports import Batch

HEARD_BYTES = 256 * 1024
"""The size of a turn's buffer. A follower that needs older packets reads the journal."""


@dataclass(slots=True)
class HeardTurn:
    """The buffer and the state of a turn of another process.

    `position` is the last number that was heard, or the number after which listening began. `stored` is the last number
    that the journal is known to have. `ended_at` is the time on this process's monotonic clock when the turn was seen
    to have ended. `waits`: a follower waits for the journal. `silent` counts looks since the last live packet.
    """

    position: int = 0
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0
    stored: int = 0
    ended_at: float | None = None
    waits: bool = False
    silent: int = 0
    followers: set[asyncio.Event] = field(default_factory=set)

    def hear(self, packets: Batch) -> None:
        """Add packets, which are in order and without a gap. Known ones are skipped."""
        fresh = [packet for packet in packets if packet[0] > self.position]
        if not fresh:
            return
        if fresh[0][0] != self.position + 1:
            self.packets, self.size = [], 0
        self.packets += fresh
        self.size += sum(len(data) for _, data in fresh)
        self.position, self.silent = fresh[-1][0], 0
        if self.size > HEARD_BYTES:
            self._shorten()
        self.wake()

    def after(self, number: int) -> Batch:
        """The buffered packets after this number. Empty if the buffer begins later than the next number."""
        if not self.packets:
            return ()
        first = self.packets[0][0]
        return self.packets[number + 1 - first :] if first <= number + 1 else ()

    def misses(self, number: int) -> bool:
        """Whether there is a gap after this number."""
        return bool(self.packets) and self.packets[0][0] > number + 1

    def is_due(self, looks: int) -> bool:
        """Whether to look it up in the database now: a follower waits, it has ended, or no packet came for `looks`."""
        self.silent += 1
        return self.waits or self.ended_at is not None or self.silent >= looks

    def looked(self, stored: int, runs: bool, now: float) -> None:
        """Note how far the journal is, and whether the turn still runs."""
        self.stored, self.silent, waited, self.waits = stored, 0, self.waits, False
        if not runs and self.ended_at is None:
            self.ended_at = now
        if waited or self.ended_at is not None or stored > self.position:
            self.wake()

    def wake(self) -> None:
        """Wake the followers: there is something new."""
        for follower in self.followers:
            follower.set()

    def _shorten(self) -> None:
        """Drop the older half of the buffer, so that this happens rarely."""
        gone = 0
        while self.size > HEARD_BYTES // 2 and gone < len(self.packets):
            self.size -= len(self.packets[gone][1])
            gone += 1
        del self.packets[:gone]


class HeardTurns:
    """The turns of other processes that are followed here."""

    def __init__(self) -> None:
        self._turns: dict[str, HeardTurn] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called when the first follower of a turn begins to listen."""

    @contextmanager
    def listening(self, turn_id: str, after: int) -> Iterator[tuple[HeardTurn, asyncio.Event]]:
        """Listen to a turn. The event is set when there is something new. The first listener says from which number."""
        turn, news = self._turns.get(turn_id), asyncio.Event()
        if turn is None:
            turn = self._turns[turn_id] = HeardTurn(after)
            self.on_change()
        turn.followers.add(news)
        try:
            yield turn, news
        finally:
            turn.followers.discard(news)
            if not turn.followers:
                self._turns.pop(turn_id, None)

    @property
    def turns(self) -> Mapping[str, HeardTurn]:
        """By their ids."""
        return self._turns

    def hear(self, turn_id: str, packets: Batch) -> None:
        """Add packets of a turn that came from another process. Turns without followers are skipped."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.hear(packets)
