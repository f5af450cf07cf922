"""The real storage code over real databases, each transaction an operation of the schedule, not of a thread."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, text

from lamella.core.ids import Ids
from lamella.storage.database import Database, Rows
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import ONE_STATE, PostgresDatabase, postgres_engine
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.store import Store
from lamella.storage.tables import metadata
from scheduling.loop import Lane

Row = Mapping[str, Any]
ResultT = TypeVar("ResultT")

VERB_ARGS = 4
"""The verb of a transaction, the object that it belongs to, and its arguments: see `storage/database.py`."""

ORDERED = ("turns", "messages", "decisions")
"""Tables that are read in the order in which rows were added: PostgreSQL gets a `rowid` for them."""


_LIVES = text("SELECT 1 FROM processes WHERE id = :process")
_HOLDS = text(
    "SELECT process_id FROM turns JOIN held_conversations USING (conversation_id) "
    "WHERE turns.id = :turn AND status = 'running'"
)


def _turns_of(work: Any) -> tuple[str, Sequence[str]] | None:
    """The verb of a transaction that writes for turns, and these turns."""
    if not isinstance(work, partial) or len(work.args) != VERB_ARGS:
        return None
    verb, _, args, _ = work.args
    match verb.__name__:
        case "finish_turn":
            return verb.__name__, [args[1].turn_id]
        case "append_journal" if args[0]:
            return verb.__name__, list(dict.fromkeys(entry.turn_id for entry in args[0]))
    return None


class Watched(Database):
    """Notes the transactions that wrote for a turn by a process that others had given up, or for a running turn whose
    conversation another process held.
    """

    strays: list[str]

    async def write(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """See `Database.write`."""
        found = _turns_of(work)
        if found is None or self.process_id is None:
            return await super().write(work)
        stray: list[str] = []
        done = await super().write(partial(self._noting, *found, stray, work))
        self.strays += stray
        return done

    def _noting(
        self,
        verb: str,
        turn_ids: Sequence[str],
        stray: list[str],
        work: Callable[[Connection], ResultT],
        connection: Connection,
    ) -> ResultT:
        stray.clear()  # it may be tried again
        if connection.execute(_LIVES, {"process": self.process_id}).first() is None:
            stray.append(f"{self.process_id} did {verb} of {', '.join(turn_ids)} after it was given up")
        for turn_id in turn_ids:
            holder = connection.execute(_HOLDS, {"turn": turn_id}).scalar()
            if holder not in (None, self.process_id):
                stray.append(f"{self.process_id} did {verb} of {turn_id}, which {holder} held")
        return work(connection)


class WatchedSqlite(Watched):
    """Over a file."""


class WatchedPostgres(Watched, PostgresDatabase):
    """Over a database of PostgreSQL."""


class Disk(ABC):
    """The database of one schedule after another, through crashes: each begins with what was there at `keep`.

    Its engines stay, so that a statement is compiled once for all schedules.
    """

    @abstractmethod
    def database(self) -> Watched:
        """What a process makes of it; its transactions are operations of the schedule."""

    @abstractmethod
    def keep(self) -> None:
        """Each schedule begins with what is there now."""

    @abstractmethod
    def begin_anew(self) -> None:
        """A schedule begins."""

    @abstractmethod
    def rows(self, query: str) -> Sequence[Row]:
        """What another program reads."""

    @abstractmethod
    def power_off(self) -> None:
        """Close every connection: what was committed stays and nothing else."""

    def store(self, ids: Ids, strays: list[str], fault: type[Rows] | None = None) -> Store:
        """A store over what is there now; `fault` stands in place of the object that it is derived from.

        `strays` gets what is written for a turn by a process that does not hold its conversation.
        """
        database = self.database()
        database.strays = strays
        store = Store(database, ids)
        for name, rows in list(vars(store).items()):
            if fault is not None and type(rows) is fault.__bases__[0]:
                setattr(store, name, fault(store.database, ids))
        return store

    def session_changes(self) -> int:
        """How often a conversation went to another session."""
        return self._count("decisions WHERE kind = 'session'")

    def speaks(self) -> bool:
        """Whether a turn runs, or something waits in the queue."""
        return bool(
            self._count("queued_messages WHERE status = 'queued'") + self._count("turns WHERE status = 'running'")
        )

    def has_work(self) -> bool:
        """Whether that is so, or a job waits or runs."""
        return self.speaks() or bool(self._count("jobs WHERE status IN ('waiting', 'running')"))

    def _count(self, what: str) -> int:
        [row] = self.rows(f"SELECT count(*) AS found FROM {what}")
        return int(row["found"])


class SqliteDisk(Disk):
    """A file. Connections are made anew in each life."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = b""
        url = sqlite_url(path)
        self._engines = (sqlite_engine(url, writes=False), sqlite_engine(url, writes=True))

    def database(self) -> Watched:
        """See `Disk.database`."""
        return WatchedSqlite(*self._engines, Lane)

    def keep(self) -> None:
        """See `Disk.keep`."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self._kept = self._path.read_bytes()

    def begin_anew(self) -> None:
        """See `Disk.begin_anew`."""
        for name in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + name).unlink(missing_ok=True)
        self._path.write_bytes(self._kept)

    def power_off(self) -> None:
        """See `Disk.power_off`."""
        for engine in self._engines:
            engine.dispose()

    def rows(self, query: str) -> Sequence[Row]:
        """See `Disk.rows`."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query).fetchall()


class PostgresDisk(Disk):
    """A database of PostgreSQL, migrated and empty. Connections stay: a process dies between its transactions."""

    def __init__(self, url: str) -> None:
        address = database_url(url)
        self._engines = (postgres_engine(address, ONE_STATE), postgres_engine(address))
        self._looking = create_engine(address, isolation_level="AUTOCOMMIT")
        self._anew = ""
        self._run(*(f"ALTER TABLE {table} ADD COLUMN rowid bigserial" for table in ORDERED))

    def database(self) -> Watched:
        """See `Disk.database`."""
        return WatchedPostgres(*self._engines, threads=Lane)

    def keep(self) -> None:
        """See `Disk.keep`."""
        names = [table.name for table in metadata.sorted_tables]
        kept = [name for name in names if self._count(f'"{name}"')]
        anew = ("DROP SCHEMA IF EXISTS kept CASCADE", "CREATE SCHEMA kept")
        self._run(*anew, *(f'CREATE TABLE kept."{name}" AS TABLE "{name}"' for name in kept))
        deleted = [f'DELETE FROM "{name}"' for name in names]
        copied = [f'INSERT INTO "{name}" SELECT * FROM kept."{name}"' for name in kept]
        # Without the checks of foreign keys.
        self._anew = ";".join(["BEGIN; SET LOCAL session_replication_role = replica", *deleted, *copied, "COMMIT"])

    def begin_anew(self) -> None:
        """See `Disk.begin_anew`."""
        self._run(self._anew)

    def power_off(self) -> None:
        """See `Disk.power_off`."""

    def rows(self, query: str) -> Sequence[Row]:
        """See `Disk.rows`."""
        with self._looking.connect() as connection:
            return [dict(row) for row in connection.execute(text(query)).mappings()]

    def close(self) -> None:
        """Close all connections."""
        for engine in (*self._engines, self._looking):
            engine.dispose()

    def _run(self, *statements: str) -> None:
        with self._looking.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
