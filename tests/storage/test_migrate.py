from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.core.messages import TurnStatus
from lamella.core.records import Caller, TurnEnd
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.storage import open_store
from lamella.storage.migrate import HEAD, migrate
from lamella.storage.migrations.upgrade import config
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.tables import metadata

pytestmark = pytest.mark.anyio


def _tables(path: Path) -> dict[str, list[str]]:
    """The statements that made tables and indexes, by name, as sorted lines.

    The order of clauses does not matter, nor that a table which was renamed has its name in quotes.
    """
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sorted(line.strip(" \t,").replace('"', "") for line in sql.splitlines()) for name, sql in found}


def _rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every table that has any, but for when they came."""
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    connection.close()
    today = datetime.now(UTC).date().isoformat()[:8]
    return {
        name: [tuple(value for value in row if not str(value).startswith(today)) for row in found]
        for name, found in rows.items()
        if found
    }


async def test_a_new_database_is_what_the_revisions_make(tmp_path: Path) -> None:
    await _older(tmp_path / "upgraded.db", "head")
    await migrate(tmp_path / "new.db")
    upgraded, new = _tables(tmp_path / "upgraded.db"), _tables(tmp_path / "new.db")
    del upgraded["alembic_version"], new["alembic_version"]
    assert new == upgraded
    assert _rows(tmp_path / "new.db") == _rows(tmp_path / "upgraded.db")
    await migrate(tmp_path / "new.db")


async def test_the_revisions_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    await _older(tmp_path / "migrated.db", "head")
    engine = sqlite_engine(sqlite_url(tmp_path / "migrated.db"), writes=False)

    def differences(connection: Connection) -> list[object]:
        # Full-text indexes and their own tables, keys, defaults, deletion rules and conditions of indexes are
        # compared by their statements, above.
        words = ("recall_words", "recall_postings", "knowledge_words", "knowledge_postings")
        named = {"compare_type": True, "include_name": lambda name, *_: not str(name).startswith(words)}
        context = MigrationContext.configure(connection, opts=named)
        return list(compare_metadata(context, metadata))

    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_tables_have_a_form_for_postgresql(table: Table) -> None:
    dialect = make_url("postgresql://").get_dialect()()
    assert str(CreateTable(table).compile(dialect=dialect))
    for index in table.indexes:
        assert str(CreateIndex(index).compile(dialect=dialect))
    # A user is an owner, a group is the server's, and what a provider has cached belongs to the account there.
    assert "owner" in table.columns or table.name in ("users", "groups", "cache_entries", "provider_limits")


def test_the_newest_revision_is_the_one_that_is_asked_for() -> None:
    assert ScriptDirectory.from_config(config()).get_current_head() == HEAD


@pytest.mark.parametrize("new", [True, False])
def test_a_database_that_is_new_or_up_to_date_does_not_load_alembic(migrated: Path, tmp_path: Path, new: bool) -> None:
    path = tmp_path / "new.db" if new else migrated
    program = (
        "import asyncio, sys; from lamella.storage import open_store; "
        f"asyncio.run(asyncio.wait_for(open_store({str(path)!r}), 9)); print('alembic' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


async def test_two_that_upgrade_a_database_at_once_both_get_it(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    await asyncio.gather(*(migrate(tmp_path / "new.db") for _ in range(3)))
    await migrate(tmp_path / "new.db")


async def test_a_revision_that_fails_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE journal (something TEXT)")
    connection.close()
    with pytest.raises(StoreFailed, match=r"^The database failed\.$"):
        await migrate(tmp_path / "other.db")
    assert "already exists" in capsys.readouterr().out, "the log has the cause"
    assert list(_tables(tmp_path / "other.db")) == ["journal"]


async def _older(path: Path, revision: str, *statements: str) -> None:
    """A database as an older version left it."""
    engine = sqlite_engine(sqlite_url(path), writes=True, foreign_keys=False)
    async with engine.begin() as connection:
        await connection.run_sync(lambda opened: command.upgrade(config(opened), revision))
    await engine.dispose()
    with sqlite3.connect(path) as older:
        for statement in statements:
            older.execute(statement)
    older.close()


NOON = "2026-03-01T12:00:00.000000+00:00"
CONVERSATION = (
    "INSERT INTO conversations (id, owner, title, model, layout, marker_policy, system_prompt, tools, created_at, "
    f"updated_at, head) VALUES ('conv_{{0}}', 'user_ann', 'Before', 'm-1', 'lamella', 'planner', 'S', '[]', '{NOON}', "
    f"'{NOON}', {{1}})"
)


async def test_what_an_older_version_stored_is_there_after_the_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "older.db"
    await _older(
        path,
        "0001",
        CONVERSATION.format(1, "NULL"),
        "INSERT INTO files (id, owner, name, media_type, size, status, tokens, created_at) VALUES "
        f"('file_1', 'user_ann', 'a.txt', 'text/plain', 1, 'ready', 1, '{NOON}')",
    )
    async with await open_store(path) as store:
        found = await store.conversation(Caller("user_ann"), "conv_1")
        assert (found.title, found.agent_id, found.project_id, found.system_prompt_version) == ("Before", None, None, 0)
        assert (await store.file(Caller("user_ann"), "file_1")).width is None


async def test_conversations_from_before_there_were_sessions_are_in_their_first(tmp_path: Path) -> None:
    path, ann = tmp_path / "older.db", Caller("user_ann")
    turn = "INSERT INTO turns (id, owner, conversation_id, parent_id, run_id, model, status, started_at) VALUES "
    message = "INSERT INTO messages (id, owner, turn_id, seq, role, parts, tokens, sent_at, timezone) VALUES "
    request = (
        "INSERT INTO requests (id, owner, conversation_id, turn_id, step, purpose, model, layout, marker_policy, at, "
        "head, letters, shared, depth, length, segments, zones, markers, notes, protocol, local_tokens, estimate, "
        "budget, predicted_read, predicted_written, input_tokens, cache_read_tokens, cache_write_5m_tokens, "
        "cache_write_1h_tokens, output_tokens, reasoning_tokens) VALUES ('{}', 'user_ann', 'conv_1', 'turn_1', 0, '{}'"
        f", 'm-1', 'lamella', 'planner', '{NOON}', '{{{{}}}}', '', 0, 0, 0, '[]', '[]', '[]', '[]', 'openai', 1, 1, 9, "
        "0, 0, 10, 6, 2, 1, 5, 3)"
    )
    user = "'user', '[{\"type\":\"text\",\"text\":\"Hello?\"}]', 4, '2026-03-01T13:00:00+01:00', 'Europe/Berlin'"
    await _older(
        path,
        "0002",
        CONVERSATION.format(1, "'turn_2'"),
        CONVERSATION.format(2, "NULL"),
        turn + f"('turn_1', 'user_ann', 'conv_1', NULL, 'run_1', 'm-1', 'finished', '{NOON}')",
        turn + f"('turn_2', 'user_ann', 'conv_1', 'turn_1', 'run_2', 'm-1', 'running', '{NOON}')",
        message + f"('msg_1', 'user_ann', 'turn_1', 0, {user})",
        message + f"('msg_2', 'user_ann', 'turn_2', 0, {user})",
        *(request.format(id, purpose) for id, purpose in (("req_1", "chat"), ("req_2", "chat"), ("req_3", "digest"))),
    )
    async with await open_store(path) as store:
        billed = Usage(10, 6, 2, 1, 5, 3)
        first = Session("sess_1", "conv_1", 1, datetime.fromisoformat(NOON), SessionCause.CREATED)
        [found] = await store.sessions(ann, "conv_1")
        assert found == replace(first, usage={"chat": billed + billed, "digest": billed})
        assert [session.id for session in await store.sessions(ann, "conv_2")] == ["sess_2"]
        beginning = await store.beginning(ann, "conv_1", "m-1")
        assert (beginning.session, [turn.id for turn in beginning.path]) == (found, ["turn_1", "turn_2"])
        await store.finish_turn(ann, TurnEnd("turn_2", TurnStatus.INTERRUPTED, (), datetime.fromisoformat(NOON)))
    with sqlite3.connect(path) as upgraded:
        assert upgraded.execute("SELECT DISTINCT session_id FROM messages").fetchall() == [("sess_1",)]
        assert upgraded.execute("PRAGMA foreign_key_check").fetchall() == []
    upgraded.close()


async def test_files_keep_the_numbers_that_they_had(tmp_path: Path) -> None:
    """Also one that had several; it keeps the last one for what comes."""
    path, ann = tmp_path / "older.db", Caller("user_ann")
    turn = "INSERT INTO turns (id, owner, conversation_id, status, started_at) VALUES "
    message = "INSERT INTO messages (id, owner, turn_id, seq, role, parts, tokens, session_id) VALUES "
    attached = "INSERT INTO attachments (message_id, position, owner, file_id, document) VALUES "
    file = "INSERT INTO files (id, owner, name, media_type, size, status, tokens, created_at) VALUES "
    await _older(
        path,
        "0022",
        CONVERSATION.format(1, "NULL").replace("head)", "head, session_id, next_document)")[:-1] + ", 'sess_1', 5)",
        "INSERT INTO sessions (id, owner, conversation_id, number, inherits, opened_at, opened_by) VALUES "
        f"('sess_1', 'user_ann', 'conv_1', 1, 0, '{NOON}', 'created')",
        *(file + f"('file_{n}', 'user_ann', 'a', 'text/plain', 1, 'ready', 1, '{NOON}')" for n in (1, 2, 3)),
        *(turn + f"('turn_{n}', 'user_ann', 'conv_1', 'finished', '{NOON}')" for n in (1, 2)),
        *(message + f"('msg_{n}', 'user_ann', 'turn_{n}', 0, 'user', '[]', 1, 'sess_1')" for n in (1, 2)),
        *(attached + f"('msg_{n}', 0, 'user_ann', 'file_1', {n})" for n in (1, 2)),
        attached + "('msg_2', 1, 'user_ann', 'file_2', 4)",
        "INSERT INTO project_documents (conversation_id, file_id, owner, document) VALUES "
        "('conv_1', 'file_2', 'user_ann', 3)",
    )
    async with await open_store(path) as store:
        found = await store.attachments(ann, "conv_1", ("file_1", "file_2", "file_3"))
        assert [(one.document, one.use) for one in found] == [(2, 1), (3, 1), (5, 0)]
        assert (await store.attached(ann, "conv_1", "file_1")).document == 2
    with sqlite3.connect(path) as upgraded:
        numbers = "SELECT message_id, document, use FROM attachments ORDER BY message_id, position"
        assert upgraded.execute(numbers).fetchall() == [("msg_1", 1, 0), ("msg_2", 2, 0), ("msg_2", 4, 0)]
        assert upgraded.execute("PRAGMA foreign_key_check").fetchall() == []
    upgraded.close()


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
