"""Jobs under leases: done once, tried again after a pause, given up in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lamella.background import BACKOFF_SECONDS, LEASE_SECONDS, MOST, MOST_OF_OWNER, Retry, Worker
from lamella.core.clock import VirtualClock
from lamella.core.records import Caller, Job, JobStatus, NewJob
from lamella.storage import Store, open_store
from lamella.storage.jobs import JobRows

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Doing:
    """A handler that says how each attempt ends, and tells of it."""

    def __init__(self, *ends: Retry | Exception | None) -> None:
        self.ends = list(ends)
        self.seen: asyncio.Queue[Job] = asyncio.Queue()

    async def __call__(self, job: Job) -> Retry | None:
        await self.seen.put(job)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    async def next(self) -> Job:
        return await asyncio.wait_for(self.seen.get(), 10)


def job(clock: VirtualClock) -> NewJob:
    return NewJob("look", "conv_1", "to see", clock.now(), {"n": 1})


async def ended(store: Store, status: JobStatus) -> Job:
    """The job once it has this status."""
    async with asyncio.timeout(10):
        while True:
            found = await store.jobs.job(ANN, "look", "conv_1")
            if found is not None and found.status is status:
                return found
            await asyncio.sleep(0)


class Looks(JobRows):
    """Counts the looks for work."""

    count = 0

    async def claim(self, *args: Any, **given: Any) -> Job | None:
        self.count += 1
        return await super().claim(*args, **given)


async def test_a_job_for_which_there_is_room_is_begun_without_a_look(tmp_path: Path) -> None:
    clock, doing = VirtualClock(NOON), Doing(None, None)
    async with await open_store(tmp_path / "a.db") as store:
        jobs = Looks(store.database, store.ids)
        worker = Worker(jobs, clock, {"look": doing})
        worker.start()
        await a_moment_until(lambda: jobs.count == 1)
        for _ in range(2):
            begun = await worker.enqueue(ANN, job(clock))
            assert begun.status is JobStatus.RUNNING
            await doing.next()
            await worker.put_down(begun)
        assert jobs.count == 1
        await worker.close()


async def test_many_jobs_at_once_take_no_more_room_than_there_is(tmp_path: Path) -> None:
    clock, at_once, most, done = VirtualClock(NOON), 0, 0, 0

    async def slow(job: Job) -> None:
        nonlocal at_once, most, done
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once, done = at_once - 1, done + 1

    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": slow})
        worker.start()
        named = [(Caller(f"user_{n % 7}"), NewJob("look", f"conv_{n}", "to see", clock.now())) for n in range(30)]
        await asyncio.gather(*(worker.enqueue(caller, one) for caller, one in named))
        await a_moment_until(lambda: done == 30)
        assert most <= MOST + 1, "a look that runs meanwhile may find one more"
        await worker.close()


async def a_moment_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_job_is_done_once(tmp_path: Path) -> None:
    clock, doing = VirtualClock(NOON), Doing(None)
    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": doing})
        worker.start()
        await worker.enqueue(ANN, job(clock))
        seen = await doing.next()
        assert (seen.subject, seen.cause, seen.payload, seen.caller) == ("conv_1", "to see", {"n": 1}, ANN)
        await ended(store, JobStatus.FINISHED)
        await worker.close()


async def test_slow_jobs_of_one_kind_hold_up_their_own_alone(tmp_path: Path) -> None:
    clock, doing, begun = VirtualClock(NOON), Doing(None), asyncio.Semaphore(0)

    async def forever(job: Job) -> Retry | None:
        begun.release()
        await asyncio.Event().wait()
        return None

    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"slow": forever, "look": doing})
        worker.start()
        for number in range(MOST + 1):
            await worker.enqueue(Caller(f"user_{number}"), NewJob("slow", f"sess_{number}", "to see", clock.now()))
        async with asyncio.timeout(10):
            for _ in range(MOST):
                await begun.acquire()
        await worker.enqueue(ANN, job(clock))
        assert (await doing.next()).subject == "conv_1"
        await ended(store, JobStatus.FINISHED)
        waiting = await store.jobs.job(Caller(f"user_{MOST}"), "slow", f"sess_{MOST}")
        assert waiting is not None
        assert waiting.status is JobStatus.WAITING
        await worker.close()


async def test_many_jobs_of_one_owner_leave_room_for_the_others(tmp_path: Path) -> None:
    """Whoever has the fewest running is next, and what somebody waits for does not wait at all."""
    clock, begun, done = VirtualClock(NOON), asyncio.Queue[Job](), asyncio.Semaphore(0)

    async def slow(job: Job) -> Retry | None:
        begun.put_nowait(job)
        await done.acquire()
        return None

    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": slow})
        worker.start()
        for number in range(50):
            await worker.enqueue(ANN, NewJob("look", f"sess_{number}", "to see", clock.now()))
        async with asyncio.timeout(10):
            assert [(await begun.get()).caller for _ in range(MOST_OF_OWNER)] == [ANN] * MOST_OF_OWNER
            for name in ("bob", "cleo"):
                await worker.enqueue(Caller(name), NewJob("look", f"of_{name}", "to see", clock.now()))
            assert (await begun.get()).caller.user_id == "bob"
            first = await worker.enqueue(ANN, NewJob("look", "urgent", "to see", clock.now()), first=True)
            assert (await begun.get()).id == first.id
            assert first.status is JobStatus.RUNNING
            for _ in range(2):
                done.release()
            assert (await begun.get()).caller.user_id == "cleo"
        await worker.close()


async def test_a_lease_that_ran_out_here_is_taken_anew_here(tmp_path: Path) -> None:
    """As after a suspended machine: the first attempt still runs when the second begins, and ends for nothing."""
    clock, attempts = VirtualClock(NOON), asyncio.Queue[asyncio.Event]()

    async def slow(job: Job) -> Retry | None:
        done = asyncio.Event()
        attempts.put_nowait(done)
        await done.wait()
        return None

    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": slow})
        worker.start()
        await worker.enqueue(ANN, job(clock))
        async with asyncio.timeout(10):
            first = await attempts.get()
            clock.advance(LEASE_SECONDS + 1)
            worker.wake()
            second = await attempts.get()
        first.set()
        second.set()
        assert (await ended(store, JobStatus.FINISHED)).attempts == 2
        await worker.close()


async def test_one_that_fails_is_tried_again_after_a_pause_and_given_up_in_the_end(tmp_path: Path) -> None:
    clock, doing = VirtualClock(NOON), Doing(Retry("no"), ValueError("a bug"), Retry("still no"))
    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": doing})
        worker.start()
        for attempt, pause in enumerate(BACKOFF_SECONDS, start=1):
            await worker.enqueue(ANN, job(clock))
            assert (await doing.next()).attempts == attempt
            waiting = await ended(store, JobStatus.WAITING)
            assert waiting.due_at == clock.now() + timedelta(seconds=pause)
            clock.set(waiting.due_at)
        await worker.enqueue(ANN, job(clock))
        await doing.next()
        failed = await ended(store, JobStatus.FAILED)
        assert failed.error is not None
        assert failed.error["message"] == "still no"
        await worker.close()


async def test_what_a_closing_worker_holds_is_due_at_once(tmp_path: Path) -> None:
    clock, started = VirtualClock(NOON), asyncio.Event()

    async def forever(job: Job) -> Retry | None:
        started.set()
        await asyncio.Event().wait()
        return None

    async with await open_store(tmp_path / "a.db") as store:
        first = Worker(store.jobs, clock, {"look": forever})
        first.start()
        await first.enqueue(ANN, job(clock))
        await asyncio.wait_for(started.wait(), 10)
        await first.close()
        doing = Doing(None)
        second = Worker(store.jobs, clock, {"look": doing})
        second.start()
        assert (await doing.next()).attempts == 2
        await ended(store, JobStatus.FINISHED)
        await second.close()


async def test_a_clock_that_is_set_back_keeps_no_job_waiting(tmp_path: Path) -> None:
    """Of a retry that is due in half a minute nobody knows any more how long it has waited: it is done at once."""
    clock, doing = VirtualClock(NOON), Doing(Retry("not yet"), None)
    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": doing})
        worker.start()
        await worker.enqueue(ANN, job(clock))
        await doing.next()
        waiting = await ended(store, JobStatus.WAITING)
        assert waiting.due_at == NOON + timedelta(seconds=BACKOFF_SECONDS[0])
        clock.put_back(7_200)
        worker.wake()
        assert (await doing.next()).id == waiting.id
        await ended(store, JobStatus.FINISHED)
        await worker.close()


async def test_nor_does_one_that_was_set_back_before_the_start(tmp_path: Path) -> None:
    doing = Doing(None)
    async with await open_store(tmp_path / "a.db") as store:
        soon = NewJob("look", "conv_1", "to see", NOON + timedelta(minutes=5))
        await store.jobs.enqueue(ANN, soon, NOON)
        worker = Worker(store.jobs, VirtualClock(NOON - timedelta(days=1)), {"look": doing})
        worker.start()
        assert (await doing.next()).subject == "conv_1"
        await ended(store, JobStatus.FINISHED)
        await worker.close()


@pytest.mark.parametrize("seconds", [0, 3])
async def test_a_job_of_another_process_whose_clock_is_ahead_waits_on(tmp_path: Path, seconds: int) -> None:
    """It is no sign that the clock of this process was set back, or how far."""
    clock, doing = VirtualClock(NOON), Doing()
    async with await open_store(tmp_path / "a.db") as store:
        store.database.process_id = "proc_here"
        ahead = NOON + timedelta(hours=2)
        soon = NewJob("look", "conv_1", "to see", ahead + timedelta(minutes=5))
        await store.jobs.enqueue(ANN, soon, ahead)
        worker = Worker(store.jobs, clock, {"look": doing})
        worker.start()
        await asyncio.sleep(0.1)
        clock.put_back(seconds)
        worker.wake()
        await asyncio.sleep(0.1)
        found = await store.jobs.job(ANN, "look", "conv_1")
        assert found is not None
        assert (found.status, found.due_at) == (JobStatus.WAITING, soon.not_before)
        await worker.close()


async def test_what_is_due_later_waits_by_a_clock_that_goes_on(tmp_path: Path) -> None:
    clock, doing = VirtualClock(NOON), Doing(None)
    async with await open_store(tmp_path / "a.db") as store:
        worker = Worker(store.jobs, clock, {"look": doing})
        worker.start()
        await worker.enqueue(ANN, NewJob("look", "conv_1", "to see", NOON + timedelta(minutes=5)))
        clock.advance(299)
        worker.wake()
        await asyncio.sleep(0.1)
        assert doing.seen.empty()
        clock.advance(1)
        worker.wake()
        await doing.next()
        await ended(store, JobStatus.FINISHED)
        await worker.close()
