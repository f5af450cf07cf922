"""Transactions: readers beside each other, one writer at a time, and SQL errors in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from lamella.core.errors import StoreFailed
from lamella.core.ids import Ids
from lamella.storage.mapping import unicode_only

_EXPLANATIONS = (
    ("database or disk is full", "The disk is full: nothing was stored.", "Free some space, then try again."),
    ("database is locked", "The database is locked by another program.", "End the other program, then try again."),
    ("malformed", "The database file is damaged.", "Restore the data folder from a backup."),
    ("file is not a database", "The database file is damaged.", "Restore the data folder from a backup."),
    ("unable to open database file", "The database file cannot be opened.", "Is the data folder there, and yours?"),
    ("readonly database", "The database file cannot be written.", "Is the data folder writable?"),
    ("disk i/o error", "The disk failed while the database was used.", "Look at the disk and its free space."),
    ("no such table", "The database lacks a table.", "Restore the data folder from a backup."),
    ("no active connection", "The database is closed.", None),
    ("connection closed", "The database is closed.", None),
)


def failure(error: SQLAlchemyError) -> StoreFailed:
    """An error of the database in plain words; statements and values stay out of it."""
    cause = str(getattr(error, "orig", None) or type(error).__name__)
    if isinstance(error, IntegrityError):
        return StoreFailed(f"The rows do not fit what is stored: {cause}.")
    for symptom, message, hint in _EXPLANATIONS:
        if symptom in cause.lower():
            return StoreFailed(message, hint=hint)
    return StoreFailed(f"The database failed: {cause}.")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of the database into `StoreFailed`."""
    try:
        with unicode_only():
            yield
    except SQLAlchemyError as error:
        raise failure(error) from error


class Database:
    """Two engines, one to read and one to write with; `one_writer` says that writers must wait for each other here."""

    def __init__(self, read: AsyncEngine, write: AsyncEngine, *, one_writer: bool) -> None:
        self._read = read
        self._write = write
        self._turnstile: AbstractAsyncContextManager[object] = asyncio.Lock() if one_writer else nullcontext()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one state of the database and changes nothing."""
        with plain_errors():
            async with self._read.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is kept when the block ends well and undone when it raises."""
        with plain_errors():
            async with self._turnstile, self._write.begin() as connection:
                yield connection

    async def close(self) -> None:
        """Close every connection."""
        with plain_errors():
            await self._read.dispose()
            await self._write.dispose()


async def insert_missing(connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose key is not there yet; gives how many there were."""
    if not rows:
        return 0
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    result = await connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)
    return result.rowcount


class Verbs:
    """What the subjects of the store share: the database, and where new ids come from."""

    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    async def close(self) -> None:
        """Close the database; every verb fails from now on."""
        await self._database.close()
