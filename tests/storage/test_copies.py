"""A path that is copied into another conversation: the same turns, documents and decisions, and no bill twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.records import BeginCondition, ConversationChange, PageQuery, Place
from lamella.storage import Store

from .examples import (
    ANN,
    NOON,
    admission,
    conversation,
    file,
    finished_turn,
    found_document,
    minutes,
    new_turn,
    session_step,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio


async def _talk(store: Store) -> None:
    """Two turns with a file, a document and decisions; the second has a sibling."""
    await store.files.add_file(ANN, file(), "A long report.")
    for id in ("conv_1", "conv_2"):
        await store.conversations.create_conversation(ANN, conversation(id))
    await finished_turn(store, new_turn(files=("file_1",)), [replace(step("step_1"), made_from=("kb_9",))])
    await finished_turn(store, new_turn("turn_2", text="And?"), [step("step_2")])
    sibling = BeginCondition(Place("turn_2", "run_turn_2"), Place("turn_1", "run_turn_1"))
    await store.turns.begin_turn(ANN, new_turn("turn_3", text="Or?"), minutes(2), (), sibling)
    await store.turns.finish_turn(ANN, turn_end("turn_3", [step("step_3", "Elsewhere.")]))
    await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    pruned = Decision(DecisionKind.PRUNE, "results", "step_1", "engine", "it pays", first_changed="step_1")
    change = ConversationChange(decisions=[pruned, admission()])
    await store.conversations.change_conversation(ANN, "conv_1", change, minutes(3))


def _said(turns: tuple[Turn, ...]) -> list[object]:
    """Turns without their ids."""
    return [
        (
            replace(turn.user, id=""),
            [replace(one, id="") for one in turn.steps],
            turn.status,
        )
        for turn in turns
    ]


async def test_the_copy_of_a_path_is_its_turns_with_all_steps(store: Store) -> None:
    await _talk(store)
    place = Place("turn_2", "run_turn_2")
    before = (await store.snapshots.snapshot(ANN, "conv_1", "m-1", place=place)).path
    copied = await store.histories.copy_path(ANN, "conv_1", place, "conv_2")
    assert copied is not None
    found = await store.snapshots.snapshot(ANN, "conv_2", "m-1")
    assert (found.place, _said(found.path)) == (copied, _said(before))
    assert {turn.id for turn in before}.isdisjoint(turn.id for turn in found.path)
    assert [(one.document, one.title) for one in found.documents] == [(2, "A page")]
    after = await store.turns.turns(ANN, "conv_2", PageQuery())
    assert {turn.cost for turn in after.data} == {0.0}
    await finished_turn(store, new_turn("turn_9", "conv_2", files=("file_1",)))
    newest = (await store.turns.path(ANN, "conv_2"))[-1]
    assert newest.user.attachments[0].document == before[0].user.attachments[0].document


async def test_what_was_decided_names_the_copies(store: Store) -> None:
    await _talk(store)
    await store.histories.copy_path(ANN, "conv_1", Place("turn_3", "run_turn_3"), "conv_2")
    path = await store.turns.path(ANN, "conv_2")
    stored = await store.conversations.decisions(ANN, "conv_2")
    decided = {one.decision.kind: one.decision for one in stored}
    assert decided[DecisionKind.PRUNE].outcome == decided[DecisionKind.PRUNE].first_changed == path[0].steps[0].id
    assert decided[DecisionKind.ADMISSION] == admission()
    assert DecisionKind.BRANCH not in decided


async def test_a_path_in_a_later_session_is_not_copied(store: Store) -> None:
    await _talk(store)
    [first] = await store.sessions.sessions(ANN, "conv_1")
    await store.sessions.next_session(ANN, session_step(first.id, "sess_b", "turn_1", summary="Short."))
    assert await store.histories.copy_path(ANN, "conv_1", Place("turn_3", "run_turn_3"), "conv_2") is None
    assert await store.turns.path(ANN, "conv_2") == ()
