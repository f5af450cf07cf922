"""Failures of disk and database reach the caller in plain words, and nothing is half done."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event

from lamella.core.errors import StoreFailed
from lamella.core.ids import CountingIds
from lamella.core.records import ConversationChange, PageQuery
from lamella.storage import Store, open_store
from lamella.storage.database import Database
from lamella.storage.sqlite import sqlite_engine, sqlite_url

from .conftest import SqliteBacking
from .examples import (
    ANN,
    admission,
    conversation,
    file,
    minutes,
    new_request,
    new_turn,
    queued_message,
    record,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio

TOLD = {
    "file_texts.data": "the text of file_1",
    "requests.base": "request req_1 (a base is missing)",
    "conversations.session_id": "conversation conv_1 (session odd is missing)",
}
"""What an error says of damage that no single column shows."""


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> SqliteBacking:
    return SqliteBacking.copied(migrated, tmp_path)


def _limited(path: Path, *settings: str) -> Store:
    """A store whose writer has these settings."""
    read, write = (sqlite_engine(sqlite_url(path), writes=writes) for writes in (False, True))

    @event.listens_for(write, "connect")
    def connected(connection: sqlite3.Connection, _entry: object) -> None:
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(setting)
        cursor.close()

    return Store(Database(read, write), CountingIds())


async def _path_of_first(path: Path) -> None:
    async with await open_store(path) as store:
        await store.turns.path(ANN, "conv_1")


async def test_no_word_of_the_database_or_of_a_library_is_told(database: SqliteBacking) -> None:
    async with await open_store(database.path) as store:
        await store.conversations.create_conversation(ANN, conversation())
        with pytest.raises(StoreFailed) as twice:
            await store.conversations.create_conversation(ANN, conversation())
        await store.files.add_file(ANN, file(), "text")
    other = sqlite3.connect(database.path)
    other.execute("UPDATE file_texts SET data = x'ff'")
    other.commit()
    other.close()
    async with await open_store(database.path) as store:
        with pytest.raises(StoreFailed) as unread:
            await store.files.file_text(ANN, file().id)
    assert (twice.value.message, unread.value.message) == (
        "The data contradicts stored data.",
        f"A stored row is damaged: the text of {file().id}.",
    )
    assert str(twice.value.hint) == "Nothing was changed. The server's log has the cause."


async def test_a_full_disk(database: SqliteBacking) -> None:
    async with _limited(database.path, "PRAGMA max_page_count = 60") as store:
        await store.conversations.create_conversation(ANN, conversation())
        before = database.dump()
        with pytest.raises(StoreFailed, match="disk is full") as caught:
            await store.files.add_file(ANN, file(), "x" * 1_000_000)
        assert caught.value.hint
        assert database.dump() == before
        await store.conversations.create_conversation(ANN, conversation("conv_2"))


async def test_a_database_that_another_program_holds(database: SqliteBacking) -> None:
    other = sqlite3.connect(database.path, isolation_level=None)
    async with _limited(database.path, "PRAGMA busy_timeout = 20") as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="locked by another program"):
            await store.conversations.create_conversation(ANN, conversation())
        assert (await store.conversations.conversations(ANN, PageQuery())).data == ()
        other.execute("ROLLBACK")
        await store.conversations.create_conversation(ANN, conversation())
    other.close()


@pytest.mark.parametrize("content", [b"This is a letter. " * 100, b"SQLite format 3\x00" + b"\xff" * 9000])
async def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lamella.db").write_bytes(content)
    with pytest.raises(StoreFailed, match="damaged"):
        await open_store(tmp_path / "lamella.db")
    assert (tmp_path / "lamella.db").read_bytes() == content


async def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="does not exist"):
        await open_store(tmp_path / "missing" / "lamella.db")


async def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="is a folder"):
        await open_store(tmp_path)


async def test_damage_in_the_middle_of_the_file(database: SqliteBacking) -> None:
    await database.fill(50)
    whole = database.path.read_bytes()
    for start in (4096, len(whole) // 2):
        database.path.write_bytes(whole[:start] + b"\xa5" * (len(whole) - start))
        with pytest.raises(StoreFailed, match="damaged"):
            await _path_of_first(database.path)


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("UPDATE messages SET parts = '[{]'", "turns.path"),
        ("""UPDATE messages SET parts = '[{"type":"video"}]'""", "turns.path"),
        ("UPDATE messages SET results = '7' WHERE seq = 1", "turns.path"),
        ("UPDATE messages SET stop_reason = 'odd' WHERE seq = 1", "turns.path"),
        (
            """UPDATE messages SET parts = '[{"type":"tool_result","call_id":"","name":"","content":""}]'""",
            "turns.path",
        ),
        ("UPDATE runs SET status = 'odd'", "turns.path"),
        ("DELETE FROM messages", "turns.path"),
        ("DELETE FROM messages", "turns.turn"),
        ("UPDATE file_texts SET data = x'ff'", "turns.path"),
        ("UPDATE conversations SET tools = 'null'", "conversations.conversation"),
        ("UPDATE requests SET segments = '[1]'", "requests.request"),
        ("UPDATE requests SET head = '[]'", "requests.request"),
        ("UPDATE requests SET base = NULL, shared = 1", "requests.request"),
        ("UPDATE decisions SET kind = 'odd'", "conversations.decisions"),
        ("UPDATE sessions SET opened_by = 'odd'", "sessions.sessions"),
        ("UPDATE sessions SET usage = '[]'", "sessions.sessions"),
        ("UPDATE conversations SET session_id = 'odd'", "snapshots.snapshot"),
        ("UPDATE queued_messages SET payload = '[]'", "queue.queued"),
    ],
)
async def test_a_damaged_row_is_named_and_never_skipped(database: SqliteBacking, statement: str, verb: str) -> None:
    async with await database.open() as store:
        await store.conversations.create_conversation(ANN, conversation())
        await store.files.add_file(ANN, file(), "text")
        await store.turns.begin_turn(ANN, new_turn(files=("file_1",)), minutes(0))
        await store.requests.record_request(ANN, new_request(record()))
        await store.turns.finish_turn(ANN, turn_end(steps=[step()]))
        await store.queue.queue_message(ANN, queued_message())
        await store.conversations.change_conversation(
            ANN, "conv_1", ConversationChange(decisions=[admission()]), minutes(2)
        )
        with sqlite3.connect(database.path) as other:
            other.execute(statement)
        other.close()
        arguments = {
            "turns.turn": ("turn_1",),
            "requests.request": ("req_1",),
            "snapshots.snapshot": ("conv_1", "m-1"),
        }
        subject, name = verb.split(".")
        with pytest.raises(StoreFailed, match="damaged") as caught:
            await getattr(getattr(store, subject), name)(ANN, *arguments.get(verb, ("conv_1",)))
        assert caught.value.hint
        if column := re.match(r"UPDATE (\w+) SET (\w+) =", statement):
            named = ".".join(column.groups())
            assert caught.value.message == f"A stored row is damaged: {TOLD.get(named, named)}."
