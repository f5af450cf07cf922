"""Several processes that serve one database in a schedule: they start, end, die, and stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from lamella.app.core import Core
from lamella.chat.replica import LocalDoorbell
from lamella.core.errors import StoreFailed
from lamella.storage.replicas import ReplicaRows
from lamella.turns.heard import HeardTurns
from lamella.turns.journal import MemoryBus
from scheduling.clients import PAUSE, Cut
from scheduling.loop import PROCESS, Lanes, ScheduleLoop
from scheduling.plan import Fate

T = TypeVar("T")

LOST = 0.05
"""How often a ring or a packet between processes is lost."""

DRAINS = 10.0
"""The most seconds that a process lets turns go on before it ends."""


class Doorbell(LocalDoorbell):
    """Rings come later, or are lost."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__()
        self._lanes = lanes

    def ring(self, process_id: str) -> None:
        """See `Doorbell.ring`."""
        if self._lanes.random.random() >= LOST:
            self._lanes.put(object(), "rings", lambda: LocalDoorbell.ring(self, process_id), None)


class SharedBus(MemoryBus):
    """The bus of one of several processes: its packets come to the others later, in order, or are lost."""

    def __init__(self, lanes: Lanes, all_heard: list[HeardTurns]) -> None:
        super().__init__()
        self.heard = HeardTurns()
        self._lanes = lanes
        self._all_heard = all_heard
        all_heard.append(self.heard)

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """See `StreamBus.publish`."""
        super().publish(turn_id, n, data)
        if self._lanes.random.random() >= LOST:
            self._lanes.put(turn_id, f"sends packet {n}", lambda: self._send(turn_id, n, data), None)

    def _send(self, turn_id: str, n: int, data: bytes) -> None:
        for heard in self._all_heard:
            if heard is not self.heard:
                heard.hear(turn_id, [(n, data)])


@dataclass(frozen=True, slots=True)
class Together:
    """What a process has in common with the others."""

    name: str
    rows: ReplicaRows
    doorbell: Doorbell
    bus: SharedBus


@dataclass(eq=False, slots=True)
class _Living:
    """`process` names its operations."""

    process: str
    core: Core
    up: bool = False
    dead: bool = False


class Replicas:
    """The processes of a schedule, by their numbers. Their clients reach any of them."""

    many = True

    def __init__(
        self,
        core: Callable[[Together], Core],
        rows: Callable[[], ReplicaRows],
        lanes: Lanes,
        random: Random,
        *,
        named: bool,
    ) -> None:
        self._core = core
        self._rows = rows
        self._lanes = lanes
        self._random = random
        self._named = named
        self._doorbell = Doorbell(lanes)
        self._all_heard: list[HeardTurns] = []
        self._living: dict[int, _Living] = {}
        self._starts = 0
        self.killed = 0

    async def start(self, number: int) -> None:
        """A process starts; returns when it takes requests, or died before."""
        self._starts += 1
        name = f"replica-{number}" if self._named else ""
        together = Together(name, self._rows(), self._doorbell, SharedBus(self._lanes, self._all_heard))
        living = self._living[number] = _Living(f"{number}.{self._starts}", self._core(together))
        try:
            await self._do(living, lambda core: core.chat.start())
            living.up = True
        except Cut:
            pass

    async def meet(self, fates: Sequence[Fate]) -> None:
        """What becomes of processes, each at its time."""
        async with asyncio.TaskGroup() as group:
            for fate in fates:
                await self._lanes.reached(fate.at)
                group.create_task(self._meet(fate))

    async def _meet(self, fate: Fate) -> None:
        living = self._living[fate.replica]
        if living.dead:
            return
        if fate.kind == "still":
            self._lanes.stand_still(living.process, asyncio.get_running_loop().time() + fate.seconds)
            return
        if fate.kind == "kill":
            await self._kill(living)
        elif living.up:
            await self._end(living)
        await asyncio.sleep(fate.seconds)
        if living.dead and self._living[fate.replica] is living:
            await self.start(fate.replica)

    async def _kill(self, living: _Living) -> None:
        living.up, living.dead = False, True
        self.killed += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScheduleLoop)
        await loop.kill(living.process)
        self._lanes.told.append(f"--- {living.process} is dead")

    async def _end(self, living: _Living) -> None:
        """It drains, and ends; it may die meanwhile."""
        living.up = False
        self._lanes.told.append(f"--- {living.process} drains")
        try:
            await self._do(living, _drained)
        except Cut:
            return
        self._lanes.told.append(f"--- {living.process} has ended")
        await self._kill(living)
        self.killed -= 1

    async def end(self) -> None:
        """All end, one after another."""
        for living in list(self._living.values()):
            if not living.dead:
                await self._end(living)

    async def ask(self, call: Callable[[Core], Awaitable[T]], patience: float | None = None) -> T:
        """See `Reach.ask`."""
        while not (up := [living for living in self._living.values() if living.up]):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)
        living = self._random.choice(up)
        try:
            async with asyncio.timeout(patience):
                return await self._do(living, call)
        except TimeoutError:
            raise Cut from None

    async def _do(self, living: _Living, call: Callable[[Core], Awaitable[T]]) -> T:
        """Work of a process. Raises `Cut` if it dies or ends meanwhile."""
        context = copy_context()
        context.run(PROCESS.set, living.process)
        task = asyncio.get_running_loop().create_task(_called(call, living.core), context=context)
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and not living.up:
                raise Cut from None
            raise
        except StoreFailed:
            if living.up:
                raise
            raise Cut from None  # it has closed its database


async def _called(call: Callable[[Core], Awaitable[T]], core: Core) -> T:
    return await call(core)


async def _drained(core: Core) -> None:
    core.chat.drain()
    loop = asyncio.get_running_loop()
    until = loop.time() + DRAINS
    while not core.chat.is_idle and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(PAUSE)
    await core.chat.close()
    await core.services.store.close()
