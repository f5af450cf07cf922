from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.storage import open_store
from lamella.storage.migrate import HEAD, migrate
from lamella.storage.migrations.upgrade import config
from lamella.storage.schema import metadata
from lamella.storage.sqlite import sqlite_engine, sqlite_url

pytestmark = pytest.mark.anyio


def _tables(path: Path) -> dict[str, list[str]]:
    """The statements that made tables and indexes, by name, as sorted lines: the order of clauses does not matter."""
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sorted(line.strip(" \t,") for line in sql.splitlines()) for name, sql in found}


async def test_the_revisions_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    await migrate(tmp_path / "migrated.db")
    engine = sqlite_engine(sqlite_url(tmp_path / "migrated.db"), writes=False)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()

    # Alembic does not compare keys, defaults, deletion rules or conditions of indexes: the statements do.
    made = sqlite_engine(sqlite_url(tmp_path / "made.db"), writes=True)
    async with made.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await made.dispose()
    migrated = _tables(tmp_path / "migrated.db")
    del migrated["alembic_version"]
    assert migrated == _tables(tmp_path / "made.db")


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_tables_have_a_form_for_postgresql(table: Table) -> None:
    dialect = make_url("postgresql://").get_dialect()()
    assert str(CreateTable(table).compile(dialect=dialect))
    for index in table.indexes:
        assert str(CreateIndex(index).compile(dialect=dialect))
    assert "owner" in table.columns


def test_the_newest_revision_is_the_one_that_is_asked_for() -> None:
    assert ScriptDirectory.from_config(config()).get_current_head() == HEAD


async def test_a_database_that_is_up_to_date_is_opened_at_once(migrated: Path) -> None:
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        await migrate(migrated)
        spent.append(time.perf_counter() - start)
    assert min(spent) < 0.050


def test_a_database_that_is_up_to_date_does_not_load_alembic(migrated: Path) -> None:
    program = (
        "import asyncio, sys; from lamella.storage import open_store; "
        f"asyncio.run(asyncio.wait_for(open_store({str(migrated)!r}), 9)); print('alembic' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


async def test_two_that_upgrade_a_database_at_once_both_get_it(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    await asyncio.gather(*(migrate(tmp_path / "new.db") for _ in range(3)))
    await migrate(tmp_path / "new.db")


async def test_a_revision_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE journal (something TEXT)")
    connection.close()
    with pytest.raises(StoreFailed, match="already exists"):
        await migrate(tmp_path / "other.db")
    assert list(_tables(tmp_path / "other.db")) == ["journal"]


async def test_a_newer_database_is_refused(migrated: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(migrated, tmp_path / "newer.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(ConfigurationError, match="A newer lamella"):
        await open_store(path)


@pytest.mark.parametrize("url", ["postgresql://user:secret@host/db", "sqlite://", "sqlite:///:memory:", "no://"])
async def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_store(url)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+aiosqlite:///"])
async def test_a_path_or_a_url_opens_the_same_file(tmp_path: Path, prefix: str) -> None:
    name = tmp_path / "a 100% odd ü näme.db" if not prefix else tmp_path / "plain.db"
    async with await open_store(f"{prefix}{name}"):
        assert name.exists()
