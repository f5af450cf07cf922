from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from lamella.core.errors import InvalidRequest, NotFound, StoreFailed, TurnInProgress
from lamella.core.messages import Attachment, Text, Turn, TurnStatus, UserMessage
from lamella.core.records import PageQuery, Place, RequestEnd, UnfinishedTurn
from lamella.core.tokens import Usage
from lamella.storage import Store
from lamella.storage.conversations.turns import title_of

from .conftest import Backing
from .examples import (
    ANN,
    BERLIN,
    BOB,
    NOON,
    USAGE,
    conversation,
    file,
    finished_turn,
    minutes,
    new_request,
    new_turn,
    record,
    step,
    turn_end,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def begun(store: Store) -> Store:
    """A store where turn_1 of conv_1 is running."""
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    return store


async def test_a_turn_begins_with_its_message_and_its_files(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file("file_1"), "the text")
    await store.files.add_file(ANN, file("file_2", reason="It is empty."), None)
    turn = await store.turns.begin_turn(ANN, new_turn(text="Grüße 🦎", files=("file_2", "file_1")), minutes(3))
    attached = (
        Attachment("file_2", 1, "file_2.pdf", "application/pdf", 5_000_000_000, 12, None, "It is empty."),
        Attachment("file_1", 2, "file_1.pdf", "application/pdf", 5_000_000_000, 12, "the text"),
    )
    assert turn == Turn("turn_1", UserMessage("msg_turn_1", "Grüße 🦎", NOON, "Europe/Berlin", 4, attached))
    assert await store.turns.path(ANN, "conv_1") == (turn,)
    [stored] = await store.turns.path(ANN, "conv_1")
    assert stored.user.sent_at.utcoffset() == BERLIN.utcoffset(None) == timedelta(hours=1)
    found = await store.conversations.conversation(ANN, "conv_1")
    assert (found.head, found.running_turn, found.updated_at) == ("turn_1", "turn_1", minutes(3))


async def test_a_document_number_is_never_used_for_another_file(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    for number in (1, 2, 3):
        await store.files.add_file(ANN, file(f"file_{number}"), None)
    await finished_turn(store, new_turn("turn_1", files=("file_1", "file_2")))
    await finished_turn(store, new_turn("turn_2"))
    await finished_turn(store, new_turn("turn_3", files=("file_1", "file_3")))
    path = await store.turns.path(ANN, "conv_1")
    assert [[a.document for a in turn.user.attachments] for turn in path] == [[1, 2], [], [1, 3]]


async def test_a_running_turn_keeps_others_out(begun: Store) -> None:
    with pytest.raises(TurnInProgress, match="still answering") as caught:
        await begun.turns.begin_turn(ANN, new_turn("turn_2"), minutes(1))
    assert caught.value.hint == "Wait for the turn to end or stop it: POST /api/v1/turns/turn_1/stop."
    assert [turn.id for turn in await begun.turns.path(ANN, "conv_1")] == ["turn_1"]


async def test_of_two_turns_at_once_one_wins(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    answers = await asyncio.gather(
        *(store.turns.begin_turn(ANN, new_turn(f"turn_{number}"), minutes(0)) for number in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, Turn) for answer in answers) == 1
    assert sum(isinstance(answer, TurnInProgress) for answer in answers) == 7
    assert len((await store.turns.turns(ANN, "conv_1", PageQuery())).data) == 1


@pytest.mark.parametrize("file_id", ["file_of_bob", "file_of_nobody"])
async def test_a_foreign_file_stores_nothing(store: Store, backing: Backing, file_id: str) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file("file_1"), None)
    await store.files.add_file(BOB, file("file_of_bob"), None)
    before = backing.dump()
    with pytest.raises(NotFound, match=file_id):
        await store.turns.begin_turn(ANN, new_turn(files=("file_1", file_id)), minutes(0))
    assert backing.dump() == before


async def test_a_message_that_is_not_unicode_stores_nothing(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    before = backing.dump()
    with pytest.raises(InvalidRequest):
        await store.turns.begin_turn(ANN, new_turn(text="\ud83d"), minutes(0))
    assert backing.dump() == before


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        (" \n\n  What   is\tthis? \nTell me.", "What is this?"),
        ("a" * 60, "a" * 60),
        ("a" * 61, "a" * 59 + "…"),
        ("word " * 20, "word word word word word word word word word word word word…"),
        ("so " + "漢" * 80, "so " + "漢" * 56 + "…"),
    ],
)
def test_a_title_is_the_first_line_cut_between_words(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title) <= 60


async def test_the_first_message_names_an_untitled_conversation(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation("conv_1"))
    await store.conversations.create_conversation(ANN, conversation("conv_2", title="Mine"))
    for number, text in enumerate(("First", "Second")):
        await finished_turn(store, new_turn(f"turn_1{number}", "conv_1", text))
        await finished_turn(store, new_turn(f"turn_2{number}", "conv_2", text))
    assert [(await store.conversations.conversation(ANN, id)).title for id in ("conv_1", "conv_2")] == ["First", "Mine"]


async def test_a_finished_turn_has_its_steps_and_what_it_cost(begun: Store, backing: Backing) -> None:
    await begun.requests.record_request(ANN, new_request(record("req_1", step=0)))
    await begun.requests.record_request(ANN, new_request(record("req_2", step=1)))
    await begun.requests.record_request(ANN, new_request(record("req_3", step=1, at=minutes(0.1))))
    await begun.requests.record_request(ANN, new_request(record("req_4", step=0, purpose="summary", at=minutes(0.2))))
    broken = {"message": "It broke.", "hint": None}
    steps = (step("step_1"), step("step_2", "Done."))
    ends = (
        RequestEnd("req_1", USAGE, 0.25, "provider_1"),
        RequestEnd("req_2", Usage(), 0.0, None, broken),
        RequestEnd("req_3", USAGE + USAGE, 0.5),
        RequestEnd("req_4", USAGE, 0.25),
    )
    await begun.turns.finish_turn(ANN, turn_end(steps=steps, requests=ends))

    turn = await begun.turns.turn(ANN, "turn_1")
    assert turn.steps == steps
    assert (turn.status, turn.started_at, turn.finished_at) == (TurnStatus.FINISHED, minutes(0), minutes(1))
    assert (turn.usage, turn.cost, turn.error) == (USAGE + USAGE + USAGE + USAGE, 1.0, None)
    [canonical] = await begun.turns.path(ANN, "conv_1")
    assert (canonical.steps, canonical.status) == (steps, TurnStatus.FINISHED)
    found = await begun.conversations.conversation(ANN, "conv_1")
    assert (found.head, found.running_turn, found.updated_at) == ("turn_1", None, minutes(1))

    stored = await begun.requests.requests(ANN, "turn_1")
    assert [(one.id, one.usage, one.cost) for one in stored] == [(one.request_id, one.usage, one.cost) for one in ends]
    assert (stored[0].provider_request_id, stored[1].error) == ("provider_1", broken)
    # A step sent twice has the bill of its second request.
    rows = sorted(backing.dump()["messages"], key=lambda row: int(str(row["seq"])))
    assert [(row["input_tokens"], row["cost"]) for row in rows] == [(None, None), (100, 0.25), (200, 0.5)]


async def test_a_failed_turn_keeps_its_error(begun: Store) -> None:
    error = StoreFailed("The disk is full.", hint="Free some space.").as_dict()
    await begun.turns.finish_turn(ANN, replace(turn_end(status=TurnStatus.FAILED), error=error))
    turn = await begun.turns.turn(ANN, "turn_1")
    assert (turn.status, turn.error, turn.steps) == (TurnStatus.FAILED, error, ())


async def test_finishing_again_changes_nothing(begun: Store, backing: Backing) -> None:
    await begun.requests.record_request(ANN, new_request(record()))
    await begun.turns.finish_turn(ANN, turn_end(steps=[step()], requests=[RequestEnd("req_1", USAGE, 1.0)]))
    before = backing.dump()
    again = turn_end(status=TurnStatus.STOPPED, steps=[step("step_2")], requests=[RequestEnd("req_1", Usage(), 0.0)])
    await begun.turns.finish_turn(ANN, again)
    assert backing.dump() == before
    await begun.turns.begin_turn(ANN, new_turn("turn_2"), minutes(2))
    await begun.turns.finish_turn(ANN, again)
    assert (await begun.conversations.conversation(ANN, "conv_1")).running_turn == "turn_2"


async def test_an_end_that_cannot_be_stored_stores_nothing(begun: Store, backing: Backing) -> None:
    before = backing.dump()
    with pytest.raises(NotFound, match="req_unknown"):
        await begun.turns.finish_turn(ANN, turn_end(steps=[step()], requests=[RequestEnd("req_unknown", USAGE, 1.0)]))
    with pytest.raises(StoreFailed):
        await begun.turns.finish_turn(ANN, turn_end(steps=[step(), step()]))
    assert backing.dump() == before


async def test_the_path_leads_from_the_first_turn_to_the_head(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    assert await store.turns.path(ANN, "conv_1") == ()
    # Ids need not sort as turns follow each other.
    for turn_id in ("turn_c", "turn_a", "turn_b"):
        await finished_turn(store, new_turn(turn_id), [step(f"step_{turn_id}"), step(f"also_{turn_id}")])
    path = await store.turns.path(ANN, "conv_1")
    assert [turn.id for turn in path] == ["turn_c", "turn_a", "turn_b"]
    assert [made.id for made in path[1].steps] == ["step_turn_a", "also_turn_a"]
    assert (await store.turns.turn(ANN, "turn_b")).parent == Place("turn_a", "run_turn_a")


async def test_a_file_text_is_loaded_once(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file(), "a long text")
    for number in range(3):
        await finished_turn(store, new_turn(f"turn_{number}", files=("file_1",)))
    texts = [turn.user.attachments[0].text for turn in await store.turns.path(ANN, "conv_1")]
    assert texts[0] == "a long text"
    assert len({id(text) for text in texts}) == 1


async def test_a_path_of_a_thousand_messages_is_whole(store: Store, backing: Backing) -> None:
    await backing.fill(500)
    path = await store.turns.path(ANN, "conv_1")
    assert len(path) == 500
    assert sum(len(turn.steps) + 1 for turn in path) == 1_000


async def test_turns_are_listed_by_page(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file(), "text")
    for number in range(3):
        await finished_turn(store, new_turn(f"turn_{number}", files=("file_1",)), [step(f"step_{number}")])
    newest = await store.turns.turns(ANN, "conv_1", PageQuery(limit=2))
    assert ([turn.id for turn in newest.data], newest.has_more) == (["turn_2", "turn_1"], True)
    oldest = await store.turns.turns(ANN, "conv_1", PageQuery(limit=2, order="asc", after="turn_0"))
    assert ([turn.id for turn in oldest.data], oldest.has_more) == (["turn_1", "turn_2"], False)
    assert oldest.data[0] == newest.data[1] == await store.turns.turn(ANN, "turn_1")
    assert (oldest.data[0].attachments[0].document, oldest.data[0].attachments[0].use) == (1, 1)


async def test_unfinished_turns_of_every_owner_are_found(begun: Store) -> None:
    await begun.conversations.create_conversation(BOB, conversation("conv_2"))
    await begun.turns.begin_turn(BOB, new_turn("turn_2", "conv_2"), minutes(0))
    expected = (
        UnfinishedTurn(ANN, "turn_1", "conv_1", ("run_turn_1",)),
        UnfinishedTurn(BOB, "turn_2", "conv_2", ("run_turn_2",)),
    )
    assert await begun.turns.unfinished_turns() == expected
    await begun.turns.finish_turn(ANN, turn_end(status=TurnStatus.INTERRUPTED))
    assert await begun.turns.unfinished_turns() == expected[1:]


async def test_parts_keep_every_character(begun: Store) -> None:
    odd = step(text="\x00\x1f\u2028 \U0010ffff é é ﷽ 👩‍👩‍👧 \\ud800")
    await begun.turns.finish_turn(ANN, turn_end(steps=[odd]))
    [turn] = await begun.turns.path(ANN, "conv_1")
    assert turn.steps == (odd,)
    assert isinstance(turn.steps[0].parts[1], Text)


async def test_a_cancelled_verb_is_done_or_undone_and_the_store_goes_on(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file(), "text")
    for number in range(40):
        turn = new_turn(f"turn_{number}", files=("file_1",))
        beginning = asyncio.create_task(store.turns.begin_turn(ANN, turn, minutes(0)))
        await asyncio.sleep(number * 0.0001)
        beginning.cancel()
        await asyncio.wait([beginning])
        found = await store.conversations.conversation(ANN, "conv_1")
        if found.running_turn is None:
            with pytest.raises(NotFound):
                await store.turns.turn(ANN, turn.id)
        else:
            assert len((await store.turns.turn(ANN, turn.id)).attachments) == 1
            await store.turns.finish_turn(ANN, turn_end(turn.id))
