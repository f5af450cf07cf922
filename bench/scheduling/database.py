"""The real storage code over real files, each transaction an operation of the schedule, not of a thread."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from lamella.core.ids import Ids
from lamella.storage.database import Database, Rows
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.store import Store
from scheduling.loop import Lane


class Disk:
    """The database file of one schedule after another, through crashes.

    Its engines stay, so that a statement is compiled once for all schedules; connections are made anew in each life.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        url = sqlite_url(path)
        self._engines = (sqlite_engine(url, writes=False), sqlite_engine(url, writes=True))

    def holds(self, data: bytes) -> None:
        """Begin with this file."""
        for name in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + name).unlink(missing_ok=True)
        self._path.write_bytes(data)

    def store(self, ids: Ids, fault: type[Rows] | None = None) -> Store:
        """A store over the file as it is now; its transactions are operations of the schedule.

        `fault` stands in place of the object that it is derived from.
        """
        store = Store(Database(*self._engines, Lane), ids)
        for name, rows in list(vars(store).items()):
            if fault is not None and type(rows) is fault.__bases__[0]:
                setattr(store, name, fault(store.database, ids))
        return store

    def power_off(self) -> None:
        """Close every connection: what was committed stays and nothing else."""
        for engine in self._engines:
            engine.dispose()

    def look(self) -> sqlite3.Connection:
        """What another program reads."""
        connection = sqlite3.connect(self._path)
        connection.row_factory = sqlite3.Row
        return connection

    def content(self) -> bytes:
        """The file, with all that was committed."""
        with closing(self.look()) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._path.read_bytes()

    def session_changes(self) -> int:
        """How often a conversation went to another session."""
        return self._count("SELECT count(*) FROM decisions WHERE kind = 'session'")

    def work_left(self) -> int:
        """Jobs that wait or run, and turns that do, and what waits in the queue."""
        jobs = self._count("SELECT count(*) FROM jobs WHERE status IN ('waiting', 'running')")
        queued = self._count("SELECT count(*) FROM queued_messages WHERE status = 'queued'")
        return jobs + queued + self._count("SELECT count(*) FROM turns WHERE status = 'running'")

    def _count(self, query: str) -> int:
        with closing(self.look()) as connection:
            count: int = connection.execute(query).fetchone()[0]
        return count
