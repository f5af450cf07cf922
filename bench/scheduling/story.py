"""One schedule: clients that write, command and stop, jobs beside them, and crashes, all in the order of one seed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from lamella.app.core import Core, build_core, build_services
from lamella.core.ids import CountingIds
from lamella.core.ports import OpenModel
from lamella.core.records import Conversation
from lamella.core.settings import EngineSettings
from lamella.core.tokens import Threshold
from lamella.storage.database import Rows
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry
from scheduling.clients import Client, QueueClient
from scheduling.database import Disk
from scheduling.loop import BEGUN, PROCESS, Lanes, LoopClock, ScheduleLoop
from scheduling.model import PURPOSE, Faults, ScheduledModel, Witness
from scheduling.plan import ANN, CONVERSATION, FIRST, Plan, Sent, Told

SETTINGS = EngineSettings(
    keep_recent_tokens=400, compaction_threshold=Threshold(tokens=1_000), titles=False, debounce_ms=0
)
"""Every answer of these conversations is over the threshold; the newest turns stay."""


def _headers(_: str, purpose: str, number: int) -> dict[str, str]:
    return {PURPOSE: purpose}


QUIET = 900.0
"""The most seconds that it takes until every job has been tried as often as it may."""

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

    data: bytes
    ids: int
    sent: list[Sent]
    now: float = 0.0


class Story:
    """Runs one plan to its end. `fault` is an object of the store with a fault, to be tried."""

    def __init__(self, plan: Plan, beginning: Beginning, disk: Disk, fault: type[Rows] | None = None) -> None:
        self._plan = plan
        self._random = Random(plan.seed + 1)
        self.disk = disk
        disk.holds(beginning.data)
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
            lanes = Lanes(Random(self._plan.seed + 2), crash_at=self._plan.crash_at)
            now = self._live(lanes, self._begun, self._first_life(lanes))
            if lanes.off or self._plan.restart:
                self.told.crashes += lanes.off
                self.told.operations += [*lanes.told, "--- starts again"]
                lanes = Lanes(Random(self._plan.seed + 3))
                now = self._live(lanes, now, self._second_life(lanes))
            self.told.operations += [*lanes.told, "--- the last question"]
            lanes = Lanes(Random(self._plan.seed + 4))
            self._live(lanes, now, self._last_life(lanes))
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
        store = self.disk.store(self._ids, self._fault)
        core = self._core(store, lanes, faults)
        await core.chat.start()
        yield core
        await core.chat.close()
        await store.close()

    def _core(self, store: Store, lanes: Lanes, faults: Faults) -> Core:
        model = ScheduledModel(lanes, self.told.witness, faults)
        services = build_services(store, Registry(()), LoopClock(), self._ids, headers=_headers)
        return build_core(services, _Models(model), SETTINGS, jobs=store.jobs)

    async def _first_life(self, lanes: Lanes) -> None:
        async with self._process(lanes, self._plan.faults) as core:
            other = None
            if self._plan.others:
                other = self._core(core.services.store, lanes, self._plan.faults)
                await asyncio.create_task(_begin_other(other))
                lanes.stalling = True
            await asyncio.gather(
                *(
                    self._client(core, lanes, number).act(actions)
                    for number, actions in enumerate(self._plan.actions, 1)
                )
            )
            if not self._plan.restart:
                await self._settle(core, lanes)
            if other is not None:
                await other.sessions.close()

    async def _second_life(self, lanes: Lanes) -> None:
        """After a crash or an end: clients send again what nobody answered, and go on."""
        async with self._process(lanes, Faults()) as core:
            clients = [self._client(core, lanes, number) for number, _ in enumerate(self._plan.actions, 1)]
            await asyncio.gather(*(client.again() for client in clients))
            await self._settle(core, lanes)

    def _client(self, core: Core, lanes: Lanes, number: int) -> Client:
        kind = QueueClient if self._plan.queued else Client
        return kind(self, core, lanes, number)

    async def _settle(self, core: Core, lanes: Lanes) -> None:
        """Wait until no job is left to do and no answer runs."""
        lanes.calm()
        patience = QUIET
        while patience > 0:
            await asyncio.sleep(LOOK)
            patience -= LOOK
            if not self.disk.work_left() and not core.sessions.is_compacting(CONVERSATION):
                break
        if core.sessions.is_compacting(CONVERSATION):
            self.told.broken.append("a compaction is said to run, and none does")

    async def _last_life(self, lanes: Lanes) -> None:
        """A question at the end: whatever happened, it is answered."""
        async with self._process(lanes, Faults()) as core:
            client = Client(self, core, lanes, 0)
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
    """A conversation of some long turns, stored through the same chat."""
    for name in ("asyncio", "sqlalchemy.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.db"
        asyncio.run(_make(empty))
        blank = Beginning(empty.read_bytes(), 0, [])
    story = Story(Plan(seed=0, actions=()), blank, disk)
    lanes = Lanes(Random(0))
    now = story._live(lanes, 0.0, _fill(story, lanes))
    return Beginning(disk.content(), story._ids._count, story.told.sent, now)


async def _make(path: Path) -> None:
    async with await open_store(path):
        pass


async def _fill(story: Story, lanes: Lanes) -> None:
    store = story.disk.store(story._ids)
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
    client = Client(story, core, lanes, 0)
    for _ in range(FIRST):
        await client.message()
    await core.chat.close()
    await store.close()
