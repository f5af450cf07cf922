"""Background work under leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from lamella.core.records import (
    Caller,
    Job,
    NewJob,
)


class Jobs(Protocol):
    """Background work. Every verb is one transaction. Raises `StoreFailed` on failure.

    A worker claims a job for a while and says when it goes on, is done or has failed; when its lease has ended another
    may claim the job, and whatever the late worker says then raises `LeaseLost`.
    """

    async def enqueue(self, caller: Caller, job: NewJob, at: datetime) -> Job:
        """Store work to do, or give the job of the same kind and subject that waits or runs already, as it is.

        With `job.follows`, one that runs is due once more when it has ended, as if it were new. With `job.takes_over`,
        one that waits gets the payload and the cause of this one, and is due when this one is, as if it were new.
        """
        ...

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject, ended ones included."""
        ...

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
        only: str | None = None,
    ) -> Job | None:
        """A job that is due, leased for so long: of the owner who has the fewest running of its kind, the one that is
        due longest. None when none is due.

        `busy` are kinds, each with an owner for whom no more of them may run. With `only`, an id, that job or none.
        """
        ...

    async def clock_set_back(self, now: datetime) -> int:
        """Make due what began to wait later than now, and give how much that was.

        The clock was set back since, so nobody knows how long it has waited. What runs is left to its worker, whose
        next sign of life corrects its lease.
        """
        ...

    async def next_due(self, kinds: Sequence[str]) -> datetime | None:
        """When the next job can be claimed, by its own time or because its lease has ended."""
        ...

    async def renew(self, job: Job, now: datetime, lease_seconds: float) -> None:
        """Keep a job for so long from now; raises `LeaseLost`."""
        ...

    async def finish(self, job: Job, at: datetime) -> None:
        """The job is done; raises `LeaseLost`."""
        ...

    async def fail(
        self, job: Job, error: Mapping[str, str | None], at: datetime, retry_at: datetime | None = None
    ) -> None:
        """The job failed, with this error object: it waits until `retry_at`, or has ended; raises `LeaseLost`."""
        ...
