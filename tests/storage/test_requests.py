from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import NotFound, StoreFailed
from lamella.core.records import ConversationChange, RequestEnd, SideResponse
from lamella.core.tokens import Usage
from lamella.storage import Store
from lamella.storage.packing import unpacked

from .conftest import Backing
from .examples import (
    ANN,
    USAGE,
    admission,
    blocks,
    conversation,
    finished_turn,
    minutes,
    new_request,
    new_turn,
    record,
    turn_end,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def begun(store: Store) -> Store:
    """A store where turn_1 of conv_1 is running."""
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    return store


async def test_a_request_comes_back_as_it_was_sent(begun: Store) -> None:
    sent = replace(record(), head={"a": [1, 2.5, None, {"ü": "🦎"}], "b": True}, error={"message": "no", "hint": None})
    await begun.requests.record_request(ANN, replace(new_request(sent), decisions=[admission()]))
    assert await begun.requests.request(ANN, "req_1") == sent
    assert await begun.requests.requests(ANN, "turn_1") == (sent,)
    assert await begun.requests.blocks(ANN, "req_1") == blocks([1, 2])
    assert [one.decision for one in await begun.conversations.decisions(ANN, "conv_1")] == [admission()]


async def test_an_answer_beside_a_turn_is_kept_with_its_request(begun: Store) -> None:
    await begun.requests.record_request(ANN, new_request(replace(record(), purpose="summary")))
    said = SideResponse("# Goals\nEine Wärmepumpe.", "end_turn", called=True)
    await begun.requests.end_request(ANN, RequestEnd("req_1", USAGE, 0.25, said=said))
    assert (await begun.requests.request(ANN, "req_1")).said == said


async def test_a_window_may_be_empty(begun: Store) -> None:
    sent = replace(record(), segments=(), zones=())
    await begun.requests.record_request(ANN, new_request(sent))
    assert await begun.requests.request(ANN, "req_1") == sent
    assert await begun.requests.blocks(ANN, "req_1") == ()


async def test_a_block_is_stored_once_and_given_wherever_it_stood(begun: Store, backing: Backing) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1", numbers=(1, 2))))
    await begun.requests.record_request(ANN, new_request(record("req_2", numbers=(2, 1, 2))))
    assert await begun.requests.blocks(ANN, "req_2") == blocks([2, 1, 2])
    assert len(backing.dump()["blocks"]) == 4


async def test_conversations_do_not_share_blocks(begun: Store, backing: Backing) -> None:
    await begun.conversations.create_conversation(ANN, conversation("conv_2"))
    await begun.turns.begin_turn(ANN, new_turn("turn_2", "conv_2"), minutes(0))
    await begun.requests.record_request(ANN, new_request(record("req_1")))
    await begun.requests.record_request(ANN, new_request(record("req_2", "turn_2", conversation_id="conv_2")))
    await begun.turns.finish_turn(ANN, turn_end("turn_2"))
    await begun.conversations.delete_conversation(ANN, "conv_2")
    assert await begun.requests.blocks(ANN, "req_1") == blocks([1, 2])


async def test_a_chain_of_forty_differences_is_put_together(begun: Store, backing: Backing) -> None:
    # Windows grow, lose their tail, and change in the middle; each is stored as its difference to the one before.
    windows: list[tuple[int, ...]] = [tuple(range(3))]
    shared = [0]
    for number in range(1, 41):
        before = windows[-1]
        keep = len(before) if number % 7 else len(before) // 2
        shared.append(keep)
        windows.append((*before[:keep], 100 + number, 200 + number))
    for number, window in enumerate(windows):
        base = f"req_{number - 1:02}" if number else None
        sent = record(f"req_{number:02}", numbers=window, step=number, at=minutes(number))
        await begun.requests.record_request(ANN, new_request(sent, base, shared[number]))
    for number, window in enumerate(windows):
        found = await begun.requests.request(ANN, f"req_{number:02}")
        assert found == record(f"req_{number:02}", numbers=window, step=number, at=minutes(number))
    assert [len(one.segments) for one in await begun.requests.requests(ANN, "turn_1")] == [
        len(window) for window in windows
    ]
    assert await begun.requests.blocks(ANN, "req_40") == blocks(windows[40])
    rows: list[Any] = list(backing.dump()["requests"])
    assert b"".join(unpacked(row["segments"]) for row in rows).count(b'"id"') == 3 + 2 * 40


async def test_a_chain_does_not_grow_for_ever(begun: Store, backing: Backing) -> None:
    for number in range(150):
        base = f"req_{number - 1:03}" if number else None
        sent = record(f"req_{number:03}", numbers=range(number + 2), step=number, at=minutes(number))
        await begun.requests.record_request(ANN, new_request(sent, base, number + 1 if number else 0))
    assert len((await begun.requests.request(ANN, "req_149")).segments) == 151
    assert max(int(str(row["depth"])) for row in backing.dump()["requests"]) == 64


@pytest.mark.parametrize(("base", "shared"), [("req_1", 3), ("req_1", -1)])
async def test_a_base_must_have_what_is_shared(begun: Store, base: str, shared: int) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1")))
    wrong = replace(new_request(record("req_2", numbers=(1, 2, 3, 4))), base=base, shared=shared)
    with pytest.raises(StoreFailed, match="cannot share"):
        await begun.requests.record_request(ANN, wrong)
    with pytest.raises(NotFound):
        await begun.requests.request(ANN, "req_2")


async def test_a_base_is_of_the_same_conversation(begun: Store) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1")))
    await begun.conversations.create_conversation(ANN, conversation("conv_2"))
    await begun.turns.begin_turn(ANN, new_turn("turn_2", "conv_2"), minutes(0))
    sent = record("req_2", "turn_2", conversation_id="conv_2")
    with pytest.raises(NotFound, match="req_1"):
        await begun.requests.record_request(ANN, new_request(sent, "req_1", 2))


async def test_a_request_is_of_a_turn_of_its_conversation(begun: Store) -> None:
    await begun.conversations.create_conversation(ANN, conversation("conv_2"))
    with pytest.raises(NotFound, match="turn_1"):
        await begun.requests.record_request(ANN, new_request(record(conversation_id="conv_2")))


async def test_a_request_that_fails_to_be_stored_leaves_no_blocks(begun: Store, backing: Backing) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1")))
    before = backing.dump()
    again = replace(new_request(record("req_1", numbers=(7, 8))), decisions=[admission()])
    with pytest.raises(StoreFailed):
        await begun.requests.record_request(ANN, again)
    assert backing.dump() == before


async def test_the_last_bill_is_that_of_the_newest_request(begun: Store) -> None:
    assert await begun.requests.last_bill(ANN, "conv_1", "m-1") is None
    # Ids do not decide: what was sent later is newer.
    sent = {"req_b": 1, "req_a": 2, "req_failed": 3, "req_running": 4}
    for request_id, at in sent.items():
        await begun.requests.record_request(ANN, new_request(record(request_id, at=minutes(at))))
    await begun.requests.record_request(ANN, new_request(record("req_other", model="m-2", at=minutes(5))))
    # What is asked beside the conversation says nothing of its window.
    await begun.requests.record_request(ANN, new_request(record("req_digest", purpose="digest", at=minutes(6))))
    ends = [RequestEnd(id, USAGE, 1.0) for id in ("req_b", "req_a", "req_other", "req_digest")]
    await begun.turns.finish_turn(ANN, turn_end(requests=[*ends, RequestEnd("req_failed", Usage(), 0.0)]))
    found = await begun.requests.last_bill(ANN, "conv_1", "m-1")
    assert found is not None
    assert (found.request_id, found.local_tokens, found.usage) == ("req_a", 80, USAGE)


async def test_a_beginning_is_what_the_single_verbs_give(begun: Store) -> None:
    await begun.requests.record_request(ANN, replace(new_request(record()), decisions=[admission()]))
    await begun.turns.finish_turn(ANN, turn_end(requests=[RequestEnd("req_1", USAGE, 1.0)]))
    found = await begun.snapshots.snapshot(ANN, "conv_1", "m-1")
    assert found.conversation == await begun.conversations.conversation(ANN, "conv_1")
    assert found.path == await begun.turns.path(ANN, "conv_1") != ()
    assert found.decisions == await begun.conversations.decisions(ANN, "conv_1") != ()
    assert found.last_bill == await begun.requests.last_bill(ANN, "conv_1", "m-1") is not None
    assert (await begun.snapshots.snapshot(ANN, "conv_1", "m-2")).last_bill is None


async def test_a_session_begins_behind_a_turn_and_the_path_stays_whole(begun: Store) -> None:
    """The window is the part of the path behind the newest session's boundary; nothing is lost of what lies before."""
    await begun.turns.finish_turn(ANN, turn_end())
    for number in (2, 3, 4):
        await finished_turn(begun, new_turn(f"turn_{number}"))
    await finished_turn(begun, new_turn("turn_5"))
    ids = [turn.id for turn in await begun.turns.path(ANN, "conv_1")]
    for number, boundary, left in ((1, "turn_2", ids[2:]), (2, "turn_4", ids[4:]), (3, "turn_5", [])):
        session = Decision(DecisionKind.SESSION, f"sess_{number}", boundary, "user", "asked for")
        change = ConversationChange(decisions=[session])
        await begun.conversations.change_conversation(ANN, "conv_1", change, minutes(number))
        assert [turn.id for turn in (await begun.snapshots.snapshot(ANN, "conv_1", "m-1")).path] == left
    assert [turn.id for turn in await begun.turns.path(ANN, "conv_1")] == ids


async def test_missing_blocks_are_an_error(begun: Store) -> None:
    await begun.requests.record_request(ANN, replace(new_request(record()), blocks=blocks([1])))
    with pytest.raises(StoreFailed, match="damaged"):
        await begun.requests.blocks(ANN, "req_1")


async def test_requests_of_a_turn_are_only_its_own(begun: Store) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1")))
    await begun.turns.finish_turn(ANN, turn_end())
    await finished_turn(begun, new_turn("turn_2"))
    await begun.requests.record_request(ANN, new_request(record("req_2", "turn_2", numbers=(1, 2, 3)), "req_1", 2))
    assert [one.id for one in await begun.requests.requests(ANN, "turn_2")] == ["req_2"]
    assert len((await begun.requests.requests(ANN, "turn_2"))[0].segments) == 3
