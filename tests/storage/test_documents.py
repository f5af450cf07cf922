"""What tools find: numbered once for a conversation, kept with it, gone with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.knowledge import DOUBTFUL
from lamella.storage import SqlStore

from .conftest import Backing
from .examples import ANN, NOON, conversation, file, found_document, new_turn, turn_end

pytestmark = pytest.mark.anyio


async def test_a_document_has_a_number_that_nothing_else_gets(store: SqlStore, backing: Backing) -> None:
    await store.create_conversation(ANN, conversation())
    await store.add_file(ANN, file(), "text")
    first = await store.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    begun = await store.begin_turn(ANN, new_turn(files=("file_1",)), NOON)
    second = await store.keep_document(ANN, "conv_1", found_document("Another page."), 3, NOON)
    assert [first.document, begun.user.attachments[0].document, second.document] == [1, 2, 3]
    assert (first.text, first.url, first.found, first.tokens) == ("A page.", "https://example.org/a", True, 2)
    await store.finish_turn(ANN, turn_end())
    async with await backing.open() as again:
        found = (await again.beginning(ANN, "conv_1", "m-1")).documents
        assert found == (replace(first, text=None), replace(second, text=None))
        assert await again.document(ANN, second.file_id) == second


async def test_the_same_from_the_same_place_is_the_same_document(store: SqlStore) -> None:
    await store.create_conversation(ANN, conversation())
    first = await store.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    assert await store.keep_document(ANN, "conv_1", found_document(), 2, NOON) == first
    elsewhere = await store.keep_document(ANN, "conv_1", found_document(url="https://example.org/b"), 2, NOON)
    changed = await store.keep_document(ANN, "conv_1", found_document("A page, edited."), 2, NOON)
    assert [elsewhere.document, changed.document] == [2, 3]


async def test_a_document_is_withheld_while_a_base_that_it_was_made_from_is_closed(store: SqlStore) -> None:
    await store.create_conversation(ANN, conversation())
    open_one = await store.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    made = replace(found_document("What a base says."), made_from=(DOUBTFUL,))
    kept = await store.keep_document(ANN, "conv_1", made, 2, NOON)
    text = "Document 2 was brought here with a knowledge base that may not be read in full any more."
    withheld = replace(kept, title="Withheld", url=None, text=text)
    assert await store.document(ANN, kept.file_id) == withheld
    assert [one for _, one in await store.found_documents(ANN, "conv_1")] == [open_one, withheld]
    found = (await store.beginning(ANN, "conv_1", "m-1")).documents
    assert found == (replace(open_one, text=None), replace(withheld, text=None))


async def test_documents_go_with_their_conversation(store: SqlStore) -> None:
    await store.create_conversation(ANN, conversation())
    kept = await store.keep_document(ANN, "conv_1", found_document(), 2, NOON)
    await store.delete_conversation(ANN, "conv_1")
    with pytest.raises(NotFound):
        await store.document(ANN, kept.file_id)


async def test_a_text_that_is_no_unicode_takes_no_number(store: SqlStore) -> None:
    await store.create_conversation(ANN, conversation())
    with pytest.raises(InvalidRequest):
        await store.keep_document(ANN, "conv_1", found_document("\ud800"), 2, NOON)
    assert (await store.keep_document(ANN, "conv_1", found_document(), 2, NOON)).document == 1
