from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from lamella.core.errors import InvalidRequest, NotFound, NotWaiting, TurnInProgress
from lamella.core.records import QueuedMessage, QueueStatus
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, BERLIN, BOB, conversation, minutes, new_turn, queued_message, turn_end

pytestmark = pytest.mark.anyio


@pytest.fixture
async def waiting(store: Store) -> Store:
    """A store where three messages wait for the running turn_1 of conv_1."""
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    for number in (3, 1, 2):
        await store.queue.queue_message(ANN, queued_message(f"queued_m{number}", f"Text {number} 🦎"))
    return store


async def test_messages_wait_in_the_order_in_which_they_came(waiting: Store) -> None:
    found = await waiting.queue.queued(ANN, "conv_1")
    assert [(one.id, one.seq) for one in found] == [("queued_m3", 1), ("queued_m1", 2), ("queued_m2", 3)]
    assert found[0] == replace(queued_message("queued_m3", "Text 3 🦎"), seq=1)
    assert found[0].sent_at.utcoffset() == BERLIN.utcoffset(None)
    assert [turn.id for turn in await waiting.turns.path(ANN, "conv_1")] == ["turn_1"]


async def test_a_waiting_message_is_changed_or_cancelled(waiting: Store) -> None:
    changed = await waiting.queue.change_queued(ANN, "queued_m1", text="Better")
    cancelled = await waiting.queue.cancel_queued(ANN, "queued_m3")
    assert (changed.text, changed.seq, cancelled.status) == ("Better", 2, QueueStatus.CANCELLED)
    assert [one.text for one in await waiting.queue.queued(ANN, "conv_1")] == ["Better", "Text 2 🦎"]
    late = [waiting.queue.cancel_queued(ANN, "queued_m3"), waiting.queue.change_queued(ANN, "queued_m3", text="Late")]
    for verb in late:
        with pytest.raises(NotWaiting, match="no longer in the queue") as caught:
            await verb
        assert "cancelled" in str(caught.value.hint)
    # A place that was given is not given again.
    assert (await waiting.queue.queue_message(ANN, queued_message("queued_m4"))).seq == 4


async def rows(store: Store, *ids: str) -> list[QueuedMessage]:
    """Rows of the queue, as they are now."""
    return [await store.queue.queued_message(ANN, id) for id in ids]


async def test_half_a_character_leaves_a_waiting_message_as_it_was(waiting: Store, backing: Backing) -> None:
    before = backing.dump()
    with pytest.raises(InvalidRequest, match=r"U\+D800"):
        await waiting.queue.change_queued(ANN, "queued_m1", text="half \ud800")
    with pytest.raises(InvalidRequest, match=r"U\+D800"):
        await waiting.queue.queue_message(ANN, queued_message("queued_m4", "half \ud800"))
    assert backing.dump() == before


async def test_waiting_messages_go_into_the_turn_that_begins_with_them(waiting: Store) -> None:
    await waiting.turns.finish_turn(ANN, turn_end())
    read = await rows(waiting, "queued_m3", "queued_m1")
    await waiting.turns.begin_turn(ANN, new_turn("turn_2", text="Text 3 🦎"), minutes(2), read)
    assert [one.id for one in await waiting.queue.queued(ANN, "conv_1")] == ["queued_m2"]
    with pytest.raises(NotWaiting) as caught:
        await waiting.queue.change_queued(ANN, "queued_m1", text="Late")
    assert "turn_2" in str(caught.value.hint)


@pytest.mark.parametrize("message_id", ["queued_m9", "queued_of_bob", "queued_elsewhere", "queued_m3"])
async def test_a_turn_does_not_begin_with_a_message_that_does_not_wait(
    waiting: Store, backing: Backing, message_id: str
) -> None:
    await waiting.turns.finish_turn(ANN, turn_end())
    await waiting.queue.cancel_queued(ANN, "queued_m3")
    await waiting.conversations.create_conversation(ANN, conversation("conv_2"))
    await waiting.queue.queue_message(ANN, queued_message("queued_elsewhere", conversation_id="conv_2"))
    await waiting.conversations.create_conversation(BOB, conversation("conv_3"))
    await waiting.queue.queue_message(BOB, queued_message("queued_of_bob", conversation_id="conv_3"))
    before = backing.dump()
    [first] = await rows(waiting, "queued_m1")
    with pytest.raises((NotFound, NotWaiting)):
        await waiting.turns.begin_turn(ANN, new_turn("turn_2"), minutes(2), [first, replace(first, id=message_id)])
    assert backing.dump() == before


@pytest.mark.parametrize("changed", [{"text": "Other"}, {"payload": {"stopped": True}}], ids=["text", "payload"])
async def test_a_turn_does_not_begin_with_a_message_that_was_changed_since_it_was_read(
    waiting: Store, backing: Backing, changed: dict[str, Any]
) -> None:
    await waiting.turns.finish_turn(ANN, turn_end())
    read = await rows(waiting, "queued_m1", "queued_m2")
    await waiting.queue.change_queued(ANN, "queued_m2", **changed)
    before = backing.dump()
    with pytest.raises(NotWaiting, match="changed"):
        await waiting.turns.begin_turn(ANN, new_turn("turn_2"), minutes(2), read)
    assert backing.dump() == before


async def test_messages_wait_on_while_a_turn_runs(waiting: Store) -> None:
    with pytest.raises(TurnInProgress):
        await waiting.turns.begin_turn(ANN, new_turn("turn_2"), minutes(2), await rows(waiting, "queued_m3"))
    assert len(await waiting.queue.queued(ANN, "conv_1")) == 3


async def test_a_restart_finds_the_waiting_messages_of_everybody(waiting: Store, backing: Backing) -> None:
    await waiting.conversations.create_conversation(BOB, conversation("conv_0"))
    await waiting.queue.queue_message(BOB, queued_message("queued_m0", conversation_id="conv_0"))
    await waiting.queue.cancel_queued(ANN, "queued_m1")
    await waiting.close()
    async with await backing.open() as store:
        found = await store.queue.all_queued()
    assert [(caller, one.id) for caller, one in found] == [(BOB, "queued_m0"), (ANN, "queued_m3"), (ANN, "queued_m2")]


async def test_messages_from_two_processes_get_places_of_their_own(waiting: Store, backing: Backing) -> None:
    async with await backing.open() as other:
        stores = (waiting, other) * 4
        await asyncio.gather(
            *(one.queue.queue_message(ANN, queued_message(f"more_m{n}")) for n, one in enumerate(stores))
        )
    assert [one.seq for one in await waiting.queue.queued(ANN, "conv_1")] == list(range(1, 12))
