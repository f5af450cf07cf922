"""The databases that the contract runs on."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import Connection, insert, text

from lamella.core.access import LOCAL_USER
from lamella.core.ids import CountingIds
from lamella.storage import Store, open_store
from lamella.storage.migrate import database_url, migrate
from lamella.storage.postgresql import postgres_engine
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.tables import metadata
from postgres import PostgresServer

from .examples import long_conversation


class Backing(Protocol):
    """A database that can be opened again and looked into from outside."""

    async def open(self) -> Store:
        """A store on it."""
        ...

    def dump(self) -> dict[str, list[dict[str, object]]]:
        """The rows of every table that has any, but for the user and the id that every database begins with."""
        ...

    async def fill(self, turns: int) -> None:
        """Store a conversation of so many finished turns, quicker than by playing them."""
        ...

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """What a statement gives that another program runs."""
        ...


class SqliteBacking:
    """A database file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def copied(cls, template: Path, folder: Path) -> SqliteBacking:
        """A copy of a file that was migrated before."""
        return cls(Path(shutil.copy(template, folder / "lamella.db")))

    async def open(self) -> Store:
        return await open_store(self.path, CountingIds())

    def dump(self) -> dict[str, list[dict[str, object]]]:
        with sqlite3.connect(self.path) as connection:
            connection.row_factory = sqlite3.Row
            tables = {
                name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in metadata.tables
            }
        connection.close()
        tables["users"] = [row for row in tables["users"] if row["id"] != LOCAL_USER]
        del tables["deployment"]
        return {name: rows for name, rows in tables.items() if rows}

    async def fill(self, turns: int) -> None:
        engine = sqlite_engine(sqlite_url(self.path), writes=True)
        with engine.begin() as connection:
            for table, rows in long_conversation(turns):
                connection.execute(insert(table), rows)
        engine.dispose()

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement).fetchall()


class PostgresBacking:
    """A database of a PostgreSQL server."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.url = server.url(name)

    async def open(self) -> Store:
        return await open_store(self.url, CountingIds())

    def dump(self) -> dict[str, list[dict[str, object]]]:
        with self._connected() as connection:
            tables = {
                name: [dict(row) for row in connection.execute(text(f'SELECT * FROM "{name}"')).mappings()]
                for name in metadata.tables
            }
        tables["users"] = [row for row in tables["users"] if row["id"] != LOCAL_USER]
        del tables["deployment"]
        return {name: rows for name, rows in tables.items() if rows}

    async def fill(self, turns: int) -> None:
        with self._connected() as connection:
            for table, rows in long_conversation(turns):
                connection.execute(insert(table), rows)

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with self._connected() as connection:
            found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        engine = postgres_engine(database_url(self.url))
        with engine.begin() as connection:
            yield connection
        engine.dispose()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, made once."""
    path = tmp_path_factory.mktemp("template") / "lamella.db"
    asyncio.run(migrate(path))
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def backing(request: pytest.FixtureRequest, migrated: Path, tmp_path: Path) -> Backing:
    """The database of a test: a copy of a migrated one."""
    if request.param == "sqlite":
        return SqliteBacking.copied(migrated, tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return PostgresBacking(server, server.copied())


@pytest.fixture
async def store(backing: Backing, anyio_backend: str) -> AsyncIterator[Store]:
    async with await backing.open() as opened:
        yield opened
