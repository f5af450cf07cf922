from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command, op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.core.knowledge import KnowledgeQuery, Shelf
from lamella.core.recall import RecallQuery
from lamella.core.records import Caller
from lamella.search.lexical import SPACE
from lamella.storage import Store, open_store
from lamella.storage.migrate import BASELINE, HEAD, migrate
from lamella.storage.migrations.upgrade import config
from lamella.storage.recall.store import RecallIndex
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.tables import metadata
from postgres import PostgresServer

from .conftest import PostgresBacking

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
    """The rows of every table that has any, but for when they came, and for the id of the database."""
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    rows.pop("deployment", None)
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
        # Keys, defaults, deletion rules and conditions of indexes are compared by their statements, above.
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    with engine.connect() as connection:
        assert differences(connection) == []
    engine.dispose()


OF_PROCESSES = ("processes", "process_beats", "held_conversations", "signals")
SERVERS_OWN = ("users", "groups", "cache_entries", "provider_limits", "deployment", "recall_marks", *OF_PROCESSES)
"""A user is an owner, a group is the server's, and what a provider has cached belongs to the account there. Processes
serve everybody."""


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_tables_have_a_form_for_postgresql(table: Table) -> None:
    dialect = make_url("postgresql://").get_dialect()()
    assert str(CreateTable(table).compile(dialect=dialect))
    for index in table.indexes:
        assert str(CreateIndex(index).compile(dialect=dialect))
    assert "owner" in table.columns or table.name in SERVERS_OWN


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
    assert "already exists" in "".join(capsys.readouterr()), "the log has the cause, wherever it is written"
    assert list(_tables(tmp_path / "other.db")) == ["journal"]


SHARED = "0052"
"""The first revision of a database that several processes serve."""

NEW_TABLE = re.compile(r"CREATE TABLE (\w+)")
INDEX = re.compile(r"CREATE (UNIQUE )?INDEX \w+ ON (\w+)")
COLUMN = re.compile(r"ALTER TABLE \w+ ADD COLUMN \w+ (.+)")


def _statements(upgrade: Callable[[], None]) -> list[str]:
    """What a revision sends to PostgreSQL. One that reads or changes rows can't be asked."""
    written = StringIO()
    options = {"as_sql": True, "output_buffer": written, "target_metadata": metadata}
    context = MigrationContext.configure(dialect_name="postgresql", opts=options)
    with Operations.context(context):
        upgrade()
    return [" ".join(one.split()) for one in written.getvalue().split(";\n") if one.strip()]


def _more_than_added(statements: Sequence[str]) -> list[str]:
    """The statements under which a process that knows nothing of them may fail."""
    made: set[str] = set()
    found = []
    for statement in statements:
        if table := NEW_TABLE.match(statement):
            made.add(table[1])
        elif index := INDEX.match(statement):
            if index[1] and index[2] not in made:  # what an older process writes may be there twice
                found.append(statement)
        elif not (column := COLUMN.match(statement)) or ("NOT NULL" in column[1] and "DEFAULT" not in column[1]):
            found.append(statement)
    return found


def _since_several_processes() -> list[Any]:
    return [
        pytest.param(one.module, id=one.revision)
        for one in ScriptDirectory.from_config(config()).walk_revisions()
        if one.revision >= SHARED
    ]


@pytest.mark.parametrize("revision", _since_several_processes())
def test_a_revision_only_adds_on_postgresql_or_says_what_it_takes(revision: Any) -> None:
    """Old processes serve on while it runs, and until they are replaced. Which revision was released last needs not be
    known: the rule holds for all since several processes serve a database.
    """
    if "contracts" in vars(revision):
        assert len(revision.contracts) > len("it takes something"), "say what, and what becomes of older processes"
        return
    assert _more_than_added(_statements(revision.upgrade)) == []


@pytest.mark.parametrize(
    ("upgrade", "adds"),
    [
        (lambda: op.add_column("turns", sa.Column("mood", sa.Text())), True),
        (lambda: op.add_column("turns", sa.Column("mood", sa.Text(), nullable=False, server_default="")), True),
        (lambda: op.create_index("ix_turns_mood", "turns", ["status"]), True),
        (lambda: op.create_table("moods", sa.Column("id", sa.Text(), primary_key=True)), True),
        (lambda: op.add_column("turns", sa.Column("mood", sa.Text(), nullable=False)), False),
        (lambda: op.create_index("ix_turns_mood", "turns", ["status"], unique=True), False),
        (lambda: op.drop_column("turns", "status"), False),
        (lambda: op.alter_column("turns", "status", type_=sa.Integer()), False),
        (lambda: op.alter_column("turns", "status", new_column_name="state"), False),
        (lambda: op.rename_table("turns", "answers"), False),
        (lambda: op.drop_index("ix_turns_mood"), False),
        (lambda: op.create_check_constraint("short", "turns", "length(status) < 3"), False),
        (lambda: op.execute("UPDATE turns SET status = 'ended'"), False),
    ],
)
def test_what_adds_and_what_does_more(upgrade: Callable[[], None], adds: bool) -> None:
    assert (_more_than_added(_statements(upgrade)) == []) is adds


async def _older(path: Path, revision: str, *statements: str) -> None:
    """A database as an older version left it."""
    engine = sqlite_engine(sqlite_url(path), writes=True, foreign_keys=False)
    with engine.begin() as connection:
        command.upgrade(config(connection), revision)
    engine.dispose()
    with sqlite3.connect(path) as older:
        for statement in statements:
            older.execute(statement)
    older.close()


NOON = "2026-03-01T12:00:00.000000+00:00"
CONVERSATION = (
    "INSERT INTO conversations (id, owner, title, model, layout, marker_policy, system_prompt, tools, created_at, "
    "updated_at, session_id) VALUES ('conv_1', 'user_ann', 'Before', 'm-1', 'lamella', 'planner', 'S', '[]', "
    f"'{NOON}', '{NOON}', 'sess_1')"
)


SESSION = (
    "INSERT INTO sessions (id, owner, conversation_id, number, inherits, opened_at, opened_by) VALUES "
    f"('sess_1', 'user_ann', 'conv_1', 1, 0, '{NOON}', 'created')"
)


async def test_what_the_baseline_stored_is_there_after_the_upgrade(tmp_path: Path) -> None:
    path, ann = tmp_path / "older.db", Caller("user_ann")
    await _older(
        path,
        BASELINE,
        CONVERSATION,
        SESSION,
        "INSERT INTO found_documents (id, owner, conversation_id, document, title, media_type, size, tokens, digest, "
        "data, created_at) VALUES ('doc_1', 'user_ann', 'conv_1', 1, 'Page', 'text/plain', 4, 1, 'd', x'74657874', "
        f"'{NOON}')",
    )
    before = _rows(path)
    async with await open_store(path) as store:
        found = await store.conversations.conversation(ann, "conv_1")
        assert (found.title, found.session_id) == ("Before", "sess_1")
        assert (await store.documents.document(ann, "doc_1")).text == "text"
    after = _rows(path)
    assert after.pop("alembic_version") == [(HEAD,)]
    before.pop("alembic_version")
    before = {name: rows for name, rows in before.items() if "_words" not in name}  # the indexes are gone
    assert after.pop("found_documents") == [(*before.pop("found_documents")[0], "[]")]
    [then] = before.pop("conversations")
    now = tuple(str(value).encode() if at in (6, 7) else value for at, value in enumerate(then))  # prompt and tools
    assert after.pop("conversations") == [(*now, "[]", 0, "{}")]
    assert after == before


TURN = (
    "INSERT INTO turns (id, owner, conversation_id, status, started_at, input_tokens, cache_read_tokens, "
    "cache_write_5m_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, usage_estimated, input_estimated) "
    f"VALUES ('turn_1', 'user_ann', 'conv_1', 'finished', '{NOON}', 0, 0, 0, 0, 0, 0, 0, 0)"
)
REQUEST = (
    "INSERT INTO requests (id, owner, conversation_id, turn_id, step, purpose, model, layout, marker_policy, at, head, "
    "letters, shared, depth, length, segments, zones, markers, notes, protocol, local_tokens, estimate, budget, "
    "predicted_read, predicted_written) VALUES ('req_1', 'user_ann', 'conv_1', 'turn_1', 0, 'chat', 'm', 'l', 'p', "
    f"'{NOON}', '{{}}', 'S', 0, 0, 0, '[]', '[]', '[]', '[]', 'anthropic', 1, 1, 1, 0, 0)"
)


async def test_requests_and_titles_of_before_count_as_made_from_the_bases_of_their_conversation(tmp_path: Path) -> None:
    path, rich = tmp_path / "older.db", json.dumps({"documents": [{"knowledge_base_id": "kb_found"}]})
    results = json.dumps([{"type": "result", "rich": rich}])
    await _older(
        path,
        BASELINE,
        CONVERSATION,
        "UPDATE conversations SET titled_by = 'model'",
        CONVERSATION.replace("conv_1", "conv_2"),
        SESSION,
        TURN,
        REQUEST,
        "INSERT INTO messages (id, owner, turn_id, seq, role, parts, results, tokens, made_from, session_id) VALUES "
        f"('msg_1', 'user_ann', 'turn_1', 1, 'assistant', '[]', '{results}', 1, '[\"kb_read\"]', 'sess_1')",
    )
    await migrate(path)
    with sqlite3.connect(path) as connection:
        made = connection.execute("SELECT made_from FROM requests").fetchall()
        titled = connection.execute("SELECT title_made_from FROM conversations ORDER BY id").fetchall()
    connection.close()
    assert made == [('["kb_found","kb_read"]',)]
    assert titled == [('["kb_found","kb_read"]',), ("[]",)]


async def test_notices_of_before_that_may_quote_count_as_made_from_the_bases_of_their_conversation(
    tmp_path: Path,
) -> None:
    path = tmp_path / "older.db"
    told = [
        ("note_1", "command", "resume", "{}"),
        ("note_2", "command", "status", "{}"),
        ("note_3", "command", "new", '{"error": {"message": "…"}}'),
        ("note_4", "not_compacted", "", "{}"),
        ("note_5", "pruned", "", "{}"),
    ]
    noticed = [
        "INSERT INTO notices (id, owner, conversation_id, kind, name, argument, text, data, at) VALUES "
        f"('{id}', 'user_ann', 'conv_1', '{kind}', '{name}', '', '', '{data}', '{NOON}')"
        for id, kind, name, data in told
    ]
    read = "UPDATE sessions SET made_from = '[\"kb_read\"]'"
    await _older(path, BASELINE, CONVERSATION, SESSION, read, *noticed)
    await migrate(path)
    with sqlite3.connect(path) as connection:
        made = dict(connection.execute("SELECT id, made_from FROM notices").fetchall())
    connection.close()
    assert {id for id, bases in made.items() if bases == '["kb_read"]'} == {"note_1", "note_3", "note_4"}
    assert {id for id, bases in made.items() if bases == "[]"} == {"note_2", "note_5"}


async def test_a_database_from_before_the_baseline_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "older.db"
    await _older(path, BASELINE, CONVERSATION, "UPDATE alembic_version SET version_num = '0034'")
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"revision 0034, this one begins with 0035") as caught:
        await open_store(path)
    assert "Nothing was changed." in str(caught.value.hint)
    assert path.read_bytes() == before


async def test_a_newer_database_is_refused(migrated: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(migrated, tmp_path / "newer.db"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(ConfigurationError, match="A newer lamella"):
        await open_store(path)


@pytest.mark.parametrize(
    "url", ["postgresql://user:secret@host/", "mysql://user:secret@host/db", "sqlite://", "sqlite:///:memory:", "no://"]
)
async def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_store(url)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+aiosqlite:///"])
async def test_a_path_or_a_url_opens_the_same_file(tmp_path: Path, prefix: str) -> None:
    name = tmp_path / "a 100% odd ü näme.db" if not prefix else tmp_path / "plain.db"
    async with await open_store(f"{prefix}{name}"):
        assert name.exists()


FOUND = (
    TURN,
    f"UPDATE turns SET finished_at = '{NOON}'",
    "INSERT INTO messages (id, owner, turn_id, seq, role, parts, tokens, sent_at, timezone, session_id) VALUES "
    "('msg_1', 'user_ann', 'turn_1', 0, 'user', '[{\"type\":\"text\",\"text\":\"The old lighthouse\"}]', 3, "
    f"'{NOON}', 'UTC', 'sess_1')",
    "INSERT INTO recall_turns (turn_id, owner) VALUES ('turn_1', 'user_ann')",
    'INSERT INTO recall_entries (id, owner, conversation_id, source_id, call_id, speaker, name, at, start, "end", '
    f"length) VALUES (1, 'user_ann', 'conv_1', 'msg_1', '', 'user', '', '{NOON}', 0, 18, 3)",
    "INSERT INTO knowledge_shelves (number, owner, name) VALUES (41, 'user_ann', 'kb_1')",
    "INSERT INTO knowledge_documents (id, owner, shelf, name, media_type, size, digest, upload, state, tokens, "
    "version, found, revision, passages, embedded, created_at, updated_at, removed) VALUES ('doc_1', 'user_ann', 41, "
    f"'a.txt', 'text/plain', 9, 'd', '', 'ready', 9, 1, 1, 1, 1, 0, '{NOON}', '{NOON}', false)",
    'INSERT INTO knowledge_passages (id, owner, document_id, version, position, start, "end", headings, length, '
    "tokens, digest, text) VALUES (1, 'user_ann', 'doc_1', 1, 0, 0, 20, '[]', 3, 3, 'd', 'A zeppelin at noon')",
)
"""A message and a document of an earlier version, whose words are somewhere else."""

WORDS = {"recall": ("0ab", ("the", "old", "lighthous")), "knowledge": ("15·", ("a", "zeppelin", "at", "noon"))}
"""The tag of an owner, and of a shelf, and the terms of a passage."""


async def check_found(store: Store) -> None:
    recall = RecallQuery(("lighthous",), SPACE, None)
    found = await RecallIndex(store.database).search(Caller("user_ann"), recall)
    assert [hit.source.content for hit in found.hits] == ["The old lighthouse"]
    asked = KnowledgeQuery(("zeppelin", "noon"), SPACE, None, (Shelf("user_ann", "kb_1"),))
    [hit] = await store.knowledge.search_knowledge(asked)
    assert (hit.passage.text, hit.words > 0) == ("A zeppelin at noon", True)


@pytest.mark.parametrize("tag", ["0ab", "0123456789ab·"])
async def test_what_an_earlier_version_indexed_is_found(tmp_path: Path, tag: str) -> None:
    tagged = {
        kind: " ".join((tag if kind == "recall" else own) + t for t in terms) for kind, (own, terms) in WORDS.items()
    }
    words = [f"INSERT INTO {kind}_words (rowid, terms) VALUES (1, '{text}')" for kind, text in tagged.items()]
    await _older(tmp_path / "older.db", "0054", CONVERSATION, SESSION, *FOUND, *words)
    async with await open_store(tmp_path / "older.db") as store:
        await check_found(store)


async def test_what_a_process_of_an_earlier_version_indexes_is_found(postgres: PostgresServer) -> None:
    backing = PostgresBacking(postgres, postgres.copied())
    conversation = CONVERSATION.replace("'S', '[]'", "'S'::bytea, '[]'::bytea")
    session, turn = SESSION.replace(" 0, ", " false, "), TURN.replace("0, 0)", "false, false)")
    async with await backing.open() as store:
        for statement in (conversation, session, turn, *FOUND[1:]):
            backing.run(statement.replace(":", r"\:") if "parts" in statement else statement)
        for kind, (tag, terms) in WORDS.items():
            array = "{" + ",".join(f"{tag}{term}" for term in terms) + "}"
            backing.run(f'CREATE TABLE {kind}_words (id BIGINT PRIMARY KEY, terms TEXT[] COLLATE "C")')
            await store.retention.take_over_words()
            backing.run(f"INSERT INTO {kind}_words VALUES (1, '{array}')")
        for _ in range(2):
            await store.retention.take_over_words()
        await check_found(store)
        assert backing.run("SELECT count(*) FROM postings") == [(2,)]
