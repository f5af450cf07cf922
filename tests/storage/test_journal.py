from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.errors import NotFound, StoreFailed
from lamella.storage import Store

from .examples import ANN, BOB, conversation, entry, minutes, new_turn, packet, turn_end

pytestmark = pytest.mark.anyio


@pytest.fixture
async def begun(store: Store) -> Store:
    """A store where turn_1 of Ann and turn_2 of Bob are running."""
    await store.conversations.create_conversation(ANN, conversation("conv_1"))
    await store.conversations.create_conversation(BOB, conversation("conv_2"))
    await store.turns.begin_turn(ANN, new_turn("turn_1", "conv_1"), minutes(0))
    await store.turns.begin_turn(BOB, new_turn("turn_2", "conv_2"), minutes(0))
    return store


async def test_packets_come_back_in_order_from_any_number(begun: Store) -> None:
    # Numbers leave gaps, and groups need not arrive in order.
    await begun.turns.append_journal([entry(7, 8, 12), entry(1, 3)])
    await begun.turns.append_journal([entry(13)])
    for after, expected in ((0, [1, 3, 7, 8, 12, 13]), (1, [3, 7, 8, 12, 13]), (7, [8, 12, 13]), (10, [12, 13])):
        assert await begun.turns.journal(ANN, "turn_1", after) == tuple((n, packet(n)) for n in expected)
    assert await begun.turns.journal(ANN, "turn_1", 13) == ()


async def test_turns_of_several_owners_go_in_one_group(begun: Store) -> None:
    await begun.turns.append_journal([entry(1), entry(1, 2, turn_id="turn_2", owner=BOB)])
    assert len(await begun.turns.journal(ANN, "turn_1", 0)) == 1
    assert len(await begun.turns.journal(BOB, "turn_2", 0)) == 2


async def test_packets_for_a_foreign_turn_store_nothing(begun: Store) -> None:
    with pytest.raises(NotFound):
        await begun.turns.append_journal([entry(1), entry(1, turn_id="turn_2")])
    assert await begun.turns.journal(ANN, "turn_1", 0) == ()


async def test_packets_of_a_deleted_turn_do_not_hold_up_others(begun: Store) -> None:
    await begun.turns.finish_turn(BOB, turn_end("turn_2"))
    await begun.conversations.delete_conversation(BOB, "conv_2")
    await begun.turns.append_journal([entry(1, turn_id="turn_2", owner=BOB), entry(1)])
    assert len(await begun.turns.journal(ANN, "turn_1", 0)) == 1
    with pytest.raises(NotFound):
        await begun.turns.journal(BOB, "turn_2", 0)


async def test_appending_again_is_safe(begun: Store) -> None:
    for _ in range(2):
        await begun.turns.append_journal([entry(1, 2)])
    assert len(await begun.turns.journal(ANN, "turn_1", 0)) == 2
    await begun.turns.append_journal([])


async def test_an_entry_that_is_sent_again_with_more_packets_grows(begun: Store) -> None:
    # Whether a transaction happened may be unknown; meanwhile the turn went on.
    await begun.turns.append_journal([entry(1, 2)])
    await begun.turns.append_journal([entry(1, 2, 3, 4)])
    assert [n for n, _ in await begun.turns.journal(ANN, "turn_1", 0)] == [1, 2, 3, 4]
    await begun.turns.append_journal([entry(1, 2)])
    assert [n for n, _ in await begun.turns.journal(ANN, "turn_1", 0)] == [1, 2, 3, 4]


async def test_a_packet_may_hold_any_character(begun: Store) -> None:
    odd = packet(1, "line\nbreak\u2028 🦎 \x00")
    await begun.turns.append_journal([replace(entry(1), data=odd)])
    assert await begun.turns.journal(ANN, "turn_1", 0) == ((1, odd),)


async def test_a_damaged_entry_is_an_error(begun: Store) -> None:
    await begun.turns.append_journal([replace(entry(1), data=b'{"n":1,"te')])
    with pytest.raises(StoreFailed, match="turn_1"):
        await begun.turns.journal(ANN, "turn_1", 0)
