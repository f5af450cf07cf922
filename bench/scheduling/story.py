"""One schedule: clients that write, command and stop, jobs beside them, and crashes, all in the order of one seed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from lamella.app.core import Core, build_core, build_services
from lamella.chat.replica import Replica
from lamella.core.ids import CountingIds
from lamella.core.ports import OpenModel
from lamella.core.records import Conversation
from lamella.core.settings import EngineSettings
from lamella.core.tokens import Threshold
from lamella.storage.database import Rows
from lamella.storage.replicas import ReplicaRows
from lamella.storage.store import Store
from lamella.tooling.tool import Registry
from scheduling.clients import Alone, Client, QueueClient, Reach
from scheduling.database import Disk
from scheduling.loop import BEGUN, PROCESS, Lanes, LoopClock, ScheduleLoop
from scheduling.model import PURPOSE, Faults, ScheduledModel, Witness
from scheduling.plan import ANN, CONVERSATION, FIRST, Plan, Sent, Told
from scheduling.replicas import Replicas, Together

SETTINGS = EngineSettings(
    keep_recent_tokens=400, compaction_threshold=Threshold(tokens=1_000), titles=False, debounce_ms=0
)
"""Every answer of these conversations is over the threshold; the newest turns stay."""


def _headers(_: str, purpose: str, number: int) -> dict[str, str]:
    return {PURPOSE: purpose}


QUIET = 900.0
"""The most seconds that it takes until every job has been tried as often as it may."""

SPOKEN = 60.0
"""The most seconds that it takes several processes until no turn runs and nothing waits."""

LOOK = 45.0
"""Seconds between two looks at the jobs."""


@dataclass(frozen=True, slots=True)
class _Models:
    model: ScheduledModel

    async def open(self, name: str) -> OpenModel:
        """See `ModelSource`."""
        return OpenModel(self.model, "scheduled")


@dataclass(slots=True)
class Beginning:
    """A database in which the conversation has had some turns, and how many ids were given for it."""

    ids: int
    sent: list[Sent]
    now: float = 0.0


class Story:
    """Runs one plan to its end. `fault` is an object of the store with a fault, to be tried."""

    def __init__(self, plan: Plan, beginning: Beginning, disk: Disk, fault: type[Rows] | None = None) -> None:
        self._plan = plan
        self._random = Random(plan.seed + 1)
        self.disk = disk
        disk.begin_anew()
        sent = [Sent(s.name, s.client, s.key, s.heard, s.turn_id) for s in beginning.sent]
        self.told = Told(plan, Witness(self.disk.session_changes), sent)
        self._fault = fault
        self._ids = CountingIds()
        self._ids._count = beginning.ids
        self._number = len(beginning.sent)
        self._begun = beginning.now

    def run(self) -> Told:
        """The clients, with a crash or an end in between where the plan has one; then a last question."""
        with structlog.testing.capture_logs() as log:
            lanes = Lanes(
                Random(self._plan.seed + 2),
                crash_at=self._plan.crash_at,
                wakes=self._plan.wakes,
                still_at=self._plan.still_at,
            )
            several = self._plan.replicas > 1
            life = self._life_of_replicas(lanes) if several else self._first_life(lanes)
            now = self._live(lanes, self._begun, life)
            if lanes.off or self._plan.restart:
                self.told.crashes += lanes.off
                self.told.operations += [*lanes.told, "--- starts again"]
                lanes = Lanes(Random(self._plan.seed + 3))
                now = self._live(lanes, now, self._second_life(lanes))
            self.told.operations += [*lanes.told, "--- the last question"]
            lanes = Lanes(Random(self._plan.seed + 4))
            self._live(lanes, now, self._last_life_of_replicas(lanes) if several else self._last_life(lanes))
            self.told.operations += lanes.told
        self.told.log = [dict(line) for line in log]
        return self.told

    def _live(self, lanes: Lanes, now: float, work: Coroutine[Any, Any, None]) -> float:
        """One life of the process; gives the time at its end."""
        loop = ScheduleLoop(lanes, now)
        asyncio.set_event_loop(loop)
        try:
            task = loop.create_task(work)
            task.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
            ended = loop.now
            if loop.crashed:
                # Tasks are let go in no order; how long that takes is not the schedule's.
                self._die(loop)
            else:
                task.result()
            return ended
        finally:
            self.disk.power_off()
            asyncio.set_event_loop(None)
            loop.close()

    def _die(self, loop: ScheduleLoop) -> None:
        """The power has failed: nothing reaches the disk any more, and every task is let go."""
        self.disk.power_off()
        loop.set_exception_handler(lambda *_: None)
        for _ in range(20):
            tasks = asyncio.all_tasks(loop)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            loop.call_later(1.0, loop.stop)
            loop.run_forever()
            loop.now += 1.0
        raise RuntimeError(f"these tasks do not end: {tasks}")

    @asynccontextmanager
    async def _process(self, lanes: Lanes, faults: Faults, name: str = "first") -> AsyncIterator[Core]:
        PROCESS.set(name)
        store = self._store()
        core = self._core(store, lanes, faults)
        await core.chat.start()
        yield core
        await core.chat.close()
        await store.close()

    def _store(self) -> Store:
        return self.disk.store(self._ids, self.told.broken, self._fault)

    def _core(self, store: Store, lanes: Lanes, faults: Faults, together: Together | None = None) -> Core:
        model = ScheduledModel(lanes, self.told.witness, faults)
        services = build_services(store, Registry(()), LoopClock(), self._ids, headers=_headers)
        if together is None:
            return build_core(services, _Models(model), SETTINGS, jobs=store.jobs)
        replica = Replica(together.rows, store.database, together.doorbell, self._ids, LoopClock(), together.name)
        return build_core(
            services,
            _Models(model),
            SETTINGS,
            jobs=store.jobs,
            bus=together.bus,
            replica=replica,
            heard=together.bus.heard,
        )

    async def _first_life(self, lanes: Lanes) -> None:
        async with self._process(lanes, self._plan.faults) as core:
            other = None
            if self._plan.others:
                other = self._core(core.services.store, lanes, self._plan.faults)
                await asyncio.create_task(_begin_other(other))
                lanes.stalling = True
            await self._act(Alone(core), lanes)
            if not self._plan.restart:
                await self._settle(core, lanes)
            if other is not None:
                await other.sessions.close()

    async def _second_life(self, lanes: Lanes) -> None:
        """After a crash or an end: clients send again what nobody answered, and go on."""
        async with self._process(lanes, Faults()) as core:
            clients = [self._client(Alone(core), lanes, number) for number, _ in enumerate(self._plan.actions, 1)]
            await asyncio.gather(*(client.again() for client in clients))
            await self._settle(core, lanes)

    async def _act(self, reach: Reach, lanes: Lanes) -> None:
        """All clients at once."""
        clients = [self._client(reach, lanes, number) for number, _ in enumerate(self._plan.actions, 1)]
        await asyncio.gather(*(client.act(todo) for client, todo in zip(clients, self._plan.actions, strict=True)))

    def _client(self, reach: Reach, lanes: Lanes, number: int) -> Client:
        kind = QueueClient if self._plan.queued else Client
        return kind(self, reach, lanes, number)

    async def _settle(self, core: Core, lanes: Lanes) -> None:
        """Wait until no job is left to do and no answer runs."""
        lanes.calm()
        patience = QUIET
        while patience > 0:
            await asyncio.sleep(LOOK)
            patience -= LOOK
            if not self.disk.has_work() and not core.sessions.is_compacting(CONVERSATION):
                break
        if core.sessions.is_compacting(CONVERSATION):
            self.told.broken.append("a compaction is said to run, and none does")

    # Several processes

    def _replicas(self, lanes: Lanes, faults: Faults) -> Replicas:
        def core(together: Together) -> Core:
            return self._core(self._store(), lanes, faults, together)

        def rows() -> ReplicaRows:
            store = self.disk.store(
                self._ids, self.told.broken, self._fault
            )  # with connections of its own, as each process has
            return store.replicas

        return Replicas(core, rows, lanes, Random(self._plan.seed + 5), named=self._plan.named)

    async def _life_of_replicas(self, lanes: Lanes) -> None:
        replicas = self._replicas(lanes, self._plan.faults)
        for number in range(self._plan.replicas):
            await replicas.start(number)
        await asyncio.gather(self._act(replicas, lanes), replicas.meet(self._plan.fates))
        self.told.crashes += replicas.killed
        await self._settle_replicas(replicas, lanes)
        await replicas.end()

    async def _settle_replicas(self, replicas: Replicas, lanes: Lanes) -> None:
        """Wait until nothing was left to do for a while: a job is added a moment after its turn."""
        lanes.calm()
        loop = asyncio.get_running_loop()
        since, quiet = loop.time(), 0
        while quiet < 3 and loop.time() - since < QUIET:
            await asyncio.sleep(1.0)
            quiet = 0 if self.disk.has_work() else quiet + 1
            if loop.time() - since > SPOKEN and self.disk.speaks():
                self.told.broken.append("what a dead process left is not done by the others")
                return

    async def _last_life_of_replicas(self, lanes: Lanes) -> None:
        replicas = self._replicas(lanes, Faults())
        for number in range(self._plan.replicas):
            await replicas.start(number)
        client = Client(self, replicas, lanes, 0)
        await client.message()
        if self.told.sent[-1].heard != "stored":
            self.told.broken.append("the last question is not answered")
        await self._settle_replicas(replicas, lanes)
        await replicas.end()

    async def _last_life(self, lanes: Lanes) -> None:
        """A question at the end: whatever happened, it is answered."""
        async with self._process(lanes, Faults()) as core:
            client = Client(self, Alone(core), lanes, 0)
            await client.message()
            if self.told.sent[-1].heard != "stored":
                self.told.broken.append("the last question is not answered")
            await self._settle(core, lanes)

    def question(self, client: int) -> Sent:
        """The next question, with a key more often than not."""
        self._number += 1
        key = f"key-{self._number}" if self._random.random() < 0.7 else None
        sent = Sent(f"Q{self._number}", client, key)
        self.told.sent.append(sent)
        return sent

    def draw(self) -> float:
        """A number of this story, from 0 to 1."""
        return self._random.random()


async def _begin_other(core: Core) -> None:
    PROCESS.set("second")
    core.sessions.start()


def begin(disk: Disk) -> Beginning:
    """A conversation of some long turns, stored through the same chat, in a database that has no rows yet."""
    for name in ("asyncio", "sqlalchemy.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    disk.keep()
    story = Story(Plan(seed=0, actions=()), Beginning(0, []), disk)
    lanes = Lanes(Random(0))
    now = story._live(lanes, 0.0, _fill(story, lanes))
    disk.keep()
    return Beginning(story._ids._count, story.told.sent, now)


async def _fill(story: Story, lanes: Lanes) -> None:
    store = story.disk.store(story._ids, story.told.broken)
    conversation = Conversation(
        id=CONVERSATION,
        title="",
        model="scripted",
        layout="lamella",
        marker_policy="planner",
        system_prompt="You are careful.",
        tools=(),
        created_at=BEGUN,
        updated_at=BEGUN,
    )
    await store.conversations.create_conversation(ANN, conversation)
    services = build_services(store, Registry(()), LoopClock(), story._ids, headers=_headers)
    model = ScheduledModel(lanes, story.told.witness, Faults())
    quiet = EngineSettings(compaction_threshold=Threshold(share=1.0), titles=False, debounce_ms=0)
    core = build_core(services, _Models(model), quiet, jobs=store.jobs)
    await core.chat.start()
    client = Client(story, Alone(core), lanes, 0)
    for _ in range(FIRST):
        await client.message()
    await core.chat.close()
    await store.close()
