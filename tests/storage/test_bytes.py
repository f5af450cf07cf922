"""What is removed is in no byte of the data folder, and its room is given back to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from typer.testing import CliRunner

from lamella.cli.main import cli
from lamella.cli.vacuum import vacuum_command
from lamella.core.errors import ConfigurationError
from lamella.core.records import Expired, JournalEntry
from lamella.storage import open_store
from lamella.storage.folder import FolderLock
from lamella.storage.store import Store

from .examples import ANN, conversation, minutes, new_turn

pytestmark = pytest.mark.anyio

MARKER = b"ZWETSCHGENMUS"
BATCHES = 40
"""Of 50 kB each: enough for pages of their own, and for free pages between others."""


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def found(folder: Path) -> list[str]:
    """The files of a folder that hold the marker."""
    return sorted(path.name for path in folder.iterdir() if MARKER in path.read_bytes())


async def written(store: Store) -> str:
    """A turn with much in its journal; gives its id."""
    await store.conversations.create_conversation(ANN, conversation())
    turn = await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    packets = [
        JournalEntry(ANN.user_id, turn.id, n, n, b'{"text": "%b"}' % (MARKER * 4_000)) for n in range(1, BATCHES + 1)
    ]
    await store.turns.append_journal(packets)
    return turn.id


async def removed(folder: Path, change: Callable[[Store], None] | None = None) -> None:
    """Write much, remove it, and scrub, with a store that a test may change before."""
    async with await open_store(folder / "lamella.db") as store:
        if change is not None:
            change(store)
        turn = await written(store)
        await store.database.scrub()
        assert found(folder) == ["lamella.db"]
        await store.retention.expire_packets([turn], Expired(minutes(5), 1))
        assert await store.database.scrub()


async def test_no_byte_of_what_was_removed_is_left_and_its_room_is_given_back(tmp_path: Path) -> None:
    await removed(tmp_path)
    assert found(tmp_path) == []
    path = tmp_path / "lamella.db"
    assert (pragma(path, "auto_vacuum"), pragma(path, "freelist_count")) == (2, 0)
    assert path.stat().st_size < 1_000_000 < BATCHES * 50_000


def made_by_an_earlier_version(path: Path) -> None:
    """A database whose free pages stay in the file."""
    with closing(sqlite3.connect(path)) as older:
        older.execute("PRAGMA journal_mode = WAL")
        older.execute("CREATE TABLE before (a)")
        older.execute("DROP TABLE before")


@pytest.mark.parametrize(("secure", "left"), [("ON", []), ("OFF", ["lamella.db"])])
async def test_free_pages_are_overwritten_and_without_the_pragma_they_are_not(
    tmp_path: Path, secure: str, left: list[str]
) -> None:
    """The check sees what it looks for: it fails when `secure_delete` is off."""

    def set_to(store: Store) -> None:
        def begun(connection: Connection) -> None:
            connection.exec_driver_sql(f"PRAGMA secure_delete = {secure}")

        event.listen(store.database._write, "begin", begun)

    made_by_an_earlier_version(tmp_path / "lamella.db")
    await removed(tmp_path, set_to if secure == "OFF" else None)
    assert pragma(tmp_path / "lamella.db", "freelist_count") > 100
    assert found(tmp_path) == left


async def test_a_folder_of_an_earlier_version_is_written_anew_once(tmp_path: Path) -> None:
    path = tmp_path / "lamella.db"
    made_by_an_earlier_version(path)
    await removed(tmp_path)
    assert (pragma(path, "auto_vacuum"), pragma(path, "freelist_count") > 100) == (0, True)
    assert found(tmp_path) == []
    before = path.stat().st_size
    done = CliRunner().invoke(cli, ["vacuum", "--data", str(tmp_path)])
    assert done.output == f"{path}: {before:,} bytes before, {path.stat().st_size:,} now.\n"
    assert path.stat().st_size < before / 2
    assert (pragma(path, "auto_vacuum"), pragma(path, "freelist_count")) == (2, 0)
    async with await open_store(path) as store:
        assert (await store.conversations.conversation(ANN, "conv_1")).id == "conv_1"


def test_a_folder_that_is_served_or_empty_is_not_written_anew(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no database"):
        vacuum_command(tmp_path)
    (tmp_path / "lamella.db").touch()
    lock = FolderLock(tmp_path)
    with lock, pytest.raises(ConfigurationError, match="serves this data folder"):
        vacuum_command(tmp_path)
