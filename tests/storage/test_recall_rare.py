"""A rare name or identifier is found first, however many passages hold the rest of the question."""

from __future__ import annotations

import pytest

from lamella.storage import Store
from lamella.storage.recall.store import RecallIndex

from .examples import ANN, conversation
from .test_recall import find, ids, say

pytestmark = pytest.mark.anyio

FILLED = "There was much to write of that day: fog, gulls, a parcel from the mainland, new rope and a broken clock. "


@pytest.fixture
async def diary(store: Store) -> RecallIndex:
    """Forty entries that are alike, each with its own number, and one long one that names somebody."""
    index = RecallIndex(store.database)
    await store.conversations.create_conversation(ANN, conversation())
    for number in range(40):
        said = f"Keeper, lamp LH-{1000 + number}: " + ("oil in the harbour." if number % 3 == 0 else "the wind turned.")
        reply = "The keeper of the lamp at the harbour wrote of oil." if number % 3 == 0 else "Noted."
        if number == 17:
            said = f"{FILLED * 6}My aunt is called Quillfeather."
        await say(store, index, number, said, reply)
    return index


@pytest.mark.parametrize("meaning", [True, False])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Quillfeather", "msg_conv_1_17"),
        ("Who is Quillfeather, the keeper of the lamp at the harbour with the oil?", "msg_conv_1_17"),
        ("What did the keeper write of the oil in the harbour at lamp LH-1031?", "msg_conv_1_31"),
        ("LH-1005", "msg_conv_1_5"),
    ],
)
async def test_a_rare_name_decides(diary: RecallIndex, query: str, first: str, *, meaning: bool) -> None:
    assert ids(await find(diary, query, meaning=meaning))[0] == first


async def test_what_many_hold_decides_nothing(diary: RecallIndex) -> None:
    found = ids(await find(diary, "oil in the harbour"))
    assert "msg_conv_1_17" not in found[:10]
