"""PostgreSQL set up for any number of processes: serializable transactions, run again if another got in between.

The verbs of the store were written for one writer at a time. PostgreSQL gives them the same: if two transactions
contradict each other, one is undone whole, and `PostgresDatabase` runs its verb again. A reader sees one state of the
database and waits for nobody.

It works through PgBouncer in transaction mode: nothing is prepared, and nothing belongs to a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from random import uniform
from time import sleep
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from lamella.core.errors import ConfigurationError
from lamella.storage.database import Database, in_thread
from lamella.storage.failures import plain_errors
from lamella.storage.tables import metadata

SETTING = "LAMELLA_DATABASE_URL"

READERS, WRITERS = 4, 4
"""Connections of a process."""

ATTEMPTS = 12
"""How often a transaction is tried that others contradict. Most succeed with the second."""

PAUSE, LONGEST_PAUSE = 0.004, 0.25
"""Seconds before the second attempt at most, and before any: each later one may wait twice as long."""

_AGAIN = ("40001", "40P01")
"""A transaction that contradicts another, or waits for one that waits for it: it changed nothing."""

OLDEST = 160_000
"""The first server that is supported: 16."""

ResultT = TypeVar("ResultT")


def postgres_url(url_or_path: str | Path) -> URL | None:
    """The URL of a PostgreSQL database; None for anything else. Raises `ConfigurationError` for one without a name."""
    if isinstance(url_or_path, Path) or not url_or_path.startswith(("postgres://", "postgresql:", "postgresql+")):
        return None
    hint = "Write postgresql://USER:PASSWORD@HOST/DATABASE."
    try:
        url = make_url(url_or_path.replace("postgres://", "postgresql://", 1))
    except ArgumentError as error:
        raise ConfigurationError("The database URL can't be read.", hint=hint) from error
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise ConfigurationError(f"The driver {url.drivername} is not supported.", hint="Use postgresql+psycopg.")
    if not url.database:
        raise ConfigurationError("The database URL names no database.", hint=hint)
    return url.set(drivername="postgresql+psycopg")


def postgres_engine(url: URL, *, writes: bool, connections: int | None = None) -> Engine:
    """An engine on a database, with at most so many connections. A reading one refuses to write."""
    if find_spec("psycopg") is None:
        raise ConfigurationError(
            "PostgreSQL needs the package psycopg.", hint="pip install 'lamella[postgresql]'", param=SETTING
        )
    engine = create_engine(
        url,
        isolation_level="SERIALIZABLE" if writes else "REPEATABLE READ",
        pool_size=connections or (WRITERS if writes else READERS),
        max_overflow=0,
        pool_timeout=30,
        use_native_hstore=False,
        connect_args={"prepare_threshold": None, "application_name": "lamella", "connect_timeout": 10},
        query_cache_size=1_000,
    )

    def connected(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        connection.read_only = not writes

    event.listen(engine, "connect", connected)
    return engine


def check_server(connection: Connection) -> None:
    """Raises `ConfigurationError` for a server that is too old, or a database that can't hold every text."""
    version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if version < OLDEST:
        raise ConfigurationError(
            f"PostgreSQL {version // 10_000} is too old.", hint=f"Use {OLDEST // 10_000} or newer.", param=SETTING
        )
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise ConfigurationError(
            f"The database is encoded as {encoding}, which can't hold every text.",
            hint="Make one with ENCODING 'UTF8'.",
            param=SETTING,
        )


_HOLDER = 7_310_584_021_446_518_274
"""Names the lock of the process that serves a database."""


@asynccontextmanager
async def held_database(url_or_path: str | Path, *, shared: bool = False) -> AsyncIterator[None]:
    """Keeps a PostgreSQL database to one process until the block ends; a file is kept by the lock of its folder.

    `shared`: it is kept to processes that share it. Raises `ConfigurationError` if another process serves it.
    """
    url = postgres_url(url_or_path)
    if url is None:
        yield
        return
    engine = postgres_engine(url, writes=True)
    try:
        connection = await asyncio.to_thread(_holding, engine, shared=shared)
        try:
            yield
        finally:
            await asyncio.to_thread(connection.close)
    finally:
        await asyncio.to_thread(engine.dispose)


def _holding(engine: Engine, *, shared: bool) -> Connection:
    lock = func.pg_try_advisory_lock_shared(_HOLDER) if shared else func.pg_try_advisory_lock(_HOLDER)
    with plain_errors():
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        taken = connection.execute(select(lock)).scalar_one()
    if not taken:
        connection.close()
        raise ConfigurationError(
            "Another lamella serves this database.",
            hint="End it, or use another database. Several may serve it together if LAMELLA_REDIS_URL is set for each.",
            param=SETTING,
        )
    return connection


class PostgresDatabase(Database):
    """The readers and writers of one process on a PostgreSQL database."""

    @classmethod
    def of(cls, url: URL, connections: int | None = None) -> PostgresDatabase:
        """That of a URL, with so many connections to read and to write."""
        read, write = (postgres_engine(url, writes=writes, connections=connections) for writes in (False, True))
        return cls(read, write)

    async def scrub(self) -> bool:
        """Let the server reuse the room of removed rows. Its log and its backups are the operator's to rotate."""
        self._check_open()
        await in_thread(self._writers, self._vacuum)
        return True

    def _vacuum(self) -> None:
        with plain_errors(), self._write.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in metadata.sorted_tables:
                connection.execute(text(f'VACUUM "{table.name}"'))

    def _reading(self, work: Callable[[Connection], ResultT]) -> ResultT:
        self._check_open()
        with plain_errors():
            return _attempted(self._read.connect, work)

    def _writing(self, work: Callable[[Connection], ResultT]) -> ResultT:
        self._check_open()
        with plain_errors():
            return _attempted(self._write.begin, work)


def _attempted(
    opened: Callable[[], AbstractContextManager[Connection]], work: Callable[[Connection], ResultT]
) -> ResultT:
    """What `work` gives in a transaction. It runs again from its beginning if the transaction was undone."""
    pause = PAUSE
    for _ in range(ATTEMPTS - 1):
        try:
            with opened() as connection:
                return work(connection)
        except DBAPIError as error:
            if not _was_undone(error):
                raise
        sleep(uniform(0, pause))
        pause = min(2 * pause, LONGEST_PAUSE)
    with opened() as connection:
        return work(connection)


def _was_undone(error: DBAPIError) -> bool:
    """Whether a transaction surely changed nothing and may succeed now.

    Of a connection that is lost during a commit nobody knows whether the commit happened.
    """
    if getattr(error.orig, "sqlstate", None) in _AGAIN:
        return True
    return error.connection_invalidated and error.statement is not None
