"""What holds for every verb at once: foreign callers, crashes, closing."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.core.agents import Agent
from lamella.core.errors import NotFound, StoreFailed
from lamella.core.records import (
    Caller,
    ConversationChange,
    PageQuery,
    Place,
    ProjectContent,
    RequestEnd,
    StoredResponse,
    UnfinishedTurn,
)
from lamella.storage import Store

from .conftest import Backing, SqliteBacking
from .examples import (
    ANN,
    BOB,
    NOON,
    USAGE,
    admission,
    agent,
    conversation,
    entry,
    file,
    found_document,
    imported_turn,
    line,
    minutes,
    new_job,
    new_request,
    new_turn,
    notice,
    observed,
    packet,
    queued_message,
    record,
    replacement,
    session,
    session_return,
    session_step,
    session_summary,
    step,
    stored_import,
    turn_end,
    turn_of_line,
)

pytestmark = pytest.mark.anyio

Call = Callable[[Store, Caller], Awaitable[object]]
FILE = "file_1"
SESSION = "sess_000002"
DOCUMENT = "doc_000004"


def mine(agent: Agent) -> Agent:
    return replace(agent, name="Mine now")


BY_ID: dict[str, Call] = {
    "conversation": lambda store, caller: store.conversations.conversation(caller, "conv_1"),
    "change_conversation": lambda store, caller: store.conversations.change_conversation(
        caller, "conv_1", ConversationChange(title="Mine now"), NOON
    ),
    "title_conversation": lambda store, caller: store.conversations.title_conversation(caller, "conv_1", "Mine now"),
    "delete_conversation": lambda store, caller: store.conversations.delete_conversation(caller, "conv_1"),
    "session": lambda store, caller: store.sessions.session(caller, SESSION),
    "sessions": lambda store, caller: store.sessions.sessions(caller, "conv_1"),
    "session_page": lambda store, caller: store.sessions.session_page(caller, "conv_1", PageQuery(after=SESSION)),
    "next_session": lambda store, caller: store.sessions.next_session(caller, session_step(SESSION, "sess_2")),
    "return_to_session": lambda store, caller: store.sessions.return_to_session(
        caller, session_return(SESSION, SESSION, "turn_1")
    ),
    "summarise_session": lambda store, caller: store.sessions.summarise_session(
        caller, session(SESSION), session_summary("Facts.")
    ),
    "spend": lambda store, caller: store.sessions.spend(caller, SESSION, "embedding", USAGE),
    "agent": lambda store, caller: store.library.agent(caller, "agent_1"),
    "change_agent": lambda store, caller: store.library.change_agent(caller, "agent_1", mine, NOON),
    "delete_agent": lambda store, caller: store.library.delete_agent(caller, "agent_1"),
    "add_project": lambda store, caller: store.library.add_project(
        caller, "proj_2", ProjectContent("P", "", (FILE,)), NOON
    ),
    "project": lambda store, caller: store.library.project(caller, "proj_1"),
    "change_project": lambda store, caller: store.library.change_project(
        caller, "proj_1", lambda project: replace(project, name="Mine now"), NOON
    ),
    "delete_project": lambda store, caller: store.library.delete_project(caller, "proj_1"),
    "system_prompt": lambda store, caller: store.library.system_prompt(caller, 1),
    "agent_and_project": lambda store, caller: store.snapshots.agent_and_project(caller, "conv_1", "agent_1"),
    "attachments": lambda store, caller: store.files.attachments(caller, "conv_1", (FILE,)),
    "attached": lambda store, caller: store.turns.attached(caller, "conv_1", "file_1"),
    "delete_file": lambda store, caller: store.files.delete_file(caller, "file_2"),
    "keep_document": lambda store, caller: store.documents.keep_document(
        caller, "conv_1", found_document("Other."), 2, NOON
    ),
    "document": lambda store, caller: store.documents.document(caller, DOCUMENT),
    "file": lambda store, caller: store.files.file(caller, "file_1"),
    "file_text": lambda store, caller: store.files.file_text(caller, "file_1"),
    "snapshot": lambda store, caller: store.snapshots.snapshot(caller, "conv_1", "m-1"),
    "snapshots": lambda store, caller: store.snapshots.snapshots(caller, "conv_1", ["m-1"]),
    "begin_turn": lambda store, caller: store.turns.begin_turn(caller, new_turn("turn_2"), NOON),
    "queue_message": lambda store, caller: store.queue.queue_message(caller, queued_message("queued_m2")),
    "queued_message": lambda store, caller: store.queue.queued_message(caller, "queued_m1"),
    "queued": lambda store, caller: store.queue.queued(caller, "conv_1"),
    "change_queued": lambda store, caller: store.queue.change_queued(caller, "queued_m1", text="Mine now"),
    "cancel_queued": lambda store, caller: store.queue.cancel_queued(caller, "queued_m1"),
    "add_notice": lambda store, caller: store.notices.add_notice(caller, notice("notice_2")),
    "notice": lambda store, caller: store.notices.notice(caller, "notice_1"),
    "notices": lambda store, caller: store.notices.notices(caller, "conv_1", PageQuery()),
    "totals": lambda store, caller: store.notices.totals(caller, "conv_1"),
    "path": lambda store, caller: store.turns.path(caller, "conv_1"),
    "found_documents": lambda store, caller: store.documents.found_documents(caller, "conv_1"),
    "pinned": lambda store, caller: store.turns.pinned(caller, "conv_1"),
    "place_of": lambda store, caller: store.branches.place_of(caller, "conv_1", "msg_turn_1"),
    "turn_of_run": lambda store, caller: store.branches.turn_of_run(caller, "run_turn_1"),
    "latest": lambda store, caller: store.branches.latest(caller, "conv_1", Place("turn_1", "run_turn_1")),
    "go_to": lambda store, caller: store.branches.go_to(
        caller, "conv_1", Place("turn_1"), Place("turn_1", "run_turn_1"), NOON, [admission()]
    ),
    "turns_on_path": lambda store, caller: store.branches.turns_on_path(caller, "conv_1", PageQuery()),
    "tree": lambda store, caller: store.branches.tree(caller, "conv_1", PageQuery()),
    "turn": lambda store, caller: store.turns.turn(caller, "turn_1"),
    "turns": lambda store, caller: store.turns.turns(caller, "conv_1", PageQuery()),
    "finish_turn": lambda store, caller: store.turns.finish_turn(
        caller, turn_end(steps=[step()], requests=[RequestEnd("req_1", USAGE, 1.0)])
    ),
    "record_request": lambda store, caller: store.requests.record_request(
        caller, new_request(record("req_2"), "req_1", 2)
    ),
    "end_request": lambda store, caller: store.requests.end_request(caller, RequestEnd("req_1", USAGE, 1.0)),
    "request": lambda store, caller: store.requests.request(caller, "req_1"),
    "requests": lambda store, caller: store.requests.requests(caller, "turn_1"),
    "line": lambda store, caller: store.lines.line(caller, "conv_line"),
    "is_answered": lambda store, caller: store.lines.is_answered(caller, observed(line()).request.record),
    "note_break": lambda store, caller: store.lines.note_break(caller, "conv_line", 5, 0.5),
    "add_request": lambda store, caller: store.lines.add_request(
        caller, replace(observed(line("conv_line", "req_more")), is_new=False, begins=None, step=None)
    ),
    "add_line": lambda store, caller: store.lines.add_line(caller, line("conv_1")),
    "replacements_of_line": lambda store, caller: store.lines.replacements_of_line(caller, "conv_line"),
    "use_replacement": lambda store, caller: store.lines.use_replacement(caller, "rep_1", "conv_line", "req_line"),
    "undo_replacement": lambda store, caller: store.lines.undo_replacement(caller, "conv_line", "rep_1"),
    "add_side_request": lambda store, caller: store.lines.add_side_request(
        caller, new_request(record("req_side", "turn_line", conversation_id="conv_line", purpose="summary")), -0.5, 1
    ),
    "add_turn": lambda store, caller: store.lines.add_turn(caller, turn_of_line()),
    "keep_answer": lambda store, caller: store.histories.keep_answer(
        caller, "agent_1", "key_2", "conv_1", Place("turn_1", "run_turn_1"), NOON
    ),
    "import_turns": lambda store, caller: store.histories.import_turns(
        caller, "agent_1", Place("turn_1", "run_turn_1"), [imported_turn()], NOON
    ),
    "name_messages": lambda store, caller: store.threads.name_messages(caller, "thread", "turn_1", ["m1"]),
    "copy_path": lambda store, caller: store.histories.copy_path(
        caller, "conv_1", Place("turn_1", "run_turn_1"), "conv_line"
    ),
    "billed_request": lambda store, caller: store.requests.billed_request(caller, "conv_1"),
    "last_bill": lambda store, caller: store.requests.last_bill(caller, "conv_1", "m-1"),
    "with_last_bill": lambda store, caller: store.requests.with_last_bill(caller, "conv_1", "m-1"),
    "blocks": lambda store, caller: store.requests.blocks(caller, "req_1"),
    "decisions": lambda store, caller: store.conversations.decisions(caller, "conv_1"),
    "decision_page": lambda store, caller: store.conversations.decision_page(caller, "conv_1", PageQuery()),
    "append_journal": lambda store, caller: store.turns.append_journal([entry(1, owner=caller)]),
    "is_closed": lambda store, caller: store.turns.is_closed(caller, "turn_1"),
    "journal": lambda store, caller: store.turns.journal(caller, "turn_1", 0),
    "change_imported": lambda store, caller: store.histories.change_imported(caller, stored_import(), None, NOON),
    "add_response": lambda store, caller: store.responses.add_response(
        caller, StoredResponse("resp_1", NOON, "turn_1")
    ),
    "delete_response": lambda store, caller: store.responses.delete_response(
        caller, StoredResponse("resp_1", NOON, "turn_1")
    ),
    "expired": lambda store, caller: store.retention.expired(caller, "conv_1"),
}

WITHOUT_ID = {
    "conversations_of_base",
    "documents_left",
    "erase_base",
    "scrub",
    "turns_to_expire",
    "expire_packets",
    "pack_packets",
    "take_over_words",
    "open_subjects",
    "progress",
    "conversations_to_expire",
    "expire_requests",
    "add_agent",
    "agents",
    "projects",
    "add_system_prompt",
    "newest_system_prompt",
    "system_prompts",
    "create_conversation",
    "conversations",
    "candidates",
    "replacements",
    "add_replacement",
    "answers",
    "lines",
    "thread",
    "add_file",
    "files",
    "claim_key",
    "release_key",
    "forget_expired_keys",
    "unfinished_turns",
    "all_queued",
    "enqueue",
    "begin",
    "job",
    "claim",
    "clock_set_back",
    "keep_provider_limit",
    "provider_limit",
    "next_due",
    "renew",
    "finish",
    "fail",
    "file_ids",
    "newest_ids",
    "release",
    "response",
    "is_known",
    "forget_forwarded",
}


async def test_every_verb_is_looked_at(store: Store) -> None:
    # Knowledge and recall have their own contracts, in test_knowledge.py and test_recall.py.
    # Replicas have theirs in test_replicas.py: they act for no caller.
    others = ("database", "ids", "directory", "access", "knowledge", "recall", "replicas")
    of_callers = [rows for name, rows in vars(store).items() if name not in others]
    verbs = {name for rows in of_callers for name, _ in inspect.getmembers(type(rows), inspect.isfunction)}
    assert {name for name in verbs if not name.startswith("_")} == BY_ID.keys() | WITHOUT_ID


async def _fill(store: Store) -> None:
    await store.files.add_file(ANN, file(), "text")
    await store.files.add_file(ANN, file("file_2"), "text")
    await store.library.add_agent(ANN, agent(), NOON)
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan", "", (FILE,)), NOON)
    await store.library.add_system_prompt(ANN, "Be brief.", "", NOON)
    await store.conversations.create_conversation(ANN, replace(conversation(), agent_id="agent_1", project_id="proj_1"))
    await store.turns.begin_turn(ANN, new_turn(files=("file_1",)), minutes(0))
    await store.requests.record_request(ANN, new_request(record()))
    await store.queue.queue_message(ANN, queued_message())
    await store.notices.add_notice(ANN, notice())
    await store.jobs.enqueue(ANN, new_job(), NOON)
    await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    await store.lines.add_request(ANN, observed(line()))
    await store.lines.add_replacement(ANN, replacement())
    await store.lines.use_replacement(ANN, "rep_1", "conv_line", "req_line")


@pytest.mark.parametrize("verb", BY_ID)
async def test_what_is_somebody_elses_is_not_found(store: Store, backing: Backing, verb: str) -> None:
    await _fill(store)
    if verb == "change_imported":
        await store.turns.finish_turn(ANN, turn_end())
        await BY_ID["import_turns"](store, ANN)
    before = backing.dump()
    with pytest.raises(NotFound) as foreign:
        await BY_ID[verb](store, BOB)
    assert backing.dump() == before
    if verb in {
        "begin_turn",
        "delete_conversation",
        "return_to_session",
        "import_turns",
        "copy_path",
        "delete_response",
    }:
        await store.turns.finish_turn(ANN, turn_end())
    await BY_ID[verb](store, ANN)
    assert foreign.value.code == "not_found"


@pytest.mark.parametrize("verb", sorted(BY_ID.keys() - {"append_journal"}))
async def test_a_foreign_id_and_a_missing_one_are_answered_alike(store: Store, verb: str) -> None:
    with pytest.raises(NotFound) as missing:
        await BY_ID[verb](store, BOB)
    await _fill(store)
    with pytest.raises(NotFound) as foreign:
        await BY_ID[verb](store, BOB)
    assert foreign.value.as_dict() == missing.value.as_dict()


async def test_lists_hold_only_what_is_the_callers(store: Store) -> None:
    await _fill(store)
    assert (await store.conversations.conversations(BOB, PageQuery())).data == ()
    assert (await store.files.files(BOB, PageQuery())).data == ()
    assert (await store.library.agents(BOB, PageQuery())).data == ()
    assert (await store.library.projects(BOB, PageQuery())).data == ()
    assert (await store.library.system_prompts(BOB, PageQuery())).data == ()
    assert await store.library.newest_system_prompt(BOB) is None
    assert await store.jobs.job(BOB, "compact", "conv_1") is None


async def test_a_closed_store_says_so(backing: Backing) -> None:
    store = await backing.open()
    await _fill(store)
    await store.close()
    await store.close()
    with pytest.raises(StoreFailed, match="closed"):
        await store.conversations.conversation(ANN, "conv_1")
    with pytest.raises(StoreFailed, match="closed"):
        await store.conversations.create_conversation(ANN, conversation("conv_2"))


async def test_everything_is_there_after_opening_again(backing: Backing) -> None:
    async with await backing.open() as store:
        await _fill(store)
        before = await store.turns.path(ANN, "conv_1"), await store.requests.request(ANN, "req_1")
    async with await backing.open() as store:
        assert (await store.turns.path(ANN, "conv_1"), await store.requests.request(ANN, "req_1")) == before


async def test_a_killed_process_leaves_its_turn_and_journal(migrated: Path, tmp_path: Path) -> None:
    backing = SqliteBacking.copied(migrated, tmp_path)
    script = Path(__file__).with_name("dying_writer.py")
    child = await asyncio.create_subprocess_exec(sys.executable, script, backing.path, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"written\n"
    child.kill()
    await child.communicate()
    async with await backing.open() as store:
        assert await store.turns.unfinished_turns() == (UnfinishedTurn(ANN, "turn_1", "conv_1", ("run_turn_1",)),)
        assert await store.turns.progress(("turn_1", "turn_none")) == {"turn_1": (3, True)}
        assert await store.turns.journal(ANN, "turn_1", 0) == tuple((n, packet(n)) for n in (1, 2, 3))
        assert [turn.user.text for turn in await store.turns.path(ANN, "conv_1")] == ["Hello?"]
        await store.turns.finish_turn(ANN, turn_end())
        assert await store.turns.unfinished_turns() == ()
        assert await store.turns.progress(("turn_1",)) == {"turn_1": (3, False)}
