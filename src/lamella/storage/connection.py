"""An aiosqlite connection that asks its thread once for each statement, where the usual one asks four times.

A question to the thread costs about a tenth of a millisecond, and a turn runs some twenty statements before its request
is sent: beginning goes with the first statement, reading and closing with each, undoing is not waited for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import aiosqlite

Rows = Sequence[tuple[Any, ...]]


class WholeCursor:
    """A cursor whose statement is run, read to its end and closed in one go; what SQLAlchemy asks later is at hand."""

    arraysize = 1

    def __init__(self, connection: QuickConnection) -> None:
        self._connection = connection
        self._rows: Rows = ()
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> WholeCursor:
        return self

    async def execute(self, sql: str, parameters: Iterable[Any] = ()) -> WholeCursor:
        """Run one statement."""
        await self._connection.in_thread(partial(self._run, sql=sql, parameters=parameters, many=False))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> WholeCursor:
        """Run one statement for each set of parameters."""
        await self._connection.in_thread(partial(self._run, sql=sql, parameters=parameters, many=True))
        return self

    def _run(self, connection: sqlite3.Connection, *, sql: str, parameters: Any, many: bool) -> None:
        cursor = connection.executemany(sql, parameters) if many else connection.execute(sql, parameters)
        try:
            self.description = cursor.description
            self._rows = cursor.fetchall() if cursor.description else ()
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    async def fetchall(self) -> Rows:
        """The rows."""
        rows, self._rows = self._rows, ()
        return rows

    async def close(self) -> None:
        """Nothing is open."""


class QuickConnection(aiosqlite.Connection):
    """`aiosqlite.Connection` with the cursor above, and transactions that begin with their first statement."""

    _beginning: str | None = None

    def begin(self, sql: str) -> None:
        """A transaction begins: `sql` is run before its first statement."""
        self._beginning = sql

    def cursor(self) -> WholeCursor:  # type: ignore[override]
        """A cursor; asks nobody."""
        return WholeCursor(self)

    async def in_thread(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do `work` with the connection, in its thread."""
        beginning, self._beginning = self._beginning, None
        await self._execute(_begun, self._conn, beginning, work)  # type: ignore[no-untyped-call]

    async def commit(self) -> None:
        """Keep what the transaction did."""
        if self._beginning is None:
            await super().commit()
        self._beginning = None

    async def rollback(self) -> None:
        """Undo what the transaction did; whatever is asked next comes behind it."""
        if self._beginning is None:
            self._tx.put_nowait((None, self._conn.rollback))
        self._beginning = None


def _begun(connection: sqlite3.Connection, beginning: str | None, work: Callable[[sqlite3.Connection], None]) -> None:
    if beginning is not None:
        connection.execute(beginning).close()
    work(connection)


def connect(path: str, timeout: float) -> QuickConnection:
    """A connection to a database file, open when it has been awaited; `timeout` is in seconds.

    The driver begins no transaction by itself: `begin` says when and how.
    """
    made = QuickConnection(lambda: sqlite3.connect(path, timeout=timeout, isolation_level=None), iter_chunk_size=64)
    made._thread.daemon = True
    return made
