"""The rows that every verb writes, byte for byte, and what is read from them.

`stored.json` has the rows that are written now, `stored_0055.json` those of before the dictionary of prompts and tools,
which PostgreSQL still gets, `stored_0053.json` those of before long values were deflated (revision 0054). A folder of
then opens now: the records that are read from each are the same. A change here needs a revision that rewrites
databases. `LAMELLA_WRITE_STORED=1` writes the file anew.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.core.access import (
    AuditKind,
    BaseContent,
    DescribedBy,
    FormField,
    GrantLevel,
    Group,
    Key,
    ReaderHistory,
    RestrictedLevel,
    RestrictedUse,
    Role,
    Scope,
    Subject,
    ToldPassage,
    User,
)
from lamella.core.agents import Agent, DynamicContext
from lamella.core.caching import CacheEntry, CacheVerdict, Diagnosis, Ttl
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.knowledge import INGEST, Document, Shelf
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.records import (
    BeginCondition,
    ConversationChange,
    NewJob,
    NewRun,
    PageQuery,
    Pinned,
    PinnedProject,
    Place,
    ProjectContent,
    ProviderLimit,
    RequestEnd,
    RunEnd,
    SideResponse,
    StoredResponse,
    SystemPrompt,
    TurnEnd,
)
from lamella.core.sessions import CarriedSummary
from lamella.storage import Store
from lamella.storage.cached import SqlCacheEntries
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.tables import metadata

from .conftest import SqliteBacking
from .examples import (
    ANN,
    BERLIN,
    NOON,
    SEARCH,
    USAGE,
    admission,
    agent,
    began,
    conversation,
    entry,
    file,
    found_document,
    line,
    minutes,
    new_job,
    new_request,
    new_turn,
    notice,
    observed,
    picture,
    queued_message,
    record,
    replacement,
    session_return,
    session_step,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio

FILE = Path(__file__).with_name("stored.json")
BEFORE = Path(__file__).with_name("stored_0053.json")
EARLIER = Path(__file__).with_name("stored_0055.json")
WAS_TEXT = {
    ("requests", "head"),
    ("requests", "segments"),
    ("requests", "zones"),
    ("requests", "markers"),
    ("requests", "notes"),
    ("requests", "absent"),
    ("pinned", "data"),
    ("conversations", "system_prompt"),
    ("conversations", "tools"),
}
"""Columns of bytes that were text in `BEFORE`."""

ALL = PageQuery(100, None, "asc")
ERROR = {"code": "rate_limited", "message": "Too many.", "hint": None}


async def _library(store: Store) -> None:
    shown, image = picture("file_2")
    await store.directory.add_user(User("user_ann", "Ann", Role.ADMIN, NOON), _key("key_1"))
    await store.files.add_file(ANN, file(), "A long report.")
    await store.files.add_file(ANN, shown, None, image)
    await store.files.add_file(ANN, file("file_3", "There is no text in it."), None)
    await store.library.add_agent(ANN, agent(), NOON)
    await store.library.add_agent(ANN, Agent("agent_2", "Plain", ""), NOON)
    await store.library.change_agent(ANN, "agent_2", lambda one: replace(one, thinking_effort="high"), minutes(1))
    await store.library.add_project(ANN, "proj_1", ProjectContent("Book", "Be brief.", ("file_1", "file_2")), NOON)
    await store.library.change_project(ANN, "proj_1", lambda one: replace(one, name="The book"), minutes(2))
    await store.library.add_system_prompt(ANN, "You are kind.", "kinder", NOON.astimezone(BERLIN))


def _key(id: str) -> Key:
    scopes = frozenset({Scope.WRITE, Scope.READ})
    return Key(id, "user_ann", "laptop", "abcd", b"\x01" * 32, scopes, "user_ann", NOON, minutes(90))


async def _talk(store: Store) -> None:
    first = replace(conversation(), agent_id="agent_1", project_id="proj_1", thinking_effort="low")
    await store.conversations.create_conversation(ANN, first)
    await store.snapshots.agent_and_project(ANN, "conv_1", "agent_1")
    await store.documents.keep_document(ANN, "conv_1", replace(found_document(), made_from=("kb_1",)), 3, minutes(1))
    pinned = Pinned("S", (SEARCH,), agent(), PinnedProject("proj_1", "Book", "", 1, ("file_1",)))
    dynamic = DynamicContext("It is noon.", ("the clock",), made_from=("kb_1",))
    two = replace(new_turn(files=("file_1", "file_2")), dynamic=dynamic)
    two = replace(two, runs=(*two.runs, NewRun("run_other", "m-2")))
    await store.turns.begin_turn(ANN, two, minutes(0), (), BeginCondition(Place(), Place(), pinned=pinned))
    await store.turns.append_journal([entry(1, 2)])
    await store.requests.record_request(ANN, replace(new_request(record()), decisions=[admission()]))
    longer = record("req_2", step=1, numbers=(1, 2, 3), at=minutes(1))
    await store.requests.record_request(ANN, new_request(longer, "req_1", 2))
    aside = replace(record("req_3", purpose="summary", at=minutes(2)), run_id=None, thinking_effort="high")
    await store.requests.record_request(ANN, replace(new_request(aside), pinned=pinned))
    said = SideResponse("A summary.", "end_turn")
    await store.requests.end_request(ANN, RequestEnd("req_3", replace(USAGE, estimated=True), 0.5, said=said))
    diagnosis = Diagnosis("msg_0", CacheVerdict.CHANGED, "tools_changed", 12)
    ended = RequestEnd("req_1", USAGE, 0.25, "request-id", None, 2, "answer-1", diagnosis)
    refused = RequestEnd("req_2", replace(USAGE, input_estimated=True), 0.125, error=ERROR)
    steps = [replace(step(), made_from=("kb_1",)), replace(step("step_2"), stop_reason=StopReason.END_TURN, results=())]
    runs = [
        RunEnd("run_turn_1", TurnStatus.FINISHED, steps, [ended, refused], minutes(1)),
        RunEnd("run_other", TurnStatus.FAILED, [], [], minutes(1), ERROR),
    ]
    await store.turns.finish_turn(ANN, TurnEnd("turn_1", TurnStatus.FINISHED, runs, minutes(1), ERROR))
    change = ConversationChange(title="Titled", system_prompt=SystemPrompt(1, "You are kind."), tools=(SEARCH, SEARCH))
    await store.conversations.change_conversation(ANN, "conv_1", change, minutes(3))
    await store.turns.begin_turn(ANN, new_turn("turn_2"), minutes(4))


async def _sessions(store: Store) -> None:
    await store.turns.finish_turn(ANN, turn_end("turn_2", [step("step_3")]))
    [first] = await store.sessions.sessions(ANN, "conv_1")
    opened = session_step(first.id, "sess_b", "turn_1", summary="It was short.", at=minutes(5))
    carried = (CarriedSummary(first.id, (0, 2)), CarriedSummary("sess_0"))
    opened = replace(opened, session=replace(opened.session, carries=carried), then="recall", tools=())
    await store.sessions.next_session(ANN, opened)
    await store.sessions.return_to_session(ANN, session_return("sess_b", first.id, "turn_1"))
    factors = Decision(DecisionKind.CALIBRATION, "m-1", "1.2", "engine", "counted", {"factor": 1.2})
    change = ConversationChange(decisions=[factors, began("sess_b", None)])
    await store.conversations.change_conversation(ANN, "conv_1", change, minutes(6))


async def _work(store: Store) -> None:
    await store.lines.add_request(ANN, observed(line()))
    await store.lines.add_replacement(ANN, replacement())
    await store.lines.use_replacement(ANN, "rep_1", "conv_line", "req_line")
    await store.histories.keep_answer(ANN, "agent_1", "key_1", "conv_1", Place("turn_1", "run_turn_1"), NOON)
    made = StoredResponse("resp_1", NOON, "turn_1", fields={"metadata": {"ticket": "7"}}, begins=True)
    await store.responses.add_response(ANN, made)
    await store.responses.delete_response(ANN, made)
    await store.responses.add_response(ANN, StoredResponse("resp_up", NOON, account="account"))
    await store.threads.name_messages(ANN, "thread", "turn_1", ["m1", "m2"])
    await store.queue.queue_message(ANN, queued_message())
    await store.queue.queue_message(ANN, queued_message("queued_m2"))
    await store.queue.cancel_queued(ANN, "queued_m2")
    await store.notices.add_notice(ANN, notice())
    await store.jobs.enqueue(ANN, new_job(), NOON)
    await store.jobs.enqueue(ANN, new_job("title"), NOON)
    held = await store.jobs.claim(["title"], minutes(1), 30)
    assert held is not None
    await store.jobs.fail(held, ERROR, minutes(2), minutes(3))
    await store.keys.claim_key(ANN, "key", "POST /", "f", "turn_1", NOON)
    await store.requests.keep_provider_limit(ProviderLimit("account", "m-1", 200_000, minutes(60)))
    await SqlCacheEntries(store.database).keep([CacheEntry("k", 7, Ttl.ONE_HOUR, NOON, True)], [], NOON)


async def _access(store: Store) -> None:
    said = BaseContent("Prices", "Costs.", True, "Ask.", ("price",), "All.", ("a", "b"), DescribedBy.USER)
    said = replace(said, confirmed_terms=("Falcon",), allowed_terms=("Condor",), contact="Ann")
    said = replace(said, restricted_level=RestrictedLevel.FORM, form=(FormField("Sum", ("low", "high")),))
    await store.access.add_base(ANN, "kb_1", said, NOON)
    await store.directory.add_user(User("user_bob", "Bob", Role.MEMBER, NOON, True))
    await store.directory.add_group(Group("group_staff", "Staff", NOON))
    await store.directory.add_member("group_staff", "user_bob", "user_ann", minutes(1))
    await store.access.set_grant(ANN, "kb_1", Subject("user", "user_bob"), GrantLevel.RESTRICTED, minutes(1))
    await store.access.set_grant(ANN, "kb_1", Subject("group", "group_staff"), GrantLevel.FULL, minutes(2))
    await store.access.set_grant(ANN, "kb_1", Subject("user", "user_bob"), None, minutes(3))
    await store.directory.revoke_key("user_ann", "key_1", minutes(4))
    use = RestrictedUse(
        "", "kb_1", "user_bob", "", NOON, "What?", "refuse", "guard", 3, ("name", "price"), False, "m-1", 10, 5
    )
    await store.access.record_restricted_use(use)
    told = ToldPassage("doc_9:0", ("rent",), ("About rent.",))
    answer = replace(use, decision="answer", released="About rent.", passage_ids=("doc_9:0",), counted=True, short=True)
    assert await store.access.record_answer(answer, [told], ReaderHistory(), NOON) is not None
    document = Document("doc_9", Shelf("user_ann", "kb_1"), "a.txt", 3, "d", NOON, NOON, upload="doc_9")
    knowledge = KnowledgeStore(store.database, store.ids)
    await knowledge.add_document(document, NewJob(INGEST, "doc_9", "it is new", NOON))


async def _fill(store: Store) -> None:
    for part in (_library, _talk, _sessions, _work, _access):
        await part(store)


async def _records(store: Store) -> dict[str, object]:
    """What is read of everything, by the verb."""
    keys = await store.directory.keys("user_ann", ALL)
    page = {
        "conversations": await store.conversations.conversations(ANN, ALL),
        "agents": await store.library.agents(ANN, ALL),
        "projects": await store.library.projects(ANN, ALL),
        "prompts": await store.library.system_prompts(ANN, ALL),
        "files": await store.files.files(ANN, ALL),
        "notices": await store.notices.notices(ANN, "conv_1", ALL),
        "turns": await store.turns.turns(ANN, "conv_1", ALL),
        "on_path": await store.branches.turns_on_path(ANN, "conv_1", ALL),
        "tree": await store.branches.tree(ANN, "conv_1", ALL),
        "users": [await store.directory.user(id) for id in ("user_ann", "user_bob")],
        "groups": await store.directory.groups(ALL),
        "keys": [(replace(key, scopes=frozenset()), sorted(key.scopes)) for key in keys.data],
        "changes": await store.access.grant_changes(ANN, "kb_1", ALL),
        **{kind.value: await store.directory.audit(kind, ALL) for kind in AuditKind},
    }
    return page | {
        "sessions": await store.sessions.sessions(ANN, "conv_1"),
        "lines": await store.lines.lines(ANN, ALL),
        "replacements": await store.lines.replacements(ANN, "openai", ["k0", "k1"]),
        "answers": await store.histories.answers(ANN, "agent_1", ["key_1", "key_2"]),
        "responses": [await store.responses.response(ANN, id) for id in ("resp_1", "resp_up")],
        "thread": await store.threads.thread(ANN, "thread"),
        "path": await store.turns.path(ANN, "conv_1"),
        "pinned": await store.turns.pinned(ANN, "conv_1"),
        "journal": await store.turns.journal(ANN, "turn_1", 0),
        "requests": await store.requests.requests(ANN, "turn_1"),
        "blocks": await store.requests.blocks(ANN, "req_2"),
        "limit": await store.requests.provider_limit("account", "m-1", NOON),
        "decisions": await store.conversations.decisions(ANN, "conv_1"),
        "beginning": await store.snapshots.snapshot(ANN, "conv_1", "m-1"),
        "surroundings": await store.snapshots.agent_and_project(ANN, "conv_1", "agent_1"),
        "queued": await store.queue.queued(ANN, "conv_1"),
        "cancelled": await store.queue.queued_message(ANN, "queued_m2"),
        "totals": await store.notices.totals(ANN, "conv_1"),
        "documents": await store.documents.found_documents(ANN, "conv_1"),
        "text": await store.files.file_text(ANN, "file_1"),
        "jobs": [await store.jobs.job(ANN, kind, "conv_1") for kind in ("compact", "title")],
        "due": await store.jobs.next_due(["compact", "title"]),
        "base": await store.access.base(ANN, "kb_1"),
        "grants": await store.access.grants(ANN, "kb_1"),
        "uses": await store.access.restricted_uses(ANN, "kb_1", ALL),
        "readers": await store.access.restricted_readers(ANN, "kb_1", NOON),
        "history": await store.access.reader_history("kb_1", "user_bob", ["doc_9:0"], NOON),
        "disclosures": await store.access.disclosures(ANN, "kb_1", "doc_9", 10),
        "cached": await SqlCacheEntries(store.database).live(NOON),
        "shelf": await KnowledgeStore(store.database, store.ids).documents_on_shelf(Shelf("user_ann", "kb_1"), ALL),
    }


def _rows(backing: SqliteBacking) -> dict[str, list[dict[str, object]]]:
    """The rows, bytes as hexadecimal digits; moments of this run do not count."""
    return {
        table: [
            {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()} for row in rows
        ]
        for table, rows in backing.dump().items()
    }


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> SqliteBacking:
    return SqliteBacking.copied(migrated, tmp_path)


async def test_what_is_written_is_what_was_always_written(database: SqliteBacking) -> None:
    async with await database.open() as store:
        await _fill(store)
        found = {"rows": _rows(database), "records": {name: repr(one) for name, one in (await _records(store)).items()}}
    if os.environ.get("LAMELLA_WRITE_STORED"):
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found["rows"] == json.loads(FILE.read_text())["rows"]


def _read(file: Path) -> Any:
    return json.loads(file.read_text())


def _value(file: Path, table: str, name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.encode() if file == BEFORE and (table, name) in WAS_TEXT else bytes.fromhex(value)


@pytest.mark.parametrize("file", [FILE, EARLIER, BEFORE], ids=["now", "0055", "0053"])
async def test_what_was_written_then_is_read_now(database: SqliteBacking, file: Path) -> None:
    stored = _read(file)
    with sqlite3.connect(database.path) as other:
        for table, rows in stored["rows"].items():
            binary = {name for _, name, kind, *_ in other.execute(f'PRAGMA table_info("{table}")') if kind == "BLOB"}
            for row in rows:
                values = [_value(file, table, name, value) if name in binary else value for name, value in row.items()]
                names, places = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
                other.execute(f'INSERT INTO "{table}" ({names}) VALUES ({places})', values)
    other.close()
    async with await database.open() as store:
        found = await _records(store)
    assert {name: repr(one) for name, one in found.items()} == _read(FILE)["records"]


def test_every_table_is_written_but_those_of_passages() -> None:
    # Passages have tests of their own: their rows hold vectors, and words that a tokenizer made.
    written = set(json.loads(FILE.read_text())["rows"])
    left = {name for name in metadata.tables if name not in written}
    assert {name for name in left if not name.startswith("recall_")} == {
        "deployment",
        "knowledge_bindings",
        "knowledge_calls",
        "knowledge_names",
        "knowledge_passages",
        "knowledge_vectors",
        "postings",
        "set_ups",
        # One process alone leaves these empty: tests/storage/test_replicas.py.
        "held_conversations",
        "process_beats",
        "processes",
        "signals",
    }
