from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.core.agents import Summary
from lamella.core.errors import NotFound, SessionMoved, StoreFailed, TurnInProgress
from lamella.core.records import Caller, RequestEnd
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.storage import Store
from lamella.storage.conversations.sessions import ask_ancestry
from lamella.storage.recall.store import RecallIndex

from .conftest import Backing, SqliteBacking
from .examples import (
    ANN,
    BOB,
    NOON,
    USAGE,
    conversation,
    finished_turn,
    minutes,
    new_request,
    new_turn,
    record,
    session_return,
    session_step,
    session_summary,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio

FIRST = "sess_000001"
EVERYTHING = "1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1 5.0"


@pytest.fixture
async def talked(store: Store) -> Store:
    """A store where conv_1 has the finished turns 1 to 4."""
    await store.conversations.create_conversation(ANN, conversation())
    for number in range(1, 5):
        await finished_turn(store, new_turn(f"turn_{number}"), [step(f"step_{number}")])
    return store


def labels(backing: Backing) -> dict[str, str]:
    """The sessions of the messages, by session, each message as `TURN.SEQ`, in their order."""
    found: dict[str, str] = {}
    rows: list[dict[str, Any]] = sorted(
        backing.dump()["messages"], key=lambda row: (str(row["turn_id"]), int(str(row["seq"])))
    )
    for row in rows:
        name = f"{row['turn_id'].removeprefix('turn_')}.{row['seq']}"
        found[row["session_id"]] = f"{found.get(row['session_id'], '')} {name}".strip()
    return found


async def test_a_conversation_begins_with_its_first_session(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    assert (await store.conversations.conversation(ANN, "conv_1")).session_id == FIRST
    assert await store.sessions.sessions(ANN, "conv_1") == (Session(FIRST, "conv_1", 1, NOON, SessionCause.CREATED),)
    found = await store.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert (found.session.id, found.summaries) == (FIRST, ())


async def test_a_conversation_that_cannot_be_stored_has_no_session(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    before = backing.dump()
    with pytest.raises(StoreFailed):
        await store.conversations.create_conversation(ANN, conversation())
    assert backing.dump() == before


async def test_a_compaction_closes_a_session_and_carries_the_kept_messages_on(talked: Store, backing: Backing) -> None:
    stored = await talked.sessions.next_session(
        ANN, session_step(FIRST, "sess_2", "turn_2", summary="They met.", at=minutes(5))
    )
    opened = Session("sess_2", "conv_1", 2, minutes(5), SessionCause.COMPACTION, FIRST, "turn_2", inherits=True)
    assert stored == opened == await talked.sessions.session(ANN, "sess_2")
    assert await talked.sessions.session(ANN, FIRST) == Session(
        FIRST,
        "conv_1",
        1,
        NOON,
        SessionCause.CREATED,
        closed_at=minutes(5),
        closed_by=SessionCause.COMPACTION,
        ends_with="turn_4",
        why="full",
        summary="They met.",
        summary_tokens=9,
        summary_ends_with="turn_2",
        check={"missing": ["42"]},
        usage={"summary": USAGE},
    )
    assert labels(backing) == {FIRST: "1.0 1.1 2.0 2.1", "sess_2": "3.0 3.1 4.0 4.1"}
    assert [one.decision.subject for one in await talked.conversations.decisions(ANN, "conv_1")] == ["sess_2"]

    found = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert [turn.id for turn in found.path] == ["turn_3", "turn_4"]
    assert (found.conversation.session_id, found.session) == ("sess_2", opened)
    assert found.summaries == (Summary(FIRST, "They met.", 9),)
    assert found.sent_before == (NOON, NOON), "those of turns 1 and 2"


async def test_what_another_has_closed_is_not_closed_again(talked: Store, backing: Backing) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    before = backing.dump()
    moves: list[Awaitable[Session]] = [
        talked.sessions.next_session(ANN, session_step(FIRST, "sess_3", "turn_2", summary="Late.")),
        talked.sessions.return_to_session(ANN, session_return(FIRST, FIRST, "turn_2")),
    ]
    for move in moves:
        with pytest.raises(SessionMoved, match=FIRST) as caught:
            await move
        assert caught.value.code == "session_moved"
        assert "sess_2" in str(caught.value.hint)
    assert backing.dump() == before


@pytest.mark.parametrize("after", ["turn_9", "turn_other"])
async def test_a_session_begins_behind_a_turn_of_the_path(talked: Store, backing: Backing, after: str) -> None:
    await talked.conversations.create_conversation(ANN, conversation("conv_2"))
    await finished_turn(talked, new_turn("turn_other", "conv_2"))
    before = backing.dump()
    with pytest.raises(NotFound, match=after):
        await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", after, summary="S"))
    assert backing.dump() == before


async def test_an_empty_conversation_has_no_turn_to_begin_behind(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    with pytest.raises(NotFound, match="turn_1"):
        await store.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_1"))
    assert (await store.sessions.next_session(ANN, session_step(FIRST, "sess_2"))).number == 2


async def test_a_parent_is_a_session_of_the_same_conversation(talked: Store, backing: Backing) -> None:
    await talked.conversations.create_conversation(BOB, conversation("conv_2"))
    [foreign] = await talked.sessions.sessions(BOB, "conv_2")
    before = backing.dump()
    one = session_step(FIRST, "sess_2", "turn_4")
    with pytest.raises(NotFound, match=foreign.id):
        await talked.sessions.next_session(ANN, replace(one, session=replace(one.session, parent_id=foreign.id)))
    assert backing.dump() == before


async def test_summaries_of_ancestors_follow_each_other_and_stop_where_nothing_is_inherited(talked: Store) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_1", summary="one"))
    await talked.sessions.next_session(ANN, session_step("sess_2", "sess_3", "turn_2", summary="two"))
    found = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert [summary.text for summary in found.summaries] == ["one", "two"]
    new = session_step("sess_3", "sess_4", "turn_4", summary="three")
    await talked.sessions.next_session(ANN, replace(new, session=replace(new.session, parent_id=None, inherits=False)))
    found = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert (found.path, found.summaries) == ((), ())
    await talked.sessions.next_session(ANN, session_step("sess_4", "sess_5", "turn_4", summary="four"))
    assert [one.number for one in await talked.sessions.sessions(ANN, "conv_1")] == [1, 2, 3, 4, 5]
    found = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert [summary.text for summary in found.summaries] == ["four"]


async def test_a_turn_reads_the_sessions_that_its_own_goes_on_from_and_no_others(talked: Store) -> None:
    """However many a conversation has had."""
    expected = FIRST
    for number in range(2, 8):
        move = session_step(expected, f"sess_{number}", "turn_2", summary=f"Σ{number}")
        await talked.sessions.next_session(
            ANN, replace(move, session=replace(move.session, inherits=number not in (2, 5)))
        )
        expected = f"sess_{number}"

    async def ancestry(caller: Caller, session_id: str) -> list[str]:
        found = await talked.database.read(lambda connection: ask_ancestry(connection, caller, session_id)())
        return [session.id for session in found]

    assert await ancestry(ANN, "sess_7") == ["sess_5", "sess_6", "sess_7"]
    assert await ancestry(ANN, "sess_5") == ["sess_5"]
    assert await ancestry(BOB, "sess_7") == []


async def test_old_summaries_give_way_when_there_are_too_many(talked: Store) -> None:
    for number, (old, new) in enumerate(itertools.pairwise([FIRST, *(f"sess_{n}" for n in range(2, 8))]), start=1):
        one = session_step(old, new, "turn_1", summary=f"Σ{number}")
        await talked.sessions.next_session(
            ANN, replace(one, summary=replace(session_summary(f"Σ{number}"), tokens=3_000))
        )
    found = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    left = (
        "Left out here: the summaries of sessions 1 to 4 of this conversation. A search over its sessions finds them."
    )
    assert [summary.text for summary in found.summaries] == [left, "Σ5", "Σ6"]


async def test_a_compaction_is_undone(talked: Store, backing: Backing) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_2", summary="They met."))
    await finished_turn(talked, new_turn("turn_5"), [step("step_5")])
    found = await talked.sessions.return_to_session(ANN, session_return("sess_2", FIRST, "turn_4"))
    assert (found.id, found.closed_at, found.closed_by, found.summary) == (FIRST, None, None, "They met.")
    closed = await talked.sessions.session(ANN, "sess_2")
    assert (closed.closed_at, closed.closed_by, closed.why) == (minutes(9), SessionCause.RESUME, "asked for")
    # The tail that compaction had carried on is the first session's again; what came after stays with the other.
    assert labels(backing) == {FIRST: "1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1", "sess_2": "5.0 5.1"}
    beginning = await talked.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert [turn.id for turn in beginning.path] == ["turn_1", "turn_2", "turn_3", "turn_4"]
    assert beginning.summaries == (Summary(FIRST, "They met.", 9),)

    again = await talked.sessions.return_to_session(ANN, session_return(FIRST, "sess_2", "turn_5", "turn_2"))
    assert again.closed_at is None
    assert labels(backing) == {FIRST: "1.0 1.1 2.0 2.1", "sess_2": "3.0 3.1 4.0 4.1 5.0 5.1"}
    assert [turn.id for turn in await talked.turns.path(ANN, "conv_1")] == [f"turn_{number}" for number in range(1, 6)]


async def test_a_reopened_session_is_closed_with_a_new_summary_that_needs_a_new_embedding(
    talked: Store, backing: Backing
) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    closed = await talked.sessions.session(ANN, FIRST)
    assert await talked.sessions.summarise_session(ANN, closed, session_summary("Old."))
    index = RecallIndex(talked.database)
    [old] = (await index.unindexed(ANN, "conv_1", "m-vectors", 9)).summaries
    assert await index.index_summary(ANN, old, b"\x01\x02", [], "m-vectors")
    await talked.sessions.return_to_session(ANN, session_return("sess_2", FIRST, "turn_4"))
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_3", "turn_4", summary="All."))
    assert (await talked.sessions.session(ANN, FIRST)).summary == "All."
    [row] = [row for row in backing.dump()["sessions"] if row["id"] == FIRST]
    assert (row["embedding"], row["embedding_model"]) == (None, None)
    [new] = (await index.unindexed(ANN, "conv_1", "m-vectors", 9)).summaries
    assert (old.content, new.content) == ("Old.", "All.")


async def test_nobody_goes_back_while_a_turn_runs(talked: Store, backing: Backing) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    await talked.turns.begin_turn(ANN, new_turn("turn_5"), minutes(6))
    before = backing.dump()
    with pytest.raises(TurnInProgress):
        await talked.sessions.return_to_session(ANN, session_return("sess_2", FIRST, "turn_4"))
    assert backing.dump() == before


@pytest.mark.parametrize("head", ["turn_9", "turn_other", "turn_1", None])
async def test_nobody_goes_back_to_a_head_outside_the_session(
    talked: Store, backing: Backing, head: str | None
) -> None:
    await talked.conversations.create_conversation(ANN, conversation("conv_2"))
    await finished_turn(talked, new_turn("turn_other", "conv_2"))
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_2"))
    await talked.sessions.next_session(ANN, session_step("sess_2", "sess_3", "turn_4"))
    before = backing.dump()
    with pytest.raises(NotFound):
        await talked.sessions.return_to_session(ANN, session_return("sess_3", "sess_2", head, "turn_2"))
    assert backing.dump() == before


async def test_a_closed_session_is_summarised_once(talked: Store) -> None:
    opened = await talked.sessions.session(ANN, FIRST)
    assert not await talked.sessions.summarise_session(ANN, opened, session_summary("Too early."))
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    closed = await talked.sessions.session(ANN, FIRST)
    earlier = replace(closed, closed_at=minutes(-1))
    assert not await talked.sessions.summarise_session(ANN, earlier, session_summary("For another end."))
    assert await talked.sessions.summarise_session(ANN, closed, session_summary("They met."))
    assert not await talked.sessions.summarise_session(ANN, closed, session_summary("Again."))
    found = await talked.sessions.session(ANN, FIRST)
    assert (found.summary, found.summary_tokens, found.usage) == ("They met.", 9, {"summary": USAGE})
    assert (found.check, found.ends_with) == ({"missing": ["42"]}, "turn_4")
    assert (found.summary_ends_with, found.is_summarised) == ("turn_4", True)


async def test_a_session_that_went_on_is_summarised_again(talked: Store) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    closed = await talked.sessions.session(ANN, FIRST)
    assert await talked.sessions.summarise_session(ANN, closed, session_summary("They met."))
    await talked.sessions.return_to_session(ANN, session_return("sess_2", FIRST, "turn_4"))
    await finished_turn(talked, new_turn("turn_5"), [step("step_5")])
    left = session_step(FIRST, "sess_3", "turn_5")
    await talked.sessions.next_session(ANN, replace(left, session=replace(left.session, opened_by=SessionCause.NEW)))
    ended = await talked.sessions.session(ANN, FIRST)
    assert (ended.summary, ended.summary_ends_with, ended.is_summarised) == ("They met.", "turn_4", False)
    assert await talked.sessions.summarise_session(ANN, ended, session_summary("They met and parted."))
    again = await talked.sessions.session(ANN, FIRST)
    assert (again.summary, again.summary_ends_with) == ("They met and parted.", "turn_5")


async def test_a_compaction_summarises_up_to_where_the_next_session_begins(talked: Store) -> None:
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_2", summary="They met."))
    compacted = await talked.sessions.session(ANN, FIRST)
    assert (compacted.ends_with, compacted.summary_ends_with, compacted.is_summarised) == ("turn_4", "turn_2", True)


async def test_a_session_adds_up_what_was_spent_on_it(talked: Store) -> None:
    await talked.turns.begin_turn(ANN, new_turn("turn_5"), minutes(6))
    await talked.requests.record_request(ANN, new_request(record("req_1", "turn_5")))
    await talked.requests.record_request(ANN, new_request(record("req_2", "turn_5", step=1)))
    await talked.requests.record_request(ANN, new_request(record("req_3", "turn_5", purpose="digest")))
    await talked.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_4"))
    ends = [RequestEnd(f"req_{number}", USAGE, 0.5) for number in (1, 2, 3)]
    await talked.turns.finish_turn(ANN, turn_end("turn_5", [step("step_5")], ends))
    await talked.sessions.spend(ANN, "sess_2", "embedding", Usage(input=3))
    await talked.sessions.spend(ANN, "sess_2", "embedding", Usage(input=4))
    await talked.sessions.spend(ANN, "sess_2", "summary", Usage())
    spent = (await talked.sessions.session(ANN, "sess_2")).usage
    assert spent == {"chat": USAGE + USAGE, "digest": USAGE, "embedding": Usage(input=7)}


async def test_a_request_beside_a_turn_has_an_end_of_its_own(talked: Store) -> None:
    await talked.requests.record_request(ANN, new_request(record("req_1", "turn_4", purpose="summary")))
    await talked.requests.end_request(ANN, RequestEnd("req_1", USAGE, 0.5, "provider_1"))
    found = await talked.requests.request(ANN, "req_1")
    assert (found.usage, found.cost, found.provider_request_id) == (USAGE, 0.5, "provider_1")
    assert (await talked.turns.turn(ANN, "turn_4")).cost == 0


Move = Callable[[Store], Awaitable[object]]

MOVES: dict[str, Move] = {
    "finish": lambda store: store.turns.finish_turn(ANN, turn_end("turn_5", [step("step_5"), step("step_6")])),
    "compact": lambda store: store.sessions.next_session(
        ANN, session_step(FIRST, "sess_compact", "turn_2", summary="S")
    ),
    "compact again": lambda store: store.sessions.next_session(
        ANN, session_step(FIRST, "sess_again", "turn_3", summary="S")
    ),
    "new": lambda store: store.sessions.next_session(ANN, session_step(FIRST, "sess_new", "turn_4")),
}

BEGINS = {"sess_compact": 2, "sess_again": 3, "sess_new": 4}


def check_labels(backing: Backing, current: str, outcomes: dict[str, object]) -> None:
    """Every message is there once, and those in the window of the one session that won are that session's."""
    refused = {name for name, outcome in outcomes.items() if isinstance(outcome, Exception)}
    assert all(isinstance(outcomes[name], SessionMoved) for name in refused)
    assert len(refused) == 2
    assert isinstance(outcomes[{"sess_compact": "compact", "sess_again": "compact again"}.get(current, "new")], Session)
    border = BEGINS[current]
    old = " ".join(f"{number}.0 {number}.1" for number in range(1, border + 1))
    kept = " ".join(f"{number}.0 {number}.1" for number in range(border + 1, 5))
    assert labels(backing) == {FIRST: old, current: f"{kept} 5.0 5.1 5.2".strip()}


@pytest.mark.parametrize("order", list(itertools.permutations(MOVES)), ids=" > ".join)
async def test_an_answer_lands_in_the_session_that_is_current_in_every_order(
    talked: Store, backing: Backing, order: tuple[str, ...]
) -> None:
    await talked.turns.begin_turn(ANN, new_turn("turn_5"), minutes(6))
    outcomes: dict[str, object] = {}
    for name in order:
        [outcomes[name]] = await asyncio.gather(MOVES[name](talked), return_exceptions=True)
    check_labels(backing, (await talked.conversations.conversation(ANN, "conv_1")).session_id, outcomes)


@pytest.mark.parametrize("round", range(6))
async def test_two_connections_race_and_one_session_follows(talked: Store, backing: Backing, round: int) -> None:
    await talked.turns.begin_turn(ANN, new_turn("turn_5"), minutes(6))
    orders = list(itertools.permutations(MOVES))
    order = orders[round * len(orders) // 6]
    async with await backing.open() as other:
        stores = itertools.cycle([talked, other])
        found = await asyncio.gather(*(MOVES[name](next(stores)) for name in order), return_exceptions=True)
    outcomes = dict(zip(order, found, strict=True))
    check_labels(backing, (await talked.conversations.conversation(ANN, "conv_1")).session_id, outcomes)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to kill are forked")
async def test_a_process_killed_at_any_statement_leaves_one_session_whole(
    talked: Store, backing: Backing, tmp_path: Path
) -> None:
    if not isinstance(backing, SqliteBacking):
        pytest.skip("the copies of a file")
    await talked.turns.begin_turn(ANN, new_turn("turn_5"), minutes(6))
    await talked.close()
    script = Path(__file__).with_name("dying_compactor.py")
    command = (sys.executable, script, tmp_path / "lamella.db", tmp_path)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    *killed, survived = map(Path, out.decode().splitlines())
    assert len(killed) > 10
    for path in killed:
        left = SqliteBacking(path)
        async with await left.open() as store:
            assert [one.id for one in await store.sessions.sessions(ANN, "conv_1") if one.closed_at is None] == [FIRST]
            assert (labels(left), await store.conversations.decisions(ANN, "conv_1")) == ({FIRST: EVERYTHING}, ())
            # The next process does it again.
            await store.sessions.next_session(ANN, session_step(FIRST, "sess_2", "turn_2", summary="They met."))
        assert left.dump()["messages"] == SqliteBacking(survived).dump()["messages"]
    assert labels(SqliteBacking(survived)) == {FIRST: "1.0 1.1 2.0 2.1", "sess_2": "3.0 3.1 4.0 4.1 5.0"}
