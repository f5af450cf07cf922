from __future__ import annotations

import pytest

from lamella.core.errors import FileInUse, InvalidRequest, NotFound
from lamella.core.records import PageQuery, ProjectContent
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, BOB, NOON, conversation, file, new_turn, picture

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("text", ["", "Grüße 🦎\r\n ﷽", None])
async def test_a_file_comes_back_as_it_was(store: Store, text: str | None) -> None:
    await store.files.add_file(ANN, file(), text)
    assert await store.files.file(ANN, "file_1") == file()
    assert await store.files.file_text(ANN, "file_1") == text


async def test_a_failed_file_says_why(store: Store) -> None:
    await store.files.add_file(ANN, file(reason="It is encrypted."), None)
    found = await store.files.file(ANN, "file_1")
    assert (found.status, found.code, found.reason) == ("failed", "unreadable", "It is encrypted.")


async def test_text_that_is_not_unicode_stores_nothing(store: Store) -> None:
    with pytest.raises(InvalidRequest, match=r"U\+DFFF"):
        await store.files.add_file(ANN, file(), "half \udfff")
    assert await store.files.file_ids() == frozenset()


async def test_files_are_listed_by_page_and_owner(store: Store) -> None:
    for number in range(3):
        await store.files.add_file(ANN, file(f"file_{number}"), None)
    await store.files.add_file(BOB, file("file_9"), None)
    first = await store.files.files(ANN, PageQuery(limit=2))
    second = await store.files.files(ANN, PageQuery(limit=2, after="file_1"))
    assert [one.id for one in first.data + second.data] == ["file_2", "file_1", "file_0"]
    assert (first.has_more, second.has_more) == (True, False)
    assert await store.files.file_ids() == {"file_0", "file_1", "file_2", "file_9"}


async def test_a_picture_rides_on_the_messages_that_it_was_sent_with(store: Store) -> None:
    row, image = picture()
    await store.files.add_file(ANN, row, None, image)
    await store.files.add_file(ANN, file("file_2"), "the text")
    assert await store.files.file(ANN, "file_1") == row
    await store.conversations.create_conversation(ANN, conversation())
    begun = await store.turns.begin_turn(ANN, new_turn(files=("file_1", "file_2")), NOON)
    assert (begun.user.images, [one.text for one in begun.user.files]) == ((image,), ["the text"])
    assert await store.turns.path(ANN, "conv_1") == (begun,)
    assert (await store.turns.turn(ANN, "turn_1")).attachments == begun.user.attachments


async def test_files_as_they_would_be_attached_are_numbered_and_not_stored(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file("file_1"), "one")
    await store.files.add_file(ANN, file("file_2"), "two")
    await store.turns.begin_turn(ANN, new_turn(files=("file_1",)), NOON)
    before = backing.dump()
    found = await store.files.attachments(ANN, "conv_1", ("file_2", "file_1"))
    assert [(one.file_id, one.document, one.text) for one in found] == [("file_2", 2, "two"), ("file_1", 1, "one")]
    assert backing.dump() == before


async def test_a_file_that_nothing_holds_is_removed_with_all_that_is_its(store: Store, backing: Backing) -> None:
    row, image = picture("file_2")
    await store.files.add_file(ANN, file(), "text")
    await store.files.add_file(ANN, row, None, image)
    await store.keys.claim_key(ANN, "key", "files", "f", "file_1", NOON)
    for file_id in ("file_1", "file_2"):
        await store.files.delete_file(ANN, file_id)
        with pytest.raises(NotFound):
            await store.files.delete_file(ANN, file_id)
    assert backing.dump() == {}


async def test_a_file_that_is_held_stays_and_says_by_what(store: Store) -> None:
    await store.files.add_file(ANN, file(), "text")
    await store.conversations.create_conversation(ANN, conversation(title="Costs"))
    await store.turns.begin_turn(ANN, new_turn(files=("file_1",)), NOON)
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan", "", ("file_1",)), NOON)
    with pytest.raises(FileInUse) as caught:
        await store.files.delete_file(ANN, "file_1")
    assert caught.value.hint == "Remove it first from: conversation “Costs” (conv_1); project “Plan” (proj_1)."
    assert await store.files.file_text(ANN, "file_1") == "text"
