"""Background jobs with leases: claimed, renewed while they run, finished or retried later.

The lease of a dead process ends, and the next worker that claims the job gets a higher token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import LamellaError, LeaseLost
from lamella.core.ports import Jobs
from lamella.core.records import Caller, Job, JobStatus, NewJob

log = structlog.get_logger()

LEASE_SECONDS = 90.0
"""How long a job is held without a sign of life."""

IDLE_SECONDS = 20.0
"""How often a worker polls for jobs that are due again, or left by another process."""

LOOK_SECONDS = 1.0
"""How often a wait for a job looks whether another process has ended it."""

MOST = 4
"""Jobs of one kind at once, so that a slow kind does not block others."""

MOST_OF_OWNER = 3
"""Of these, jobs of one owner: many of one leave room for the others."""

BACKOFF_SECONDS = (30.0, 300.0)
"""Pauses before further attempts after a failure; after the last one the job has failed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The job may be tried again after `after` seconds, without a limit of attempts; None: as after failures.

    Without `retry` it has failed. `code` names the reason in the stored error.
    """

    why: str
    after: float | None = None
    retry: bool = True
    code: str = ""

    @property
    def error(self) -> Mapping[str, str | None]:
        """The error object of the job."""
        found = LamellaError(self.why).as_dict()
        return {**found, "code": self.code} if self.code else found


Handler = Callable[[Job], Awaitable[Retry | None]]
"""Does a job; returns `Retry` if it may be tried again."""


class Worker:
    """Does the jobs of some kinds."""

    def __init__(self, jobs: Jobs, clock: Clock, handlers: Mapping[str, Handler]) -> None:
        self._jobs = jobs
        self._clock = clock
        self._handlers = handlers
        self._context = copy_context()
        self._woken = asyncio.Event()
        self._doing: dict[asyncio.Task[None], Job] = {}  # by task: a job whose lease ran out may be here twice
        self._beginning: list[tuple[str, str]] = []
        """Kinds and owners of jobs that are stored and leased at this moment."""
        self._loop: asyncio.Task[None] | None = None
        self._waits = False
        """Whether a job may be due that this process has not seen: then it looks again when a job has ended."""
        self._seen: datetime | None = None

    async def enqueue(self, caller: Caller, job: NewJob, *, first: bool = False) -> Job:
        """Store a job, and begin it at once if it is due and there is room for it. One that waits or runs for the same
        subject is the one that is given.

        `first`: somebody waits for it, so it is done here and now, whatever else waits or runs.
        """
        now = self._clock.now()
        of = (job.kind, caller.user_id)
        has_room = job.kind in self._free() and of not in self._busy()
        if first or (self.is_working and has_room and not self._waits):
            self._beginning.append(of)
            try:
                stored, is_mine = await self._jobs.begin(caller, job, now, LEASE_SECONDS, first=first)
            finally:
                self._beginning.remove(of)
            if is_mine:
                self._begin(stored)
            elif stored.status is JobStatus.WAITING and stored.due_at <= now:
                self.wake()
            return stored
        stored = await self._jobs.enqueue(caller, job, now)
        self.wake()
        return stored

    async def ended(self, job: Job) -> None:
        """Come back when a job neither runs nor is about to; looks again and again if another process does it."""
        while True:
            await self.put_down(job)
            now = await self._jobs.job(job.caller, job.kind, job.subject)
            if now is None or now.id != job.id or now.status not in (JobStatus.WAITING, JobStatus.RUNNING):
                return
            if now.status is JobStatus.WAITING and now.due_at > self._clock.now():
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def put_down(self, job: Job) -> None:
        """Come back when this process does not do a job any more: what became of it is stored."""
        here = [task for task, held in self._doing.items() if held.id == job.id]
        if here:
            await asyncio.wait(here)

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject, as it is now."""
        return await self._jobs.job(caller, kind, subject)

    def wake(self) -> None:
        """Look for work that is due now, or as soon as there is room for it."""
        self._waits = True
        self._woken.set()

    @property
    def is_working(self) -> bool:
        """Whether it was started and looks for jobs."""
        return self._loop is not None and not self._loop.done()

    def start(self) -> None:
        """Begin to work; what an ended process left is taken up when its lease has ended."""
        self._loop = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop, and give back what was not finished: it is due at once for the next worker."""
        held = list(self._doing.values())
        tasks = [task for task in (self._loop, *self._doing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        now = self._clock.now()
        for job in held:
            with suppress(LamellaError):
                await self._jobs.fail(job, LamellaError("The process ended.").as_dict(), now, now)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._look_at_clock()
                await self._take_all()
            except LamellaError as error:
                log.error("no job can be claimed", error=error.message)
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._woken.wait()

    async def _look_at_clock(self) -> None:
        """Let nothing wait for a time that a clock which was set back reaches only much later."""
        now, before = self._clock.now(), self._seen
        self._seen = now
        if before is None or now < before:
            # What was asked for since the last look may be a little later than that.
            reached = None if before is None else before + timedelta(seconds=2 * IDLE_SECONDS)
            stranded = await self._jobs.clock_set_back(now, reached)
            if stranded:
                log.warning("the clock was set back: what waited is done now", jobs=stranded)

    async def _take_all(self) -> None:
        while free := self._free():
            busy = self._busy()
            self._waits = bool(busy) or len(free) < len(self._handlers)
            job = await self._jobs.claim(free, self._clock.now(), LEASE_SECONDS, busy)
            if job is None:
                return
            self._waits = True  # there may be more
            self._begin(job)

    def _begin(self, job: Job) -> None:
        # Its lease says whether it may still write, not the fence of the task that asked for it.
        task = asyncio.create_task(self._do(job), context=self._context.copy())
        self._doing[task] = job
        task.add_done_callback(self._done)

    def _free(self) -> tuple[str, ...]:
        """The kinds of which one more can be done."""
        doing = Counter(kind for kind, _ in self._held())
        return tuple(kind for kind in self._handlers if doing[kind] < MOST)

    def _busy(self) -> tuple[tuple[str, str], ...]:
        """Kinds, and the owners who have as many of them done at once as they may."""
        return tuple(one for one, count in Counter(self._held()).items() if count >= MOST_OF_OWNER)

    def _held(self) -> list[tuple[str, str]]:
        return [*self._beginning, *((job.kind, job.caller.user_id) for job in self._doing.values())]

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._doing[task]
        if self._waits:
            self._woken.set()

    async def _do(self, job: Job) -> None:
        renewing = asyncio.create_task(self._renew(job))
        try:
            again = await self._handlers[job.kind](job)
            if await self._end(job, again):
                self._waits = True
        except LeaseLost as error:
            log.warning("a job was taken over", job=job.id, error=error.message)
        except LamellaError as error:
            await self._failed(job, error.as_dict())
        except Exception:  # the border where a job's failure becomes a row; the cause is in the log
            log.exception("a job failed", job=job.id, kind=job.kind)
            failure = LamellaError("The job failed.", hint="The server's log has the cause.")
            await self._failed(job, failure.as_dict())
        finally:
            renewing.cancel()

    async def _renew(self, job: Job) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                await self._jobs.renew(job, self._clock.now(), LEASE_SECONDS)
            except LeaseLost:
                return  # the job itself learns of it at its next write
            except LamellaError as error:
                log.error("a lease could not be renewed", job=job.id, error=error.message)

    async def _end(self, job: Job, again: Retry | None) -> bool:
        """Store how a job ended; whether it may be due again."""
        now = self._clock.now()
        if again is None:
            return await self._jobs.finish(job, now)
        if not again.retry:
            await self._jobs.fail(job, again.error, now)
        elif again.after is None:
            await self._failed(job, again.error)
        else:
            await self._jobs.fail(job, again.error, now, now + timedelta(seconds=again.after))
        return True

    async def _failed(self, job: Job, error: Mapping[str, str | None]) -> None:
        now = self._clock.now()
        tried = job.attempts - 1
        retry_at = now + timedelta(seconds=BACKOFF_SECONDS[tried]) if tried < len(BACKOFF_SECONDS) else None
        with suppress(LamellaError):
            await self._jobs.fail(job, error, now, retry_at)
