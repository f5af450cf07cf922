"""The databases that the contract runs on."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import insert

from lamella.core.access import LOCAL_USER
from lamella.core.ids import CountingIds
from lamella.storage import Store, open_store
from lamella.storage.migrate import migrate
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.tables import metadata

from .examples import long_conversation


class Backing(Protocol):
    """A database that can be opened again and looked into from outside."""

    async def open(self) -> Store:
        """A store on it."""
        ...

    def dump(self) -> dict[str, list[dict[str, object]]]:
        """The rows of every table that has any, but for the user that every database begins with."""
        ...

    async def fill(self, turns: int) -> None:
        """Store a conversation of so many finished turns, quicker than by playing them."""
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
        return {name: rows for name, rows in tables.items() if rows}

    async def fill(self, turns: int) -> None:
        engine = sqlite_engine(sqlite_url(self.path), writes=True)
        with engine.begin() as connection:
            for table, rows in long_conversation(turns):
                connection.execute(insert(table), rows)
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


@pytest.fixture(params=["sqlite"])
def backing(migrated: Path, tmp_path: Path) -> Backing:
    return SqliteBacking.copied(migrated, tmp_path)


@pytest.fixture
async def store(backing: Backing, anyio_backend: str) -> AsyncIterator[Store]:
    async with await backing.open() as opened:
        yield opened
