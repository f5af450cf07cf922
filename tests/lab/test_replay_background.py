"""Between two turns of a replay all that is due is done once, even if a look for work takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lamella.core.clock import VirtualClock
from lamella.core.ports import Jobs
from lamella.core.records import Caller, Job, NewJob
from lamella.storage import open_store
from lamella_lab.replay.background import ReplayedJobs
from lamella_lab.replay.playback import Playback
from lamella_lab.trace.format import TraceSide

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DUE = NOON + timedelta(seconds=30)
ROUNDS = 50
"""Enough for anything that needs no thread to come to its end."""


class Held(ReplayedJobs):
    """Looks for work take as long as they are held."""

    def __init__(self, inner: Jobs, stage: Playback) -> None:
        super().__init__(inner, stage)
        self.open = True
        self.may_look = asyncio.Event()

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        await self.may_look.wait()
        return await super().claim(kinds, now, lease_seconds, busy)


@pytest.fixture
async def held(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Held]:
    """A compaction is due at `DUE`."""
    async with await open_store(tmp_path / "a.db") as store:
        await store.jobs.enqueue(ANN, NewJob("compact", "conv_1", "again", DUE, {}), NOON)
        yield Held(store.jobs, stage())


@pytest.fixture
def jobs(held: Held) -> ReplayedJobs:
    return ReplayedJobs(held, stage())


def stage() -> Playback:
    return Playback(VirtualClock(NOON), TraceSide())


async def look(jobs: ReplayedJobs, at: datetime) -> Job | None:
    """What a worker does when it is woken."""
    return await jobs.claim(("compact",), at, 90)


async def begun(jobs: ReplayedJobs) -> asyncio.Task[None]:
    """Somebody waits for quiet; the test itself looks for work, no worker is woken."""
    quiet = asyncio.create_task(jobs.quiet(lambda: None, lambda: False))
    await a_moment()
    return quiet


async def found_quiet(jobs: ReplayedJobs, quiet: asyncio.Task[None]) -> None:
    """The worker goes on looking and finds nothing, until it is quiet."""
    async with asyncio.timeout(10):
        while not quiet.done():
            assert await look(jobs, DUE) is None
            await a_moment()


async def a_moment() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def test_a_look_at_an_earlier_time_says_nothing_of_now(held: Held, jobs: ReplayedJobs) -> None:
    jobs.open = True
    earlier = asyncio.create_task(look(jobs, NOON))
    await a_moment()
    quiet = await begun(jobs)
    held.may_look.set()
    assert await earlier is None
    await a_moment()
    assert not quiet.done()
    due = await look(jobs, DUE)
    assert due is not None
    await jobs.finish(due, DUE)
    await found_quiet(jobs, quiet)


async def test_it_is_not_quiet_while_a_look_may_still_begin_a_job(held: Held, jobs: ReplayedJobs) -> None:
    quiet = await begun(jobs)
    late = asyncio.create_task(look(jobs, DUE))
    await a_moment()
    jobs.open = False
    assert await look(jobs, DUE) is None
    await a_moment()
    assert not quiet.done()
    jobs.open = True
    held.may_look.set()
    due = await late
    assert due is not None
    await jobs.finish(due, DUE)
    await found_quiet(jobs, quiet)
