"""Transactions: readers beside each other, one writer at a time, and SQL errors in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from lamella.core.ids import Ids
from lamella.storage.failures import plain_errors


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
