"""What stood around a turn is kept with it, once for all turns in a row that have the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.records import BeginCondition, Pinned, PinnedProject, Place
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, SEARCH, agent, conversation, minutes, new_request, new_turn, record, turn_end

pytestmark = pytest.mark.anyio

PLAIN = Pinned("You are helpful.", (SEARCH,))
WHOLE = Pinned(
    "Du bist hilfreich. 🦎", (SEARCH,), agent(), PinnedProject("proj_1", "Plan", "Be exact.", 3, ("file_1",))
)


async def _turns(store: Store, *around: Pinned | None) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    head = Place()
    for number, pinned in enumerate(around, 1):
        id = f"turn_{number}"
        await store.turns.begin_turn(ANN, new_turn(id), minutes(number), (), BeginCondition(head, head, pinned=pinned))
        await store.turns.finish_turn(ANN, turn_end(id))
        head = Place(id, f"run_{id}")


async def test_what_stood_around_turns_is_kept_where_it_changes(store: Store) -> None:
    edited = replace(WHOLE, agent=replace(agent(), prompt="Edit less.", revision=2))
    await _turns(store, PLAIN, PLAIN, WHOLE, edited, edited, PLAIN, None)
    assert await store.turns.pinned(ANN, "conv_1") == (
        (minutes(1), PLAIN),
        (minutes(3), WHOLE),
        (minutes(4), edited),
        (minutes(6), PLAIN),
    )


async def test_a_request_beside_the_turns_keeps_what_stood_around_it(store: Store) -> None:
    await _turns(store, PLAIN)
    for number, pinned in enumerate((PLAIN, WHOLE, WHOLE, None), 2):
        asked = replace(record(f"req_{number}"), purpose="summary", run_id=None, at=minutes(number))
        await store.requests.record_request(ANN, replace(new_request(asked), pinned=pinned))
    assert await store.turns.pinned(ANN, "conv_1") == ((minutes(1), PLAIN), (minutes(3), WHOLE))


async def test_it_goes_with_its_conversation(store: Store, backing: Backing) -> None:
    await _turns(store, PLAIN, WHOLE)
    assert len(backing.dump()["pinned"]) == 2
    await store.conversations.delete_conversation(ANN, "conv_1")
    assert "pinned" not in backing.dump()
