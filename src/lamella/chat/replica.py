"""`Replica`: this process as one of several that serve a database.

    every second: beat ─▶ row gone? ─▶ drop what runs here, and begin again as a new process
                  look ─▶ a beat that stays the same ─▶ take its process's conversations and jobs
                       ─▶ signals of other processes

`core/replicas.py` says when a process counts as dead, `storage/replicas.py` how its conversations move. A doorbell only
makes signals quicker. If the database is away, turns go on, and their writes are retried until it is back.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import LamellaError, LeaseLost, StoreFailed, StoreUnreachable
from lamella.core.ids import Ids
from lamella.core.ports import Doorbell
from lamella.core.replicas import BEAT_SECONDS, BeatWatch, Hold, Inherited, Signal
from lamella.storage.database import FENCE, Database, Fence
from lamella.storage.replicas import ReplicaRows

log = structlog.get_logger()

FoundT = TypeVar("FoundT")

LOOK_SECONDS = 0.02
"""The first pause, in seconds, between two looks whether another process has let a conversation go."""

LONGEST_LOOK = 0.25
"""The longest such pause."""

REACH_SECONDS = 20.0
"""The longest wait for a database that is away, as other verbs wait."""

SETTLE_SECONDS = 10.0
"""The longest wait for another process that follows up its answer. After it, the message goes to the queue."""


LEAVE_SECONDS = 2.0
"""The longest that a process which ends tries to say so. If it can't, others notice it by its beat."""


class LocalDoorbell:
    """The `Doorbell` of tests: processes that share this object hear it. Others don't, because there is no Redis."""

    def __init__(self) -> None:
        self._rung: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def ring(self, process_id: str) -> None:
        """See `Doorbell.ring`."""
        self._rung[process_id].set()

    async def rung(self, process_id: str, seconds: float) -> None:
        """See `Doorbell.rung`."""
        event = self._rung[process_id]
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        event.clear()


class Replica:
    """The membership of this process. `rows` have connections of their own, so that no work delays a beat.

    `database` is the one that the process works with. `on_signal` and `on_inherited` are set before `start`.
    """

    def __init__(
        self, rows: ReplicaRows, database: Database, doorbell: Doorbell, ids: Ids, clock: Clock, name: str = ""
    ) -> None:
        self._rows = rows
        self._database = database
        self._doorbell = doorbell
        self._ids = ids
        self._clock = clock
        self._name = name
        self._watch = BeatWatch()
        self._fence = Fence("")
        self._tasks: list[asyncio.Task[None]] = []
        self.on_signal: Callable[[Signal], None] = lambda _: None
        self.on_inherited: Callable[[Sequence[Inherited]], None] = lambda _: None

    @property
    def id(self) -> str:
        """The id of this process."""
        return self._fence.process_id

    @property
    def fence(self) -> Fence:
        """Its right to write."""
        return self._fence

    async def start(self) -> None:
        """Begin to serve, and take what processes that are gone have left. Raises `StoreFailed`."""
        await self._begin(self._name)
        self._tasks = [asyncio.create_task(work()) for work in (self._beat_often, self._look_often)]

    async def close(self) -> None:
        """Leave. Another process takes the work that is left, at once if there is one."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(LamellaError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                others = (await self._rows.look(self.id)).beats
                await self._rows.end(self.id)
                for other in others:
                    self._doorbell.ring(other)

    async def take(self, conversation_id: str, *, to_speak: bool) -> bool:
        """Hold a conversation, for a turn or a command (`to_speak`), or for its queue; whether that was possible.

        The running task is fenced from then on. To speak, it waits while another process follows up its answer.
        Raises `LeaseLost`, `NotFound` and `StoreFailed`.
        """
        since, pause = self._clock.monotonic(), LOOK_SECONDS
        while True:
            fence, before = self._fence, FENCE.set(self._fence)
            taking = partial(self._rows.take, fence.process_id, conversation_id, to_speak=to_speak)
            hold = await self._reached(taking)
            busy = hold.running_turn is not None or hold.waits
            if hold.holder == fence.process_id and not (to_speak and busy):
                return True
            FENCE.reset(before)
            if not to_speak or busy or self._clock.monotonic() - since > SETTLE_SECONDS:
                if hold.holder is not None:  # a row waits there, and its signal with it
                    self._doorbell.ring(hold.holder)
                return False
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)

    async def let_go(self, conversation_id: str) -> bool:
        """Let a conversation go, unless work is left in it; returns whether any is. Retries until the store answers.

        What is left of a conversation that another process has taken over is no work of this one.
        """
        while True:
            try:
                return await self._rows.let_go(self.id, conversation_id)
            except LeaseLost:
                return False
            except StoreFailed as error:
                log.error("a conversation is still held", conversation_id=conversation_id, error=error.message)
                await self._clock.sleep(BEAT_SECONDS)

    async def settled(self, conversation_id: str) -> None:
        """Returns when no other process holds a conversation."""
        pause = LOOK_SECONDS
        while (await self._hold(conversation_id)).holder not in (None, self.id):
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)

    async def is_elsewhere(self, conversation_id: str) -> bool:
        """Whether another process holds a conversation."""
        return (await self._hold(conversation_id)).holder not in (None, self.id)

    async def is_busy_elsewhere(self, conversation_id: str) -> bool:
        """Whether another process answers in a conversation, follows up its answer, or runs a command, and does not
        hold it only for what waits there.
        """
        hold = await self._hold(conversation_id)
        return hold.holder not in (None, self.id) and not hold.waits

    async def signal(self, signal: Signal) -> bool:
        """Ask the process that holds a conversation; whether it is another one."""
        holder = await self._reached(partial(self._rows.signal, self.id, signal))
        if holder is not None:
            self._doorbell.ring(holder)
        return holder is not None

    async def signal_all(self, signal: Signal) -> None:
        """Ask all other processes."""
        for other in await self._rows.signal_all(self.id, signal):
            self._doorbell.ring(other)

    async def _hold(self, conversation_id: str) -> Hold:
        return await self._reached(partial(self._rows.hold, conversation_id))

    async def _reached(self, ask: Callable[[], Awaitable[FoundT]]) -> FoundT:
        """What the rows give. Their database waits for no server that is away, for the beats: a request does."""
        since = self._clock.monotonic()
        while True:
            try:
                return await ask()
            except StoreUnreachable:
                if self._clock.monotonic() - since > REACH_SECONDS:
                    raise
            await self._clock.sleep(LONGEST_LOOK)

    async def _begin(self, name: str) -> None:
        fence = Fence(self._ids.new("proc"))
        await self._rows.begin(fence.process_id, name, self._clock.now())
        self._fence, self._watch = fence, BeatWatch()
        self._database.process_id = fence.process_id
        log.info("this process serves together with others", process=fence.process_id, name=name)
        await self._inherit(started=True)

    async def _beat_often(self) -> None:
        while True:
            with suppress(StoreFailed):  # it is logged where it matters: this process goes on meanwhile
                if not await self._rows.beat(self.id):
                    self._fence.lost.set()
            if self._fence.lost.is_set():
                await self._begin_again()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._fence.lost.wait()

    async def _begin_again(self) -> None:
        """Other processes took this one for dead: it was paused or cut off. It takes no name: another may have it."""
        log.warning("others have taken over what this process did: it begins again", process=self.id)
        while True:
            try:
                return await self._begin("")
            except StoreFailed as error:
                log.error("this process can't begin again yet", error=error.message)
                await self._clock.sleep(BEAT_SECONDS)

    async def _look_often(self) -> None:
        while True:
            try:
                await self._look()
            except StoreFailed as error:
                log.error("the other processes can't be seen", error=error.message)
            except LeaseLost:
                self._fence.lost.set()
            except Exception:  # if this failed, nobody would take over from a dead process any more
                log.exception("looking at the other processes failed")
            await self._doorbell.rung(self.id, BEAT_SECONDS)

    async def _look(self) -> None:
        began = self._clock.monotonic()
        found = await self._rows.look(self.id)
        ended = False
        for id, beat in self._watch.look(began, self._clock.monotonic(), found.beats):
            if await self._rows.end(id, beat):
                ended = True
                log.warning("a process gave no sign of life: this one takes over", process=id)
        if ended or found.has_orphans:
            await self._inherit()
        if found.has_signals:
            for signal in await self._rows.take_signals(self.id):
                self.on_signal(signal)

    async def _inherit(self, *, started: bool = False) -> None:
        self.on_inherited(await self._rows.inherit(self.id, self._clock.now(), started=started))
