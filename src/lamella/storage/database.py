"""Transactions: readers beside each other, one writer at a time, and SQL errors in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from lamella.core.errors import StoreFailed
from lamella.core.ids import Ids
from lamella.storage.failures import plain_errors

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")


class Database:
    """Two engines, one to read and one to write with; `one_writer` says that writers must wait for each other here."""

    def __init__(self, read: AsyncEngine, write: AsyncEngine, *, one_writer: bool) -> None:
        self._read = read
        self._write = write
        self._turnstile: AbstractAsyncContextManager[object] = asyncio.Lock() if one_writer else nullcontext()
        self._closed = False

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one state of the database and changes nothing."""
        self._check_open()
        with plain_errors():
            async with self._read.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is kept when the block ends well and undone when it raises."""
        with plain_errors():
            async with self._turnstile:
                self._check_open()
                async with self._write.begin() as connection:
                    yield connection

    async def close(self) -> None:
        """Close every connection; a transaction that has begun to write comes to its end first."""
        self._closed = True
        with plain_errors():
            async with self._turnstile:
                await self._write.dispose()
            await self._read.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed("The database is closed.")


async def insert_missing(connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose key is not there yet."""
    if rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        await connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def uninterrupted(
    verb: Callable[ParamsT, Coroutine[Any, Any, ResultT]],
) -> Callable[ParamsT, Coroutine[Any, Any, ResultT]]:
    """Let a verb that has begun come to its end when its caller is cancelled, and cancel the caller then.

    A transaction lasts milliseconds; one that is cut off while it begins would stay open and lock everybody out.
    """

    @wraps(verb)
    async def whole(*args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        task = asyncio.create_task(verb(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    return whole


class Verbs:
    """What the subjects of the store share: the database, and where new ids come from."""

    def __init__(self, database: Database, ids: Ids) -> None:
        self._database = database
        self._ids = ids

    @property
    def database(self) -> Database:
        """The database, for what else lies in it."""
        return self._database

    @uninterrupted
    async def close(self) -> None:
        """Close the database; every verb fails from now on."""
        await self._database.close()
