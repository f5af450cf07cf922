"""The database of a test as another program sees it: the file of a data folder, or that of `--database postgresql`."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

URL = "LAMELLA_DATABASE_URL"


def place(data: Path) -> str | Path:
    """What `open_store` opens."""
    return os.environ.get(URL) or data / "lamella.db"


def rows(data: Path, query: str, **values: str) -> list[dict[str, Any]]:
    """What a query gives, with values for `:name` in it."""
    if url := os.environ.get(URL):
        engine = create_engine(url)
        with engine.connect() as connection:
            found = [dict(row) for row in connection.execute(text(query), values).mappings()]
        engine.dispose()
        return found
    with closing(sqlite3.connect(data / "lamella.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query, values)]


async def change(data: Path, script: str) -> None:
    """Run statements, in a thread, for the server may be writing."""
    await asyncio.to_thread(_change, data, script)


def _change(data: Path, script: str) -> None:
    if url := os.environ.get(URL):
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(script)
        engine.dispose()
        return
    with closing(sqlite3.connect(data / "lamella.db")) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(script)


async def emptied(data: Path) -> None:
    """Leave nothing in a database of `--database postgresql`: what opens it next has it alone, as a folder."""
    if URL in os.environ:
        await change(data, "DROP SCHEMA public CASCADE; CREATE SCHEMA public;")


def refusing(event: str, table: str) -> str:
    """A script after which the disk is full whenever `event` happens in a table, such as `INSERT`; see `HEALED`."""
    if URL in os.environ:
        return f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'kein Platz' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER refuse BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    full = "SELECT RAISE(ABORT, 'database or disk is full')"
    return f"CREATE TRIGGER refuse BEFORE {event} ON {table} BEGIN {full}; END;"


def healed() -> str:
    """The script that takes back `refusing`."""
    return "DROP FUNCTION refuse CASCADE" if URL in os.environ else "DROP TRIGGER refuse;"


def losing(table: str) -> str:
    """A script after which a table is not there any more."""
    lenient = "" if URL in os.environ else "PRAGMA legacy_alter_table = ON; "
    return f"{lenient}ALTER TABLE {table} RENAME TO lost;"


def binary(data: bytes) -> str:
    """Bytes in a statement."""
    return rf"'\x{data.hex()}'::bytea" if URL in os.environ else f"x'{data.hex()}'"
