"""What holds for every verb at once: foreign callers, crashes, closing."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lamella.core.errors import NotFound, StoreFailed
from lamella.core.ports import Store
from lamella.core.records import Caller, ConversationChange, PageQuery, RequestEnd, UnfinishedTurn
from lamella.storage import SqlStore

from .conftest import Backing, SqliteBacking
from .examples import (
    ANN,
    BOB,
    NOON,
    USAGE,
    conversation,
    entry,
    file,
    minutes,
    new_request,
    new_turn,
    packet,
    record,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio

Call = Callable[[SqlStore, Caller], Awaitable[object]]

BY_ID: dict[str, Call] = {
    "conversation": lambda store, caller: store.conversation(caller, "conv_1"),
    "change_conversation": lambda store, caller: store.change_conversation(
        caller, "conv_1", ConversationChange(title="Mine now"), NOON
    ),
    "delete_conversation": lambda store, caller: store.delete_conversation(caller, "conv_1"),
    "file": lambda store, caller: store.file(caller, "file_1"),
    "file_text": lambda store, caller: store.file_text(caller, "file_1"),
    "beginning": lambda store, caller: store.beginning(caller, "conv_1", "m-1"),
    "begin_turn": lambda store, caller: store.begin_turn(caller, new_turn("turn_2"), NOON),
    "path": lambda store, caller: store.path(caller, "conv_1"),
    "turn": lambda store, caller: store.turn(caller, "turn_1"),
    "turns": lambda store, caller: store.turns(caller, "conv_1", PageQuery()),
    "finish_turn": lambda store, caller: store.finish_turn(
        caller, turn_end(steps=[step()], requests=[RequestEnd("req_1", USAGE, 1.0)])
    ),
    "record_request": lambda store, caller: store.record_request(caller, new_request(record("req_2"), "req_1", 2)),
    "request": lambda store, caller: store.request(caller, "req_1"),
    "requests": lambda store, caller: store.requests(caller, "turn_1"),
    "last_bill": lambda store, caller: store.last_bill(caller, "conv_1", "m-1"),
    "blocks": lambda store, caller: store.blocks(caller, "req_1"),
    "decisions": lambda store, caller: store.decisions(caller, "conv_1"),
    "append_journal": lambda store, caller: store.append_journal([entry(1, owner=caller)]),
    "journal": lambda store, caller: store.journal(caller, "turn_1", 0),
}

WITHOUT_ID = {
    "create_conversation",
    "conversations",
    "add_file",
    "files",
    "claim_key",
    "release_key",
    "unfinished_turns",
    "file_ids",
}


def test_every_verb_of_the_port_is_looked_at() -> None:
    verbs = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert verbs == BY_ID.keys() | WITHOUT_ID


async def _fill(store: SqlStore) -> None:
    await store.create_conversation(ANN, conversation())
    await store.add_file(ANN, file(), "text")
    await store.begin_turn(ANN, new_turn(files=("file_1",)), minutes(0))
    await store.record_request(ANN, new_request(record()))


@pytest.mark.parametrize("verb", BY_ID)
async def test_what_is_somebody_elses_is_not_found(store: SqlStore, backing: Backing, verb: str) -> None:
    await _fill(store)
    before = backing.dump()
    with pytest.raises(NotFound) as foreign:
        await BY_ID[verb](store, BOB)
    assert backing.dump() == before
    if verb == "begin_turn" or verb == "delete_conversation":
        await store.finish_turn(ANN, turn_end())
    await BY_ID[verb](store, ANN)
    assert foreign.value.code == "not_found"


@pytest.mark.parametrize("verb", sorted(BY_ID.keys() - {"append_journal"}))
async def test_a_foreign_id_and_a_missing_one_are_answered_alike(store: SqlStore, verb: str) -> None:
    with pytest.raises(NotFound) as missing:
        await BY_ID[verb](store, BOB)
    await _fill(store)
    with pytest.raises(NotFound) as foreign:
        await BY_ID[verb](store, BOB)
    assert foreign.value.as_dict() == missing.value.as_dict()


async def test_lists_hold_only_what_is_the_callers(store: SqlStore) -> None:
    await _fill(store)
    assert (await store.conversations(BOB, PageQuery())).data == ()
    assert (await store.files(BOB, PageQuery())).data == ()


async def test_a_closed_store_says_so(backing: Backing) -> None:
    store = await backing.open()
    await _fill(store)
    await store.close()
    await store.close()
    with pytest.raises(StoreFailed, match="closed"):
        await store.conversation(ANN, "conv_1")
    with pytest.raises(StoreFailed, match="closed"):
        await store.create_conversation(ANN, conversation("conv_2"))


async def test_everything_is_there_after_opening_again(backing: Backing) -> None:
    async with await backing.open() as store:
        await _fill(store)
        before = await store.path(ANN, "conv_1"), await store.request(ANN, "req_1")
    async with await backing.open() as store:
        assert (await store.path(ANN, "conv_1"), await store.request(ANN, "req_1")) == before


async def test_a_killed_process_leaves_its_turn_and_journal(migrated: Path, tmp_path: Path) -> None:
    backing = SqliteBacking(migrated, tmp_path)
    script = Path(__file__).with_name("dying_writer.py")
    child = await asyncio.create_subprocess_exec(sys.executable, script, backing.path, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"written\n"
    child.kill()
    await child.communicate()
    async with await backing.open() as store:
        assert await store.unfinished_turns() == (UnfinishedTurn(ANN, "turn_1", "conv_1"),)
        assert await store.journal(ANN, "turn_1", 0) == tuple((n, packet(n)) for n in (1, 2, 3))
        assert [turn.user.text for turn in await store.path(ANN, "conv_1")] == ["Hello?"]
        await store.finish_turn(ANN, turn_end())
        assert await store.unfinished_turns() == ()
