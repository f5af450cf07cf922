"""What tools find: numbered once for a conversation, kept with it, gone with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.knowledge import DOUBTFUL
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, NOON, conversation, file, found_document, new_turn, turn_end

pytestmark = pytest.mark.anyio


async def test_a_document_has_a_number_that_nothing_else_gets(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.files.add_file(ANN, file(), "text")
    first = await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    begun = await store.turns.begin_turn(ANN, new_turn(files=("file_1",)), NOON)
    second = await store.documents.keep_document(ANN, "conv_1", found_document("Another page."), 3, NOON)
    assert [first.document, begun.user.attachments[0].document, second.document] == [1, 2, 3]
    assert (first.text, first.url, first.found, first.tokens) == ("A page.", "https://example.org/a", True, 2)
    await store.turns.finish_turn(ANN, turn_end())
    async with await backing.open() as again:
        found = (await again.snapshots.snapshot(ANN, "conv_1", "m-1")).documents
        assert found == (replace(first, text=None), replace(second, text=None))
        assert await again.documents.document(ANN, second.file_id) == second


async def test_the_same_from_the_same_place_is_the_same_document(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    first = await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    assert await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON) == first
    elsewhere = await store.documents.keep_document(ANN, "conv_1", found_document(url="https://example.org/b"), 2, NOON)
    changed = await store.documents.keep_document(ANN, "conv_1", found_document("A page, edited."), 2, NOON)
    assert [elsewhere.document, changed.document] == [2, 3]


async def test_a_document_is_withheld_while_a_base_that_it_was_made_from_is_closed(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    open_one = await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    made = replace(found_document("What a base says."), made_from=(DOUBTFUL,))
    kept = await store.documents.keep_document(ANN, "conv_1", made, 2, NOON)
    text = "Document 2 was brought here with a knowledge base that may not be read in full any more."
    withheld = replace(kept, title="Withheld", url=None, text=text)
    assert await store.documents.document(ANN, kept.file_id) == withheld
    assert [one for _, one in await store.documents.found_documents(ANN, "conv_1")] == [open_one, withheld]
    found = (await store.snapshots.snapshot(ANN, "conv_1", "m-1")).documents
    assert found == (replace(open_one, text=None), replace(withheld, text=None))


async def test_documents_go_with_their_conversation(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    kept = await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    await store.conversations.delete_conversation(ANN, "conv_1")
    with pytest.raises(NotFound):
        await store.documents.document(ANN, kept.file_id)


async def test_a_text_that_is_no_unicode_takes_no_number(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    with pytest.raises(InvalidRequest):
        await store.documents.keep_document(ANN, "conv_1", found_document("\ud800"), 2, NOON)
    assert (await store.documents.keep_document(ANN, "conv_1", found_document(), 2, NOON)).document == 1
