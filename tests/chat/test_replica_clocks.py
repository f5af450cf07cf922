"""Twenty processes on one database, each with a clock of its own that drifts, leaps and stands still.

Real `Replica`s with their real rows run on a simulated event loop: `CLOCK` is the clock of the running task, and a
transaction is done after some time, or when its process stands still no more. The laws, in true time:

- Nobody is given up before it was silent for the lease, as the fastest clock measures it, while the database was there.
- Who is silent for long is given up, and what it held has another holder.
- Only the process that holds a conversation writes in it.
- A process that was given up and is awake begins again.

Each mutation in `MUTATIONS` breaks one of them.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, select

from lamella.chat.replica import LocalDoorbell, Replica
from lamella.core.errors import LeaseLost
from lamella.core.ids import CountingIds
from lamella.core.records import Caller, Conversation
from lamella.core.replicas import BEAT_SECONDS, LEASE_SECONDS, BeatWatch, Inherited
from lamella.storage.database import FENCE, Database
from lamella.storage.replicas import ReplicaRows
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.store import open_store
from lamella.storage.tables import held_conversations, processes

T = TypeVar("T")

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONVERSATION = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", (), NOON, NOON)
CONVERSATIONS = tuple(f"conv_{n}" for n in range(8))

DRIFT = 0.05
"""A clock runs at most so much faster or slower than time."""

SLOWEST = 0.3
"""The most seconds that a transaction takes on its way, and its answer on its way back."""

SILENT = (LEASE_SECONDS + 4 * BEAT_SECONDS) / (1 - DRIFT) + 8 * SLOWEST
"""After so many seconds without a beat a process is given up, if another one was awake all the time."""


@dataclass
class Clock:
    """A monotonic clock that drifts and leaps, and a wall clock that says anything."""

    loop: Simulated
    rate: float
    still_until: float = 0.0
    """Nothing of its process gets through before."""
    awake_since: float = 0.0
    offset: float = 0.0
    wall: float = 0.0

    def monotonic(self) -> float:
        return self.loop.now * self.rate + self.offset

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.wall)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def stand_still(self, seconds: float, *, frozen: bool) -> None:
        """For so many seconds; the clock too, if it is `frozen`."""
        self.still_until = self.awake_since = self.loop.now + seconds
        if frozen:
            self.offset -= seconds * self.rate

    def leap(self, seconds: float) -> None:
        self.offset += seconds
        self.awake_since = max(self.awake_since, self.loop.now)


CLOCK: ContextVar[Clock | None] = ContextVar("CLOCK", default=None)


class _Outside(selectors.SelectSelector):
    loop: Simulated

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "somebody waits for what never happens"
        self.loop.now += max(timeout, 0.0)
        return []


class Simulated(asyncio.SelectorEventLoop):
    """True time is `now`. Each task reads the clock of its process, and waits by it."""

    def __init__(self, random: Random) -> None:
        self.now, self._random = 0.0, random
        outside = _Outside()
        outside.loop = self
        super().__init__(outside)

    def time(self) -> float:
        clock = CLOCK.get()
        return self.now if clock is None else clock.monotonic()

    def call_at(  # type: ignore[override]  # its arguments are handed on
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        clock = CLOCK.get()
        true = when if clock is None else self.now + (when - clock.monotonic()) / clock.rate
        return super().call_at(true, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # one type for all threads
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future, clock = self.create_future(), CLOCK.get()

        def later(do: Callable[[], None]) -> None:
            pause = self._random.choice((0.001, 0.01, 0.05, SLOWEST))
            still = clock.still_until - self.now if clock is not None else 0.0
            self.call_later_truly(min(max(still, 0.0), 1.0) + pause, lambda: do() if not still_now() else later(do))

        def still_now() -> bool:
            return clock is not None and clock.still_until > self.now

        def work() -> None:
            try:
                found = func(*args)
            except BaseException as error:  # noqa: BLE001 (handed on to whoever waits)
                later(lambda error=error: None if future.done() else future.set_exception(error))  # type: ignore[misc]
            else:
                later(lambda: None if future.done() else future.set_result(found))

        later(work)
        return future

    def call_later_truly(self, seconds: float, do: Callable[[], None]) -> None:
        super().call_at(self.now + seconds, do)


class Thread(Executor):
    """The thread of a transaction is the loop's."""

    def __init__(self, threads: int) -> None:
        pass


@dataclass
class Town:
    """All that happened, and the laws that were broken."""

    loop: Simulated
    beats: dict[str, float] = field(default_factory=dict)
    away: list[tuple[float, float]] = field(default_factory=list)
    """When nobody reached the database."""
    gone: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    writes: int = 0
    taken_over: int = 0
    lost: int = 0

    def silent(self, process_id: str) -> float:
        """Seconds since the last beat, without those when the database was away."""
        since = self.beats[process_id]
        lost = sum(max(min(ended, self.loop.now) - max(began, since), 0.0) for began, ended in self.away)
        return self.loop.now - since - lost

    def saw(self, verb: str, args: Sequence[Any], done: object) -> None:
        """A transaction of a process is about to be kept."""
        now = self.loop.now
        if verb == "begin" or (verb == "beat" and done):
            self.beats[args[0]] = now
        if verb == "end" and done and len(args) > 1:
            self.taken_over += 1
            self.gone[args[0]] = now
            if (silent := self.silent(args[0])) < LEASE_SECONDS / (1 + DRIFT):
                self.broken.append(f"{args[0]} was given up after {silent:.2f} s")


class Watching(Database):
    """The database of one process."""

    town: Town

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await super().write(partial(self._noted, work))

    def _noted(self, work: Callable[[Connection], T], connection: Connection) -> T:
        done = work(connection)
        if isinstance(work, partial) and len(work.args) == 4:  # a verb: see `storage/database.py`
            self.town.saw(work.args[0].__name__, work.args[2], done)
        return done


@dataclass(frozen=True)
class Kinds:
    """What a process is made of: a mutation has another one of these."""

    replica: type[Replica] = Replica
    rows: type[ReplicaRows] = ReplicaRows
    database: type[Watching] = Watching


@dataclass(eq=False)
class Process:
    """`floor` is held while it speaks, or lets go: see `chat/mailbox.py`."""

    clock: Clock
    replica: Replica
    database: Watching
    floor: asyncio.Lock = field(default_factory=asyncio.Lock)
    dead: bool = False


class Simulation:
    """One seed: `count` processes for `seconds`."""

    def __init__(self, path: Path, seed: int, count: int, seconds: float, kinds: Kinds) -> None:
        self.random = Random(seed)
        self.loop = Simulated(self.random)
        self.town = Town(self.loop)
        self._count, self._seconds, self._kinds = count, seconds, kinds
        url = sqlite_url(path)
        self._engines = sqlite_engine(url, writes=False), sqlite_engine(url, writes=True)
        self._ids, self._doorbell = CountingIds(), LocalDoorbell()
        self._all: list[Process] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._away_until = 0.0
        """No process reaches the database before, one that starts during the outage included."""

    def run(self) -> Town:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._lives())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
            for engine in self._engines:
                engine.dispose()
        return self.town

    async def _lives(self) -> None:
        for number in range(self._count):
            self._start(f"replica-{number}" if number % 2 else "")
        self._tasks.append(self.loop.create_task(self._happens()))
        while self.loop.now < self._seconds:
            await asyncio.sleep(1.0)
            self._look()
            failed = [task for task in self._tasks if task.done() and not task.cancelled() and task.exception()]
            assert not failed, failed[0].exception()
        self.town.broken = list(dict.fromkeys(self.town.broken))
        for one in self._all:
            one.clock.still_until = 0.0
        for _ in range(20):
            for task in asyncio.all_tasks(self.loop) - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(1.0)

    def _start(self, name: str) -> None:
        clock = Clock(self.loop, self.random.uniform(1 - DRIFT, 1 + DRIFT), offset=self.random.uniform(-1e5, 1e5))
        clock.awake_since = clock.still_until = max(self.loop.now, self._away_until)
        database = self._kinds.database(*self._engines, Thread)
        database.town = self.town
        rows = self._kinds.rows(database, self._ids)
        replica = self._kinds.replica(rows, database, self._doorbell, self._ids, clock, name)
        process = Process(clock, replica, database)
        self._all.append(process)
        context = copy_context()
        context.run(CLOCK.set, clock)
        self._tasks.append(self.loop.create_task(self._serve(process), context=context))

    async def _serve(self, process: Process) -> None:
        """Speak in conversations, one after another."""
        replica, random = process.replica, self.random

        def inherited(found: Sequence[Inherited]) -> None:
            for one in found:
                self._tasks.append(self.loop.create_task(self._let_go(process, one.conversation_id)))

        replica.on_inherited = inherited
        await replica.start()
        while True:
            await process.clock.sleep(random.uniform(0.1, 3.0))
            await self.loop.create_task(self._speak(process, random.choice(CONVERSATIONS)))

    async def _let_go(self, process: Process, conversation_id: str) -> None:
        async with process.floor:
            await process.replica.let_go(conversation_id)

    async def _speak(self, process: Process, conversation_id: str) -> None:
        async with process.floor:
            try:
                if not await process.replica.take(conversation_id, to_speak=True):
                    return
                for _ in range(self.random.randrange(1, 12)):
                    await process.clock.sleep(self.random.uniform(0.0, 1.0))
                    # The fence may be looked at last: what it undoes is not written.
                    self.town.broken += await process.database.write(partial(self._say, conversation_id))
            except LeaseLost:
                self.town.lost += 1
            else:
                await process.replica.let_go(conversation_id)

    def _say(self, conversation_id: str, connection: Connection) -> list[str]:
        fence = FENCE.get()
        assert fence is not None
        held = held_conversations.c
        query = select(held.process_id).where(held.conversation_id == conversation_id)
        holder = connection.execute(query).scalar()
        self.town.writes += 1
        return [f"{fence.process_id} wrote in {conversation_id}, which {holder} held"] * (holder != fence.process_id)

    async def _happens(self) -> None:
        """What befalls the processes and the database."""
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 2.0))
            one = self.random.choice(self._all)
            match self.random.choice(("still", "still", "frozen", "leap", "wall", "rate", "die", "away")):
                case "still" | "frozen" as kind if one.clock.still_until < self.loop.now:
                    one.clock.stand_still(self.random.choice((0.5, 3.0, 5.5, 6.5, 8.0, 20.0)), frozen=kind == "frozen")
                case "leap":
                    one.clock.leap(self.random.choice((-3600.0, -4.0, 4.0, 3600.0)))
                case "wall":
                    one.clock.wall = self.random.uniform(-1e6, 1e6)
                case "rate":
                    before, one.clock.rate = one.clock.monotonic(), self.random.uniform(1 - DRIFT, 1 + DRIFT)
                    one.clock.offset += before - one.clock.monotonic()
                case "die" if not one.dead and self.random.random() < 0.4:
                    one.dead = True
                    one.clock.still_until = one.clock.awake_since = 1e9
                    self._start(self.random.choice(("", one.replica._name)))
                case "away" if self.loop.now > 20.0 and not self.town.away:
                    seconds = 8.0
                    # Who asked just before has measured its pause before that.
                    self._away_until = self.loop.now + seconds
                    self.town.away.append((self.loop.now + 1.1 * BEAT_SECONDS, self._away_until))
                    for other in self._all:
                        until = max(other.clock.still_until, self._away_until)
                        other.clock.still_until = other.clock.awake_since = until

    def _look(self) -> None:
        """What must be true each second."""
        now, awake = self.loop.now, [one for one in self._all if self.loop.now - one.clock.awake_since > SILENT]
        with self._engines[0].connect() as connection:
            live = set(connection.execute(select(processes.c.id)).scalars())
            holders = set(connection.execute(select(held_conversations.c.process_id)).scalars())
        for id in live:
            watched = any(one.replica.id != id for one in awake)
            if watched and id in self.town.beats and now - self.town.beats[id] > SILENT:
                self.town.broken.append(
                    f"{id} is taken as alive, {now - self.town.beats[id]:.2f} s after its last beat"
                )
        for id in holders - live:
            self.town.gone.setdefault(id, now)
            if awake and now - self.town.gone[id] > SILENT:
                self.town.broken.append(f"{id} is gone, and nobody took what it held")
        for one in awake:
            if one.replica.id and one.replica.id not in live and now - self.town.gone.get(one.replica.id, now) > SILENT:
                self.town.broken.append(f"{one.replica.id} does not know that it was given up")


class Unfenced(Watching):
    """Writes for whom it was told to, whoever has taken over."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._write_with(partial(self._noted, work))

    async def repeat(self, work: Callable[[Connection], Callable[[], T]]) -> T:
        return await self._repeat_with(work)


class HurriedWatch(BeatWatch):
    """Measures by a clock that runs twice as fast."""

    def look(self, began: float, ended: float, beats: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        return super().look(2 * began, 2 * ended, beats)


class PatientWatch(BeatWatch):
    """Measures by a clock that runs at a third of the speed."""

    def look(self, began: float, ended: float, beats: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        return super().look(began / 3, ended / 3, beats)


class UnawareWatch(BeatWatch):
    """Does not notice that it was away itself."""

    def look(self, began: float, ended: float, beats: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        while self._ended is not None and began - self._ended > 2.0:
            between = self._ended + 2.0
            super().look(between, between, beats)
        return super().look(began, ended, beats)


def watching(watch: type[BeatWatch]) -> type[Replica]:
    """Replicas that watch the others like this."""

    class Mutated(Replica):
        async def _begin(self, name: str) -> None:
            await super()._begin(name)
            self._watch = watch()

    return Mutated


class EndsAnyway(ReplicaRows):
    """Gives a process up that gave a sign of life meanwhile."""

    async def end(self, process_id: str, beat: int | None = None) -> bool:
        def end(connection: Connection) -> bool:
            done = connection.execute(processes.delete().where(processes.c.id == process_id)).rowcount == 1
            assert isinstance(self._database, Watching)
            self._database.town.saw("end", (process_id, beat), done)
            return done

        return await self._database.write(end)


class NoHeirs(ReplicaRows):
    """Takes nothing of what gone processes held."""

    async def inherit(self, process_id: str, at: datetime, *, started: bool = False) -> tuple[Inherited, ...]:
        return ()


class NeverAgain(Replica):
    """Does not begin again when it was given up."""

    async def _begin_again(self) -> None:
        await self._clock.sleep(BEAT_SECONDS)


MUTATIONS = {
    "unfenced": (Kinds(database=Unfenced), "wrote in"),
    "too early": (Kinds(replica=watching(HurriedWatch)), "given up after"),
    "too late": (Kinds(replica=watching(PatientWatch)), "is taken as alive"),
    "unaware": (Kinds(replica=watching(UnawareWatch)), "given up after"),
    "ends anyway": (Kinds(rows=EndsAnyway), "given up after"),
    "no heirs": (Kinds(rows=NoHeirs), "nobody took"),
    "never again": (Kinds(replica=NeverAgain), "does not know"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def made() -> None:
        async with await open_store(tmp_path / "lamella.db") as store:
            for id in CONVERSATIONS:
                await store.conversations.create_conversation(ANN, replace(CONVERSATION, id=id))

    asyncio.run(made())
    return tmp_path / "lamella.db"


LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in (*range(2, 8), 10, 12)]


@pytest.mark.parametrize("seed", [1, *LONG])
def test_leases_of_twenty_processes_never_overlap_whatever_their_clocks_do(path: Path, seed: int) -> None:
    town = Simulation(path, seed, 20, 60.0, Kinds()).run()
    assert town.broken == []
    assert town.writes > 100
    assert town.taken_over > 0
    assert town.lost > 0


@pytest.mark.long
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_breaks_a_law(path: Path, mutation: str) -> None:
    kinds, law = MUTATIONS[mutation]
    town = Simulation(path, 2, 12, 60.0, kinds).run()
    assert law in str(town.broken)
