from __future__ import annotations

import pytest

from lamella.core.errors import NotFound
from lamella.core.records import PageQuery, Totals
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, conversation, finished_turn, new_turn, notice, session_step, step

pytestmark = pytest.mark.anyio


async def test_notices_are_listed_in_their_order_and_go_with_their_conversation(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    for number in (1, 2, 3):
        await store.notices.add_notice(ANN, notice(f"notice_{number}", None if number == 1 else "turn_1"))
    assert await store.notices.notice(ANN, "notice_1") == notice("notice_1", None)
    first = await store.notices.notices(ANN, "conv_1", PageQuery(limit=2, order="asc"))
    assert ([one.id for one in first.data], first.has_more) == (["notice_1", "notice_2"], True)
    assert (await store.notices.notices(ANN, "conv_1", PageQuery(after="notice_2", order="asc"))).data == (
        notice("notice_3"),
    )
    await store.conversations.delete_conversation(ANN, "conv_1")
    assert "notices" not in backing.dump()
    with pytest.raises(NotFound):
        await store.notices.notice(ANN, "notice_1")


async def test_totals_count_messages_by_session_and_add_up_costs(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    assert await store.notices.totals(ANN, "conv_1") == Totals(0.0, {})
    await finished_turn(store, new_turn("turn_1"), [step("step_1")])
    opened = await store.sessions.next_session(ANN, session_step("sess_000001", "sess_2"))
    found = await store.notices.totals(ANN, "conv_1")
    assert sum(found.messages.values()) == 2
    assert found.messages.keys() <= {"sess_000001", opened.id}
