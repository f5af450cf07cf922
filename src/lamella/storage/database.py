"""Transactions: each runs whole in a thread. Many read, one writes at a time, and SQL errors become plain words.

A verb of the store is a plain function over a connection. `reads` and `writes` make a coroutine of it, which goes to a
thread once: to go there with each statement costs 0.1 ms, and a turn runs some twenty before its request is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Column, Connection, Engine, QueuePool, Select, Table, UpdateBase, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from lamella.core.errors import LeaseLost, StoreFailed
from lamella.core.ids import Ids
from lamella.storage.failures import plain_errors
from lamella.storage.tables import processes

COUNTED = "counted"
"""The option of a statement that changes rows and whose number is asked for: on PostgreSQL it is sent at once."""

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")
WorkT = TypeVar("WorkT")
OwnerT = TypeVar("OwnerT", bound="Transactions")


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    """The process that a task writes for. `lost` is set when others have given that process up: see `replicas.py`."""

    process_id: str
    lost: asyncio.Event = field(default_factory=asyncio.Event)


FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""The fence of the running task and of those that it begins. None: the process has its database alone, or the task
writes nothing that another process could take over."""

_STALLED = "4s"
"""A fenced transaction whose process does nothing for so long is ended by PostgreSQL, so that it blocks nobody."""


def lease_lost() -> LeaseLost:
    """The error of a fenced transaction whose process was given up by others."""
    return LeaseLost(
        "Another process has taken over what this one was doing.",
        hint="Nothing is lost: send the request again, and it goes there.",
    )


def _fenced(process_id: str, work: Callable[[Connection], ResultT], connection: Connection) -> ResultT:
    """`work` in a transaction during which nobody can give the process up. Raises `LeaseLost` if somebody has.

    PostgreSQL is asked to divide by the number of rows of the process: it ends the transaction itself if there is none,
    and nobody waits for the answer. `PostgresDatabase` raises `LeaseLost` for the error.
    """
    row = select(processes.c.id).where(processes.c.id == process_id)
    if connection.dialect.name == "postgresql":
        own = row.with_for_update(read=True, key_share=True).subquery()
        stalled = func.set_config("idle_in_transaction_session_timeout", _STALLED, True)
        connection.execute(select(stalled, literal(1) // select(func.count()).select_from(own).scalar_subquery()))
    elif connection.execute(row).first() is None:
        raise lease_lost()
    return work(connection)


def _lives(process_id: str, connection: Connection) -> bool:
    return connection.execute(select(processes.c.id).where(processes.c.id == process_id)).first() is not None


def _threads_of(engine: Engine) -> int:
    """As many as the engine has connections: nobody waits for one in a thread."""
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.size()


class Database:
    """Two engines, one to read and one to write with, each with a thread per connection of its pool.

    The module of each database has a class of its own: `SqliteDatabase`, `PostgresDatabase`.
    """

    def __init__(self, read: Engine, write: Engine, threads: Callable[[int], Executor] = ThreadPoolExecutor) -> None:
        self._read = read
        self._write = write
        self._readers = threads(_threads_of(read))
        self._writers = threads(_threads_of(write))
        self._closed = False
        self.process_id: str | None = None
        """This process among several; None if it has the database alone."""

    async def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """What `work` gives in a transaction that sees one state of the database and changes nothing."""
        self._check_open()
        return await self._read_with(work)

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """What `work` gives in a transaction that is kept when it ends well and undone when it raises."""
        return await self._fenced_with(self._write_with, work)

    async def repeat(self, work: Callable[[Connection], Callable[[], ResultT]]) -> ResultT:
        """As `write`, for what may be done twice. `work` gives the function that looks at its answers after the end.

        On PostgreSQL it costs one round trip, since `COMMIT` is sent with the statements.
        """
        return await self._fenced_with(self._repeat_with, work)

    async def note(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """As `write`, for what reads nothing, may be done twice, and is no other process's to do: it has no fence.

        On PostgreSQL it costs one round trip, and contradicts no other transaction.
        """
        self._check_open()
        return await self._note_with(work)

    async def check_writable(self) -> None:
        """Raises `StoreFailed` if no transaction that writes can begin. Nothing is written."""
        await self.write(lambda connection: connection.execute(select(1)).scalar_one())

    @property
    def silent_seconds(self) -> float:
        """How long verbs have waited for a database that gave no answer to any of them; 0 if none waits."""
        return 0.0

    async def scrub(self) -> bool:
        """Give free space back to the disk, and let go of what was removed; False if something is still being read."""
        raise NotImplementedError

    def hurry(self, seconds: float) -> None:
        """The process ends: nothing waits longer than `seconds` from now on for a server that is away."""

    async def close(self) -> None:
        """Close every connection; a transaction that has begun to write comes to its end first."""
        if self._closed:
            return
        self._closed = True
        await in_thread(self._writers, self._write.dispose)
        await in_thread(self._readers, self._read.dispose)
        self._writers.shutdown(wait=False)
        self._readers.shutdown(wait=False)

    async def _read_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        return await in_thread(self._readers, self._reading, work)

    async def _write_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        return await in_thread(self._writers, self._writing, work)

    async def _repeat_with(self, work: Callable[[Connection], Callable[[], ResultT]]) -> ResultT:
        return await self._write_with(lambda connection: work(connection)())

    async def _fenced_with(
        self,
        run: Callable[[Callable[[Connection], WorkT]], Coroutine[Any, Any, ResultT]],
        work: Callable[[Connection], WorkT],
    ) -> ResultT:
        """What `run` makes of `work`, fenced if the running task writes for a process among several."""
        self._check_open()
        if (fence := FENCE.get()) is None:
            return await run(work)
        try:
            return await run(partial(_fenced, fence.process_id, work))
        except LeaseLost:
            if not await self.read(partial(_lives, fence.process_id)):
                fence.lost.set()
            raise

    async def _note_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        return await self._write_with(work)

    def _reading(self, work: Callable[[Connection], ResultT]) -> ResultT:
        self._check_open()
        with plain_errors(), self._read.connect() as connection:
            return work(connection)

    def _writing(self, work: Callable[[Connection], ResultT]) -> ResultT:
        self._check_open()
        with plain_errors(), self._write.begin() as connection:
            return work(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed("The database is closed.")


async def in_thread(threads: Executor, do: Callable[..., ResultT], *args: Any) -> ResultT:
    """What `do` gives in a thread; it comes to its end when its caller is cancelled, who is cancelled then.

    A transaction lasts milliseconds, and a caller that cancels it must know that it is over.
    """
    future = asyncio.get_running_loop().run_in_executor(threads, partial(copy_context().run, do), *args)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()
        raise


class Transactions:
    """What `reads` and `writes` need of the object whose verbs they make."""

    def __init__(self, database: Database) -> None:
        self._database = database


class Rows(Transactions):
    """What the objects of the store share: the database, and where new ids come from."""

    def __init__(self, database: Database, ids: Ids) -> None:
        super().__init__(database)
        self._ids = ids


def reads(
    verb: Callable[Concatenate[OwnerT, Connection, ParamsT], ResultT],
) -> Callable[Concatenate[OwnerT, ParamsT], Coroutine[Any, Any, ResultT]]:
    """Make a verb of a function that reads: `await store.verb(…)` runs it in a transaction of its own."""

    @wraps(verb)
    async def read(self: OwnerT, /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await self._database.read(partial(_called, verb, self, args, kwargs))

    return read


def writes(
    verb: Callable[Concatenate[OwnerT, Connection, ParamsT], ResultT],
) -> Callable[Concatenate[OwnerT, ParamsT], Coroutine[Any, Any, ResultT]]:
    """Make a verb of a function that writes: as `reads`, all or nothing."""

    @wraps(verb)
    async def write(self: OwnerT, /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await self._database.write(partial(_called, verb, self, args, kwargs))

    return write


def repeats(
    verb: Callable[Concatenate[OwnerT, Connection, ParamsT], Callable[[], ResultT]],
) -> Callable[Concatenate[OwnerT, ParamsT], Coroutine[Any, Any, ResultT]]:
    """Make a verb of a function that writes what may be written twice, and gives the function that looks at its
    answers: see `Database.repeat`.
    """

    @wraps(verb)
    async def repeat(self: OwnerT, /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await self._database.repeat(partial(_called, verb, self, args, kwargs))

    return repeat


def notes(
    verb: Callable[Concatenate[OwnerT, Connection, ParamsT], ResultT],
) -> Callable[Concatenate[OwnerT, ParamsT], Coroutine[Any, Any, ResultT]]:
    """Make a verb of a function that writes what may be written twice, see `Database.note`."""

    @wraps(verb)
    async def note(self: OwnerT, /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await self._database.note(partial(_called, verb, self, args, kwargs))

    return note


def _called(
    verb: Callable[..., ResultT],
    subject: Transactions,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    connection: Connection,
) -> ResultT:
    return verb(subject, connection, *args, **kwargs)


def rows_changed(connection: Connection, statement: UpdateBase) -> int:
    """The number of rows that a statement changed or removed. Only it asks for that: others may be sent later."""
    return connection.execute(statement, execution_options={COUNTED: True}).rowcount


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]] | Select[Any]) -> None:
    """Insert the rows whose key is not there yet. A query gives them in the order of the table's columns."""
    if isinstance(rows, Select) or rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        made = dialect.insert(table).on_conflict_do_nothing()
        if isinstance(rows, Select):
            connection.execute(made.from_select(list(table.columns), rows))
        else:
            connection.execute(made, rows)


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], unless_newer: Column[Any]) -> None:
    """Insert rows, or replace those of the same key, unless the one that is there has a larger `unless_newer`."""
    if not rows:
        return
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    made = dialect.insert(table)
    changed = {column.name: made.excluded[column.name] for column in table.columns if not column.primary_key}
    newer = made.excluded[unless_newer.name] >= unless_newer
    keys = list(table.primary_key)
    connection.execute(made.on_conflict_do_update(index_elements=keys, set_=changed, where=newer), rows)
