"""Background jobs on PostgreSQL, ours next to procrastinate's: what a rollback, a late worker and many jobs of one do.

    pip install procrastinate && python bench/job_engines.py [--jobs 300]

PostgreSQL runs on this machine, in a folder that is removed. Each engine gets the same work: a job that is asked for in
a transaction that is rolled back; a job whose worker stands still until another has it, and then ends it; and `--jobs`
of one owner, then one of another. CPU is this process's, a job, without the work.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.core.clock import SystemClock
from lamella.core.errors import LeaseLost
from lamella.core.ids import RandomIds
from lamella.core.records import Caller, NewJob
from lamella.storage import open_store
from lamella.storage.jobs import enqueue_job
from postgres import running
from tables import show

KIND, LEASE = "compact", 60.0


def work(subject: str, at: datetime) -> NewJob:
    """A job to do at once."""
    return NewJob(kind=KIND, subject=subject, cause="bench", payload={}, not_before=at)


async def ours(url: str, count: int) -> list[str]:
    """What our jobs do."""
    now, ids = datetime.now(UTC), RandomIds(SystemClock())
    async with await open_store(url) as store:

        def fail(connection: Any) -> None:
            enqueue_job(connection, Caller("user_x"), ids.new("job"), work("gone", now), now)
            raise KeyError

        try:
            await store.database.write(fail)
        except KeyError:
            left = len(await store.jobs.open_subjects(Caller("user_x"), KIND))
        await store.jobs.enqueue(Caller("user_x"), work("late", now), now)
        late = await store.jobs.claim([KIND], now, LEASE)
        other = await store.jobs.claim([KIND], now + timedelta(seconds=2 * LEASE), LEASE)
        assert late is not None
        assert other is not None
        assert late.id == other.id
        ended = "ends the other's job"
        try:
            await store.jobs.finish(late, now)
        except LeaseLost:
            ended = "LeaseLost"
        await store.jobs.finish(other, now)
        for number in range(count):
            await store.jobs.enqueue(Caller("user_x"), work(f"x{number}", now), now)
        await store.jobs.enqueue(Caller("user_y"), work("y", now), now)
        order: list[str] = []
        spent, begin, before = time.process_time(), time.perf_counter(), None
        while (job := await store.jobs.claim([KIND], now, LEASE)) is not None:
            order.append(job.caller.user_id)
            if before is not None:
                await store.jobs.finish(before, now)
            before = job
        return row("Lamella", left, ended, order.index("user_y") + 1, len(order), spent, begin)


async def theirs(url: str, count: int) -> list[str]:
    """What procrastinate's do."""
    engine, order = import_module("procrastinate"), list[str]()
    app = engine.App(connector=engine.PsycopgConnector(conninfo=url))

    @app.task(name="work")  # type: ignore[untyped-decorator]
    async def task(owner: str) -> None:
        order.append(owner)

    async with app.open_async(), connected(url) as rolled, connected(url) as other:
        await app.schema_manager.apply_schema_async()
        await rolled.execute("CREATE TABLE business (x INT)")
        await task.defer_async(owner="gone")
        await rolled.rollback()
        left = await count_of(other, "todo")
        await other.execute("TRUNCATE procrastinate_jobs CASCADE")
        await other.commit()
        await task.defer_async(owner="late")
        jobs, status = app.job_manager, engine.jobs.Status.SUCCEEDED
        first, second = await jobs.register_worker(), await jobs.register_worker()
        late = await jobs.fetch_job(queues=None, worker_id=first)
        hour_ago = "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour' WHERE id = %s"
        await other.execute(hour_ago, (first,))
        await other.commit()
        for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=30):
            await jobs.retry_job(job)
        await jobs.fetch_job(queues=None, worker_id=second)
        await jobs.finish_job(late, status=status, delete_job=False)
        ended = "ends the other's job" if await count_of(other, "succeeded") else "is refused"
        for _ in range(count):
            await task.defer_async(owner="user_x")
        await task.defer_async(owner="user_y")
        order.clear()
        spent, begin = time.process_time(), time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)
        return row("procrastinate", left, ended, order.index("user_y") + 1, len(order), spent, begin)


@asynccontextmanager
async def connected(url: str) -> Any:
    """A connection of our own."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


async def count_of(connection: Any, status: str) -> int:
    """How many jobs of procrastinate have a status."""
    query = "SELECT count(*) FROM procrastinate_jobs WHERE status = %s"
    return int((await (await connection.execute(query, (status,))).fetchone())[0])


def row(name: str, left: int, ended: str, place: int, count: int, spent: float, begin: float) -> list[str]:
    """A row of the table; time counts from `spent` and `begin`."""
    cpu, wall = time.process_time() - spent, time.perf_counter() - begin
    return [
        name,
        str(left),
        ended,
        f"{place} of {count}",
        f"{cpu / count * 1e3:.1f} ms",
        f"{wall / count * 1e3:.1f} ms",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    count = parser.parse_args().jobs
    table = [["jobs", "left by a rollback", "a late worker", "place of the second owner", "CPU a job", "time a job"]]
    with running() as server:
        table.append(asyncio.run(ours(server.url(server.copied()), count)))
        table.append(asyncio.run(theirs(server.url("postgres").replace("+psycopg", ""), count)))
    show(table)


if __name__ == "__main__":
    main()
