from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, StoreFailed, TurnInProgress
from lamella.core.records import ConversationChange, PageQuery
from lamella.storage import Store

from .conftest import Backing
from .examples import (
    ANN,
    BOB,
    SEARCH,
    admission,
    conversation,
    entry,
    file,
    minutes,
    new_job,
    new_request,
    new_turn,
    notice,
    queued_message,
    record,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio


async def test_a_conversation_comes_back_as_it_was(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation(title="Ünïcode 🦎 漢字"))
    found = await store.conversations.conversation(ANN, "conv_1")
    assert replace(found, session_id="") == conversation(title="Ünïcode 🦎 漢字")


async def test_an_id_is_used_once(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    with pytest.raises(StoreFailed, match="contradicts stored data"):
        await store.conversations.create_conversation(ANN, conversation())


async def test_half_a_character_is_the_callers_fault(store: Store) -> None:
    with pytest.raises(InvalidRequest, match=r"U\+D800"):
        await store.conversations.create_conversation(ANN, conversation(title="half \ud800"))
    assert (await store.conversations.conversations(ANN, PageQuery())).data == ()


async def test_pages_follow_each_other_in_both_orders(store: Store) -> None:
    for number in range(5):
        await store.conversations.create_conversation(ANN, conversation(f"conv_{number}"))
        await store.conversations.create_conversation(BOB, conversation(f"conv_{number}_of_bob"))
    for order, expected in (("asc", "0 1|2 3|4"), ("desc", "4 3|2 1|0")):
        pages, after, more = [], None, True
        while more:
            page = await store.conversations.conversations(ANN, PageQuery(limit=2, after=after, order=order))  # type: ignore[arg-type]
            pages.append(" ".join(found.id.removeprefix("conv_") for found in page.data))
            after, more = page.data[-1].id, page.has_more
        assert "|".join(pages) == expected


async def test_a_page_after_the_last_is_empty(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    page = await store.conversations.conversations(ANN, PageQuery(after="conv_1"))
    assert (page.data, page.has_more) == ((), False)


async def test_a_change_comes_with_its_decisions(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation(title="Old"))
    switch = Decision(DecisionKind.SETTING, "model", "m-2", "user", "asked for", first_changed="all")
    changed = await store.conversations.change_conversation(
        ANN, "conv_1", ConversationChange(model="m-2", decisions=[switch, admission()]), minutes(5)
    )
    assert (changed.title, changed.model, changed.updated_at) == ("Old", "m-2", minutes(5))
    assert await store.conversations.conversation(ANN, "conv_1") == changed
    stored = await store.conversations.decisions(ANN, "conv_1")
    assert [(one.at, one.decision) for one in stored] == [(minutes(5), switch), (minutes(5), admission())]
    assert len({one.id for one in stored}) == 2


async def test_a_title_alone_changes_no_model(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    changed = await store.conversations.change_conversation(ANN, "conv_1", ConversationChange(title="New"), minutes(1))
    assert (changed.title, changed.model) == ("New", "m-1")


async def test_tools_are_changed_and_taken_away(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    for tools in ((SEARCH,), ()):
        changed = await store.conversations.change_conversation(
            ANN, "conv_1", ConversationChange(tools=tools), minutes(1)
        )
        assert changed.tools == tools
    assert (
        await store.conversations.change_conversation(ANN, "conv_1", ConversationChange(title="T"), minutes(2))
    ).tools == ()


async def test_deleting_leaves_nothing_of_it(store: Store, backing: Backing) -> None:
    await store.files.add_file(ANN, file(), "text")
    await store.conversations.create_conversation(ANN, conversation("conv_2"))
    await store.conversations.create_conversation(ANN, conversation())
    for number in range(3):
        await store.turns.begin_turn(ANN, new_turn(f"turn_{number}", files=("file_1",)), minutes(number))
        await store.turns.append_journal([entry(1, 2, turn_id=f"turn_{number}")])
        whole = record(f"req_{number}", f"turn_{number}", at=minutes(number))
        await store.requests.record_request(
            ANN, new_request(whole, f"req_{number - 1}" if number else None, 2 if number else 0)
        )
        await store.keys.claim_key(ANN, f"key_{number}", "POST turns", "f", f"turn_{number}", minutes(number))
        await store.turns.finish_turn(ANN, turn_end(f"turn_{number}", [step(f"step_{number}")]))
    await store.keys.claim_key(ANN, "key", "POST conversations", "f", "conv_1", minutes(0))
    await store.keys.claim_key(ANN, "other", "POST conversations", "f", "conv_2", minutes(0))
    await store.conversations.change_conversation(
        ANN, "conv_1", ConversationChange(decisions=[admission()]), minutes(5)
    )
    for name in ("message", "order"):
        await store.queue.queue_message(ANN, queued_message(f"queued_{name}"))
    await store.notices.add_notice(ANN, notice("note_done", "turn_0"))
    for result in ("turn_message", "note_order", "note_done"):
        await store.keys.claim_key(ANN, f"key_{result}", "commands", "f", result, minutes(5))
    [session] = await store.sessions.sessions(ANN, "conv_1")
    for subject in ("conv_1", session.id, "turn_2", "conv_2"):
        await store.jobs.enqueue(ANN, new_job(subject=subject), minutes(5))
    assert len(backing.dump()) == 17

    await store.conversations.delete_conversation(ANN, "conv_1")
    left = backing.dump()
    assert set(left) == {"conversations", "sessions", "files", "file_texts", "idempotency_keys", "jobs"}
    assert [row["id"] for row in left["conversations"]] == ["conv_2"]
    assert [row["subject"] for row in left["jobs"]] == ["conv_2"]
    assert [row["key"] for row in left["idempotency_keys"]] == ["other"]


async def test_a_long_conversation_can_be_deleted(store: Store, backing: Backing) -> None:
    # Each turn refers to the one before: deeper than SQLite follows cascades, were it one.
    await backing.fill(1_200)
    await store.conversations.delete_conversation(ANN, "conv_1")
    assert set(backing.dump()) == {"files", "file_texts"}


async def test_a_conversation_that_answers_is_not_deleted(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    with pytest.raises(TurnInProgress):
        await store.conversations.delete_conversation(ANN, "conv_1")
    assert len(await store.turns.path(ANN, "conv_1")) == 1
