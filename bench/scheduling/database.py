"""The real storage code over real files, each statement an operation of the schedule, not of a thread."""

from __future__ import annotations

import sqlite3
from asyncio import Future
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lamella.core.ids import Ids
from lamella.storage.connection import QuickConnection
from lamella.storage.database import Database
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.store import SqlStore
from scheduling.loop import Lanes

StoreT = TypeVar("StoreT", bound=SqlStore)


class _Statements:
    """Stands in for the queue of a connection's thread."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def put_nowait(self, asked: tuple[Future[Any] | None, Callable[[], Any]]) -> None:
        future, do = asked
        self._lanes.put(self, _name_of(do), do, future)


class _NoThread:
    daemon = True

    def start(self) -> None:
        """Statements are done by the loop."""


def _name_of(do: Callable[[], Any]) -> str:
    """The statement, for people who follow a schedule."""
    while isinstance(do, partial):
        for part in do.args:
            if isinstance(part, partial) and "sql" in part.keywords:
                return " ".join(str(part.keywords["sql"]).split())[:70]
        do = do.func
    return getattr(do, "__name__", "statement")


class Disk:
    """The database file of one schedule after another, through crashes.

    Its engines stay, so that a statement is compiled once for all schedules; connections are made anew in each life.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[QuickConnection] = []
        self._lanes: Lanes | None = None
        url = sqlite_url(path)
        self._engines = tuple(sqlite_engine(url, writes=writes, connector=self._connect) for writes in (False, True))

    def holds(self, data: bytes) -> None:
        """Begin with this file."""
        for name in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + name).unlink(missing_ok=True)
        self._path.write_bytes(data)

    def store(self, lanes: Lanes, ids: Ids, kind: type[StoreT]) -> StoreT:
        """A store over the file as it is now."""
        self._lanes = lanes
        return kind(Database(*self._engines, one_writer=True), ids)

    def _connect(self, path: str, timeout: float) -> QuickConnection:
        assert self._lanes is not None
        made = QuickConnection(lambda: sqlite3.connect(path, timeout=timeout, isolation_level=None), iter_chunk_size=64)
        made._tx = _Statements(self._lanes)  # type: ignore[assignment]
        made._thread = _NoThread()  # type: ignore[assignment]
        self._open.append(made)
        return made

    def power_off(self) -> None:
        """Close every connection: what was committed stays and nothing else."""
        for connection in self._open:
            if connection._connection is not None:
                connection._connection.close()
                connection._connection = None
        self._open.clear()
        for engine in self._engines:
            engine.sync_engine.dispose(close=False)

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
