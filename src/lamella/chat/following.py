"""`Followers` gives out the packets of a turn. The turn may run here, run in another process, or have ended.

    here        the live packets of the bus, to the end of the turn
    elsewhere   journal ─▶ packets that are heard ─▶ journal again after a gap or a silence ─▶ turn.finished
    ended       the journal

A turn may move: its process dies, or loses its right to write, and another one recovers it. Its followers go on from
their last packet. Recovered packets have higher numbers than all that were given out before, so a follower gets each
number once and in order. If this process ends, the streams of turns elsewhere end without a last packet, and their
clients go on from their numbers in another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from lamella.chat.packets import ends, expired_packets, missing_end, one_batch
from lamella.core.clock import Clock
from lamella.core.errors import NotFound, StoreFailed
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import Caller
from lamella.storage import Store
from lamella.turns.heard import HeardTurn, HeardTurns

log = structlog.get_logger()

LOOK_SECONDS = 0.25
"""Seconds between two looks into the database. One look reads the progress of all turns that need it."""

SILENT_LOOKS = 4
"""After so many looks without a packet (one second), a turn is looked up in the database."""

END_SECONDS = 3.0
"""The longest wait in seconds for the last packets of an ended turn: its process may still be storing them."""


class Followers:
    """`heard` are the turns of other processes; None if this process serves the database alone."""

    def __init__(self, bus: StreamBus, store: Store, clock: Clock, heard: HeardTurns | None = None) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._heard = heard
        self._looking: asyncio.Task[None] | None = None
        self.leaving = False

    def leave(self) -> None:
        """This process ends: who follows a turn of another one goes on there."""
        self.leaving = True
        if self._heard is not None:
            for turn in self._heard.turns.values():
                turn.wake()

    async def follow(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """The packets of a turn after number `after`, then live ones, to its end. Raises `NotFound`."""
        if not self._bus.is_live(turn_id):
            packets, whole = await self.stored(caller, turn_id, after, final=self._heard is None)
            if whole or self._heard is None:
                return one_batch(packets)
            return self._elsewhere(caller, turn_id, after, self._heard, packets)
        live = self._bus.follow(turn_id, after)  # before the store is asked: the turn may end meanwhile
        if await self._store.turns.is_closed(caller, turn_id):
            return self._here_later(caller, turn_id, after, live)
        return live if self._heard is None else self._to_its_end(caller, turn_id, after, live, self._heard)

    async def _here_later(
        self, caller: Caller, turn_id: str, after: int, live: AsyncIterator[Batch]
    ) -> AsyncIterator[Batch]:
        """Wait until the turn has ended, then give what the caller may read of it. The live packets are restricted."""
        async for _ in live:
            pass
        async for batch in await self.follow(caller, turn_id, after):
            yield batch

    async def _to_its_end(
        self, caller: Caller, turn_id: str, after: int, live: AsyncIterator[Batch], heard: HeardTurns
    ) -> AsyncIterator[Batch]:
        """The packets of a turn that runs here. If another process takes it over, this follows it there."""
        async for batch in live:
            yield batch
            if ends(batch[-1][1]):
                return
            after = batch[-1][0]
        async for batch in self._elsewhere(caller, turn_id, after, heard):
            yield batch

    async def stored(self, caller: Caller, turn_id: str, after: int, *, final: bool) -> tuple[Batch, bool]:
        """The stored packets of a turn, and whether they are complete.

        `final`: no more packets will be stored. If the journal lacks the last one, it is made from the turn's row.
        """
        turn = await self._store.turns.turn(caller, turn_id)
        stored = await self._store.turns.journal(caller, turn_id, 0)
        if not stored:  # they may have expired since the turn was read
            turn = await self._store.turns.turn(caller, turn_id)
        if turn.expired is not None and not stored:
            return expired_packets(turn, turn.expired, after), True
        waiting = [packet for packet in stored if packet[0] > after]
        whole = bool(stored) and ends(stored[-1][1])
        if final and turn.finished_at is not None and not whole:
            waiting.append(missing_end(turn, max(after, stored[-1][0] if stored else 0) + 1))
            whole = True
        return waiting, whole

    async def _elsewhere(
        self, caller: Caller, turn_id: str, after: int, heard: HeardTurns, stored: Batch = ()
    ) -> AsyncIterator[Batch]:
        """The packets of a turn that another process runs, to its end. `stored` are those that were read before."""
        follower = _Follower(self, self._store, self._clock, caller, turn_id, after)
        begun = await follower.begin(stored)
        if begun:
            yield begun
            if follower.has_given(begun):
                return
        with heard.listening(turn_id, follower.seen if begun else 0) as (turn, news):
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_often(heard))
            while not follower.over and not self.leaving:
                news.clear()
                batch = await follower.next(turn, late=self._is_late(turn))
                if batch:
                    yield batch
                    if follower.has_given(batch):
                        return
                elif not follower.over and not self.leaving:
                    await news.wait()

    def _is_late(self, turn: HeardTurn) -> bool:
        return turn.ended_at is not None and self._clock.monotonic() - turn.ended_at > END_SECONDS

    async def _look_often(self, heard: HeardTurns) -> None:
        """Read the progress of turns of other processes from the database, while any of them is followed here."""
        failing = False
        while heard.turns and not self.leaving:
            await self._clock.sleep(LOOK_SECONDS)
            due = [turn_id for turn_id, turn in heard.turns.items() if turn.is_due(SILENT_LOOKS)]
            if not due:
                continue
            try:
                found = await self._store.turns.progress(due)
            except StoreFailed as error:
                if not failing:
                    log.error("it is not known how far turns of other processes came", error=error.message)
                failing = True
                continue
            failing, now = False, self._clock.monotonic()
            for turn_id in due:
                if (turn := heard.turns.get(turn_id)) is not None:
                    turn.looked(*found.get(turn_id, (0, False)), now)


class _Follower:
    """One follower of a turn of another process. It has got the packets up to number `seen`.

    `over`: the turn is deleted, or all its packets were given. `_closed`: the turn used something that the caller may
    not read in full. The caller gets the readable part after the turn has ended.
    """

    def __init__(
        self, followers: Followers, store: Store, clock: Clock, caller: Caller, turn_id: str, seen: int
    ) -> None:
        self.seen = seen
        self.over = False
        self._followers = followers
        self._store = store
        self._clock = clock
        self._caller = caller
        self._turn_id = turn_id
        self._closed = False
        self._read_at = self._read_to = -1

    def has_given(self, batch: Batch) -> bool:
        """Note that these packets were given; returns whether they end the turn."""
        self.seen = batch[-1][0]
        return ends(batch[-1][1])

    async def begin(self, stored: Batch) -> Batch:
        """The stored packets, if the caller may read them now. Waits until the database can say so."""
        while True:
            try:
                self._closed = await self._store.turns.is_closed(self._caller, self._turn_id)
                return () if self._closed else stored
            except NotFound:
                self.over = True
                return ()
            except StoreFailed:
                self.over = self._followers.leaving
                if self.over:
                    return ()
                await self._clock.sleep(LOOK_SECONDS)

    async def next(self, turn: HeardTurn, *, late: bool) -> Batch:
        """The packets that can be given now. `late`: the turn ended long ago, so no more packets will be stored."""
        if not self._closed and (found := turn.after(self.seen)):
            return found
        misses, ended = turn.misses(self.seen), turn.ended_at is not None
        if ended or turn.stored > max(self.seen, self._read_to) or (misses and self._read_at != self.seen):
            self._read_at, self._read_to = self.seen, turn.stored
            if found := await self.read(ended=ended, late=late):
                return found
        turn.waits |= misses
        return ()

    async def read(self, *, ended: bool = False, late: bool = False) -> Batch:
        """The packets of the journal after the last one. Empty if the journal can't be read now."""
        try:
            self._closed = self._closed or await self._store.turns.is_closed(self._caller, self._turn_id)
            if late or (self._closed and ended):
                found, whole = await self._followers.stored(self._caller, self._turn_id, self.seen, final=late)
                self.over = late
                return found if whole else ()
            return () if self._closed else await self._store.turns.journal(self._caller, self._turn_id, self.seen)
        except NotFound:
            self.over = True
        except StoreFailed:
            pass  # `_look_often` logs it
        return ()
