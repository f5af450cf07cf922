"""An event loop in which nothing happens by itself: whatever waits for the outside waits until a seed chooses it.

Transactions of the database, deltas of the model, threads and what clients do next are *operations*. While anybody can
go on, asyncio runs as ever; when everybody waits, one operation is chosen and done, or time goes on to the next timer.
So the order in which the outside answers is the seed's, the same in every run, and a crash is a number of operations.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from weakref import WeakSet

BEGUN = datetime(2026, 3, 1, 9, tzinfo=UTC)

EARLY = 0.02
"""How often time goes on although something could be done: the outside is slow."""

STALL = 0.01
"""How often a process stops, where there are two, and how many seconds it stands still."""

STALL_SECONDS = 200.0

STILL_SECONDS = 20.0
"""How long a process stands still before the operation that a plan names."""

MOST = 20_000
"""Operations of the longest life; an ordinary one has some 700."""

TRIES = 20
"""How often the tasks of a dead process are let go: some go on for a while."""

GIVES_UP = "end"
"""The verb by which a process takes another one for dead."""

PROCESS: ContextVar[str] = ContextVar("PROCESS", default="first")
"""Whose operation it is: processes stand still one by one."""


class Stuck(Exception):
    """Nothing can be done and no timer runs, and somebody still waits."""


@dataclass(slots=True)
class Operation:
    """Something that is done when it is chosen; its future is told what came of it."""

    name: str
    do: Callable[[], Any]
    future: asyncio.Future[Any] | None
    process: str


class Lanes:
    """The operations that wait, in lanes: one lane is done in order, which lane is next is the seed's choice."""

    def __init__(self, random: Random, *, crash_at: int | None = None, wakes: bool = False, still_at: str = "") -> None:
        self.random = random
        self.slow: dict[Hashable, float] = {}
        """How often these lanes are passed over where another one could be chosen."""
        self.crash_at = crash_at
        self.done = 0
        self.off = False
        """The power is off: nothing is done any more, and whoever asks is cancelled."""
        self.told: list[str] = []
        self.stalling = False
        """Whether processes may stand still."""
        self._wakes = wakes
        self._still_at = still_at
        self._lanes: dict[Hashable, deque[Operation]] = {}
        self._still: dict[str, float] = {}
        self._dead: set[str] = set()
        self._reached: list[tuple[int, asyncio.Future[None]]] = []

    def put(self, lane: Hashable, name: str, do: Callable[[], Any], future: asyncio.Future[Any] | None) -> None:
        """Let an operation wait in a lane."""
        process = PROCESS.get()
        if self.off or process in self._dead:
            if future is not None:
                future.cancel()
            return
        self._lanes.setdefault(lane, deque()).append(Operation(name, do, future, process))
        if name == self._still_at:
            self._still_at = ""
            self.stand_still(process, asyncio.get_running_loop().time() + STILL_SECONDS)

    async def step(self, lane: Hashable, name: str) -> None:
        """Come back when this is chosen."""
        future = asyncio.get_running_loop().create_future()
        self.put(lane, name, lambda: None, future)
        await future

    def ready(self, now: float) -> list[Hashable]:
        """The lanes whose next operation can be done."""
        return [lane for lane, waiting in self._lanes.items() if self._still.get(waiting[0].process, 0.0) <= now]

    async def reached(self, number: int) -> None:
        """Come back when so many operations were done."""
        if self.done < number:
            future = asyncio.get_running_loop().create_future()
            self._reached.append((number, future))
            await future

    def calm(self) -> None:
        """Every process goes on, and none stands still from now on."""
        self.stalling = False
        self._still.clear()

    def stand_still(self, process: str, until: float) -> None:
        """None of its operations is done before that time."""
        self._still[process] = until

    def kill(self, process: str) -> None:
        """What waits of a process is never done, and nothing of it from now on."""
        self._dead.add(process)
        for lane, waiting in list(self._lanes.items()):
            left = deque(one for one in waiting if one.process != process)
            for operation in waiting:
                if operation.process == process and operation.future is not None:
                    operation.future.cancel()
            if left:
                self._lanes[lane] = left
            else:
                del self._lanes[lane]

    def still_until(self, now: float) -> float | None:
        """When the next process that stands still goes on."""
        return min((until for until in self._still.values() if until > now), default=None)

    def next(self, ready: list[Hashable], now: float) -> None:
        """Do one operation of these lanes."""
        lane = ready[self.random.randrange(len(ready))]
        while len(ready) > 1 and self.random.random() < self.slow.get(lane, 0.0):
            ready.remove(lane)
            lane = ready[self.random.randrange(len(ready))]
        waiting = self._lanes[lane]
        operation = waiting.popleft()
        if not waiting:
            del self._lanes[lane]
        if self.stalling and self.random.random() < STALL:
            self._still[operation.process] = now + STALL_SECONDS
        self.done += 1
        self.told.append(f"{self.done} {now:.2f} {operation.process} {operation.name}")
        for number, future in self._reached:
            if number <= self.done and not future.done():
                future.set_result(None)
        _do(operation)
        if self._wakes and operation.name == GIVES_UP:
            self._still.clear()

    def switch_off(self) -> None:
        """The power fails: what waits is never done."""
        self.off = True
        for waiting in self._lanes.values():
            for operation in waiting:
                if operation.future is not None:
                    operation.future.cancel()
        self._lanes.clear()


def _do(operation: Operation) -> None:
    future = operation.future
    try:
        found = operation.do()
    except BaseException as error:  # noqa: BLE001 (handed on to whoever waits)
        if future is not None and not future.cancelled():
            future.set_exception(error)
        return
    if future is not None and not future.cancelled():
        future.set_result(found)


class Lane(Executor):
    """The threads of a database's readers or writers: of a single one the transactions keep their order."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is no thread."""


def _name_of(thread: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The verb of a transaction, for people who follow a schedule."""
    do = thread.args[0] if isinstance(thread, partial) and thread.args else None
    work = args[-1] if args else getattr(getattr(do, "__self__", None), "_work", None)
    while isinstance(work, partial) and isinstance(work.args[-1], partial):  # behind a fence
        work = work.args[-1]
    return getattr(work.args[0], "__name__", "transaction") if isinstance(work, partial) else "transaction"


class ScheduleLoop(asyncio.SelectorEventLoop):
    """asyncio with virtual time and without an outside; `crashed` when the number of operations was reached."""

    def __init__(self, lanes: Lanes, now: float = 0.0) -> None:
        self.lanes = lanes
        self.now = now
        self.crashed = False
        self._tasks_of: defaultdict[str, WeakSet[asyncio.Task[Any]]] = defaultdict(WeakSet)
        super().__init__(_Outside(self))

    def time(self) -> float:
        return self.now

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> asyncio.Task[Any]:
        """As asyncio's; it is noted whose task it is."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        self._tasks_of[PROCESS.get() if context is None else context.get(PROCESS, "first")].add(task)
        return task

    async def kill(self, process: str) -> None:
        """A process ends at once: what it waits for is never done, and its tasks are let go."""
        self.lanes.kill(process)
        for _ in range(TRIES):
            tasks = [task for task in self._tasks_of[process] if not task.done()]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.01)
        raise Stuck(f"These tasks of a dead process do not end: {tasks}")

    def run_in_executor(  # type: ignore[override]  # one type for all threads
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread is an operation of its own. What a transaction gave is told by another: others may come before."""
        future = self.create_future()
        if not isinstance(executor, Lane):
            self.lanes.put(future, f"thread {getattr(func, '__name__', '')}", lambda: func(*args), future)
            return future
        done, name = self.create_future(), _name_of(func, args)

        def answer(_: asyncio.Future[Any]) -> None:
            if done.cancelled():
                future.cancel()
            else:
                self.lanes.put(future, f"answer {name}", done.result, future)

        done.add_done_callback(answer)
        self.lanes.put(executor if executor.threads == 1 else done, name, lambda: func(*args), done)
        return future

    def idle(self, timer: float | None) -> None:
        """Everybody waits: do something, or let time pass to the next timer, in so many seconds."""
        lanes = self.lanes
        if lanes.off:
            return
        if lanes.crash_at is not None and lanes.done >= lanes.crash_at:
            self.crashed = True
            lanes.switch_off()
            self.stop()
            return
        if lanes.done > MOST:
            raise Stuck(f"After {MOST} operations somebody still waits.")
        ready = lanes.ready(self.now)
        if ready and (timer is None or lanes.random.random() >= EARLY):
            lanes.next(ready, self.now)
        elif timer is not None:
            self.now += timer
        elif (until := lanes.still_until(self.now)) is not None:
            self.now = until
        else:
            raise Stuck("Somebody waits for what never happens.")


class _Outside(selectors.SelectSelector):
    """Asked when asyncio would wait for sockets."""

    def __init__(self, loop: ScheduleLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._loop.idle(timeout)
        return []


class LoopClock:
    """The clock of a schedule: the loop's own time."""

    def now(self) -> datetime:
        return BEGUN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
