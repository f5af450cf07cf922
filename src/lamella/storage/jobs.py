"""Background work: one job of a kind for a subject, claimed with a lease that ends and a token that only grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    RowMapping,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from lamella.core.errors import LeaseLost
from lamella.core.records import Caller, Job, JobStatus, NewJob
from lamella.storage.database import Rows, insert_missing, reads, repeats, rows_changed, writes
from lamella.storage.rows import record, values
from lamella.storage.tables import jobs

_OPEN = (JobStatus.WAITING, JobStatus.RUNNING)
_JOB = [column for column in jobs.c if column.name not in ("asked_at", "process_id")]
"""What is read of a job. `asked_at` is only compared: it is empty in rows that are older than the column. `process_id`
says whose jobs are free when a process is gone."""


def _job_of(row: RowMapping) -> Job:
    return record(Job, row, caller=Caller(row["owner"]))


def _newest(caller: Caller, kind: str, subject: str) -> ColumnElement[bool]:
    return and_(jobs.c.owner == caller.user_id, jobs.c.kind == kind, jobs.c.subject == subject)


@cache
def _due(busy: int) -> Select[tuple[str]]:
    """The job to claim, given so many kinds of owners that are busy; made once, since a worker asks after each job."""
    moment = bindparam("moment", type_=jobs.c.due_at.type)
    # Counted once, not for each of thousands that wait: this stands in a writing transaction.
    others = jobs.alias()
    running = (
        select(others.c.owner, others.c.kind, func.count().label("count"))
        .where(others.c.status == JobStatus.RUNNING, others.c.due_at > moment)
        .group_by(others.c.owner, others.c.kind)
        .subquery()
    )
    idle = [
        or_(
            jobs.c.kind != bindparam(f"kind_{at}", type_=jobs.c.kind.type),
            jobs.c.owner != bindparam(f"owner_{at}", type_=jobs.c.owner.type),
        )
        for at in range(busy)
    ]
    return (
        select(jobs.c.id)
        .outerjoin(running, and_(running.c.owner == jobs.c.owner, running.c.kind == jobs.c.kind))
        .where(
            jobs.c.kind.in_(bindparam("kinds", expanding=True, type_=jobs.c.kind.type)),
            jobs.c.status.in_(_OPEN),
            jobs.c.due_at <= moment,
        )
        .where(*idle)
        .order_by(func.coalesce(running.c.count, 0), jobs.c.due_at, jobs.c.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=jobs)
    )


@cache
def _leasing(busy: int | None) -> Executable:
    """Leases the job that is due, given so many kinds of owners that are busy; None: that of a subject, if it is due.

    One statement, since a worker asks after each job.
    """
    status = literal_column(f"'{JobStatus.RUNNING}'", jobs.c.status.type)
    leased: dict[str, Any] = {
        "status": status,
        "due_at": bindparam("leased_until", type_=jobs.c.due_at.type),
        "asked_at": bindparam("leased_at", type_=jobs.c.asked_at.type),
        "token": jobs.c.token + 1,
        "attempts": jobs.c.attempts + 1,
        "again": False,
        "process_id": bindparam("leased_to", type_=jobs.c.process_id.type),
    }
    leasing = update(jobs).values(**leased).returning(*_JOB)
    if busy is not None:
        return leasing.where(jobs.c.id == _due(busy).scalar_subquery())
    its = [jobs.c[name] == bindparam(f"its_{name}", type_=jobs.c[name].type) for name in ("owner", "kind", "subject")]
    moment = bindparam("moment", type_=jobs.c.due_at.type)
    return leasing.where(*its, jobs.c.status.in_(_OPEN), jobs.c.due_at <= moment)


def check_lease(connection: Connection, job: Job) -> None:
    """Raises `LeaseLost` when somebody else has the job; nobody can take it until the transaction ends."""
    query = select(jobs.c.token).where(*_held(job)).with_for_update()
    if connection.execute(query).first() is None:
        raise _lost(job)


def _held(job: Job) -> tuple[ColumnElement[bool], ...]:
    return jobs.c.id == job.id, jobs.c.token == job.token, jobs.c.status == JobStatus.RUNNING


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(
        f"The lease of this {job.kind} for {job.subject} is lost: its job has ended, or another worker has it.",
        hint="Drop it: another worker has the job.",
    )


def enqueue_job(connection: Connection, caller: Caller, id: str, job: NewJob, at: datetime) -> None:
    """Store work to do, unless a job for the same waits or runs already."""
    this = _newest(caller, job.kind, job.subject)
    connection.execute(delete(jobs).where(this, jobs.c.status.not_in(_OPEN)))
    fresh = {"status": JobStatus.WAITING, "attempts": 0, "token": 0, "due_at": job.not_before, "asked_at": at}
    row = values(jobs, job, id=id, owner=caller.user_id, created_at=at, **fresh)
    insert_missing(connection, jobs, [row])
    if job.follows:
        runs = jobs.c.status == JobStatus.RUNNING
        connection.execute(update(jobs).where(this, runs).values(again=True))
    if job.takes_over:
        waits = jobs.c.status == JobStatus.WAITING
        asked = {name: row[name] for name in ("payload", "cause", "due_at", "asked_at", "attempts")}
        connection.execute(update(jobs).where(this, waits).values(**asked))


def forget_jobs(connection: Connection, caller: Caller, subjects: ColumnElement[bool]) -> None:
    """Remove the jobs of something that is removed."""
    connection.execute(delete(jobs).where(jobs.c.owner == caller.user_id, subjects))


class JobRows(Rows):
    """Background work under leases: the port `Jobs`."""

    @writes
    def enqueue(self, connection: Connection, caller: Caller, job: NewJob, at: datetime) -> Job:
        """Store work to do, or give the job for the same that waits or runs already."""
        this = _newest(caller, job.kind, job.subject)
        id = self._ids.new("job")
        enqueue_job(connection, caller, id, job, at)
        return _job_of(connection.execute(select(*_JOB).where(this)).mappings().one())

    async def begin(
        self, caller: Caller, job: NewJob, at: datetime, lease_seconds: float, *, first: bool = False
    ) -> tuple[Job, bool]:
        """As `enqueue`, and lease the job if it is due, `first` or not; whether this call leased it."""
        return await self._begin(caller, self._ids.new("job"), job, at, lease_seconds)

    @repeats
    def _begin(
        self, connection: Connection, caller: Caller, id: str, job: NewJob, at: datetime, lease_seconds: float
    ) -> Callable[[], tuple[Job, bool]]:
        enqueue_job(connection, caller, id, job, at)
        its = {"its_owner": caller.user_id, "its_kind": job.kind, "its_subject": job.subject}
        leased = connection.execute(_leasing(None), {"moment": at, **its, **self._lease(at, lease_seconds)})
        stored = connection.execute(select(*_JOB).where(_newest(caller, job.kind, job.subject))).mappings()

        def begun() -> tuple[Job, bool]:
            is_leased, found = leased.first() is not None, _job_of(stored.one())
            # Done for the second time, it finds the job that it stored the first time.
            return found, is_leased or (found.id == id and found.status is JobStatus.RUNNING)

        return begun

    def _lease(self, at: datetime, lease_seconds: float) -> dict[str, Any]:
        until = at + timedelta(seconds=lease_seconds)
        return {"leased_until": until, "leased_at": at, "leased_to": self._database.process_id}

    @reads
    def job(self, connection: Connection, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject."""
        query = select(*_JOB).where(_newest(caller, kind, subject))
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _job_of(row)

    @reads
    def open_subjects(self, connection: Connection, caller: Caller, kind: str) -> Sequence[str]:
        """See `Jobs.open_subjects`."""
        its = jobs.c.owner == caller.user_id, jobs.c.kind == kind, jobs.c.status.in_(_OPEN)
        return connection.execute(select(jobs.c.subject).where(*its).order_by(jobs.c.id)).scalars().all()

    @writes
    def claim(
        self,
        connection: Connection,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """Lease the job that is due longest, of the owner with the fewest running jobs. Returns None if no job is
        due.
        """
        asked: dict[str, Any] = {"kinds": kinds, "moment": now, **self._lease(now, lease_seconds)}
        for at, (kind, owner) in enumerate(busy):
            asked |= {f"kind_{at}": kind, f"owner_{at}": owner}
        row = connection.execute(_leasing(len(busy)), asked).mappings().one_or_none()
        if row is None:
            connection.rollback()  # nothing is changed: nobody waits for the end of the transaction
            return None
        return _job_of(row)

    @writes
    def clock_set_back(self, connection: Connection, now: datetime, reached: datetime | None) -> int:
        """See `Jobs.clock_set_back`."""
        if reached is None and self._database.process_id is not None:
            return 0
        waits = jobs.c.status == JobStatus.WAITING
        stranded = update(jobs).where(waits, jobs.c.asked_at > now, jobs.c.due_at > now)
        if reached is not None:
            stranded = stranded.where(jobs.c.asked_at <= reached)
        return rows_changed(connection, stranded.values(due_at=now, asked_at=now))

    @reads
    def next_due(self, connection: Connection, kinds: Sequence[str]) -> datetime | None:
        """When the next job can be claimed, by its own time or because its lease has ended."""
        query = select(func.min(jobs.c.due_at)).where(jobs.c.kind.in_(kinds), jobs.c.status.in_(_OPEN))
        due: datetime | None = connection.execute(query).scalar_one()
        return due

    @writes
    def release(self, connection: Connection, now: datetime) -> int:
        """Let go of all that runs, and give how much that was: it is due at once.

        Only for a process that is alone on this database: the process that held the lease has ended.
        """
        held = jobs.c.status == literal_column(f"'{JobStatus.RUNNING}'")  # as the index of running jobs says it
        waits = {"status": JobStatus.WAITING, "due_at": now, "asked_at": now}
        return rows_changed(connection, update(jobs).where(held).values(**waits))

    @writes
    def renew(self, connection: Connection, job: Job, now: datetime, lease_seconds: float) -> None:
        """Keep a job for longer."""
        self._change(connection, job, {"due_at": now + timedelta(seconds=lease_seconds)})

    @repeats
    def finish(self, connection: Connection, job: Job, at: datetime) -> Callable[[], bool]:
        """The job is done; whether it is due again, since it was asked for while it ran."""
        ended = {**_ended(JobStatus.FINISHED, at), "error": None}
        status = connection.execute(update(jobs).where(*_held(job)).values(**ended).returning(jobs.c.status)).scalars()

        def waits_again() -> bool:
            if (found := status.one_or_none()) is None:
                raise _lost(job)
            return found is JobStatus.WAITING

        return waits_again

    @writes
    def fail(
        self,
        connection: Connection,
        job: Job,
        error: Mapping[str, str | None],
        at: datetime,
        retry_at: datetime | None = None,
    ) -> None:
        """The job failed: it waits until `retry_at`, or it has ended."""
        if retry_at is None:
            changed = _ended(JobStatus.FAILED, at)
        else:
            changed = {"status": JobStatus.WAITING, "due_at": retry_at, "asked_at": at}
        self._change(connection, job, {**changed, "error": error})

    def _change(self, connection: Connection, job: Job, changed: Mapping[str, Any]) -> None:
        """Change a job that is still held."""
        if not rows_changed(connection, update(jobs).where(*_held(job)).values(**changed)):
            raise _lost(job)


def _ended(status: JobStatus, at: datetime) -> dict[str, Any]:
    """A job has ended, or waits as if it were new where it was asked for while it ran."""
    # Values within an expression don't know the column that they go to: they get its type.
    moment, of = literal(at, jobs.c.due_at.type), jobs.c.status.type
    return {
        "status": case((jobs.c.again, literal(JobStatus.WAITING, of)), else_=literal(status, of)),
        "ended_at": case((jobs.c.again, None), else_=moment),
        "due_at": case((jobs.c.again, moment), else_=jobs.c.due_at),
        "asked_at": at,
        "attempts": case((jobs.c.again, 0), else_=jobs.c.attempts),
    }
