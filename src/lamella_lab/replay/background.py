"""Background work of a replay: it runs between the turns, to its end or until the trace holds it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lamella.core.ports import Jobs
from lamella.core.records import Caller, Job, NewJob
from lamella_lab.replay.playback import Playback

SUMMARIES = ("compact", "summarise")
KINDS = (*SUMMARIES, "idle", "title")

LOOK = 0.01
"""Seconds between two looks at what is about to be enqueued."""


class ReplayedJobs:
    """A `Jobs` that gives work only while the stage is open to it, and knows what is being done."""

    def __init__(self, inner: Jobs, playback: Playback) -> None:
        self._inner = inner
        self._stage = playback
        self._doing: set[str] = set()
        self._looks = 0
        """How often somebody has looked for work: each look has a number."""
        self._looking: set[int] = set()
        self._nothing_at = 0
        """The newest look that found nothing."""
        self._looked = asyncio.Event()
        self.open = False

    async def enqueue(self, caller: Caller, job: NewJob, at: datetime) -> Job:
        """See `Jobs`."""
        return await self._inner.enqueue(caller, job, at)

    async def begin(
        self, caller: Caller, job: NewJob, at: datetime, lease_seconds: float, *, first: bool = False
    ) -> tuple[Job, bool]:
        """See `Jobs`. What a message or a running turn waits for (`first`) is done whenever it is."""
        if not first:
            return await self._inner.enqueue(caller, job, at), False
        stored, is_mine = await self._inner.begin(caller, job, at, lease_seconds, first=True)
        if is_mine:
            self._doing.add(stored.id)
        return stored, is_mine

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """See `Jobs`."""
        return await self._inner.job(caller, kind, subject)

    async def open_subjects(self, caller: Caller, kind: str) -> Sequence[str]:
        """See `Jobs`."""
        return await self._inner.open_subjects(caller, kind)

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """See `Jobs`. While a summary is held back no lease ends: its worker would renew it."""
        job = None
        self._looks += 1
        look = self._looks
        if self.open and not self._stage.held:
            self._looking.add(look)
            try:
                job = await self._inner.claim(kinds, now, lease_seconds, busy)
            finally:
                self._looking.discard(look)
        if job is not None:
            self._doing.add(job.id)
        else:
            self._nothing_at = max(self._nothing_at, look)
            self._looked.set()
        return job

    async def clock_set_back(self, now: datetime, reached: datetime | None) -> int:
        """See `Jobs`."""
        return await self._inner.clock_set_back(now, reached)

    async def next_due(self, kinds: Sequence[str]) -> datetime | None:
        """See `Jobs`."""
        return await self._inner.next_due(kinds)

    async def renew(self, job: Job, now: datetime, lease_seconds: float) -> None:
        """See `Jobs`."""
        await self._inner.renew(job, now, lease_seconds)

    async def finish(self, job: Job, at: datetime) -> bool:
        """See `Jobs`."""
        try:
            return await self._inner.finish(job, at)
        finally:
            self._ended(job)

    async def fail(
        self, job: Job, error: Mapping[str, str | None], at: datetime, retry_at: datetime | None = None
    ) -> None:
        """See `Jobs`."""
        try:
            await self._inner.fail(job, error, at, retry_at)
        finally:
            self._ended(job)

    def _ended(self, job: Job) -> None:
        self._doing.discard(job.id)
        self._stage.news.set()

    def restarted(self) -> None:
        """The process that did the work has ended."""
        self._doing.clear()

    async def quiet(self, wake: Callable[[], None], is_compacting: Callable[[], bool]) -> None:
        """Come back when all work that is due has been done, but for summaries that are held back.

        A look that began earlier looked at an earlier time, so its answer is out of date. And a look that still
        runs may begin a job: if the clock went on without it, the job's lease would end and it would be done twice.
        """
        self.open = True
        while True:
            self._stage.news.clear()
            earlier = self._looks
            wake()
            while self._nothing_at <= earlier:
                self._looked.clear()
                await self._looked.wait()
            held = len(self._stage.held)
            if not self._looking and len(self._doing) <= held and (held or not is_compacting()):
                return
            try:
                async with asyncio.timeout(LOOK):
                    await self._stage.news.wait()
            except TimeoutError:
                continue
