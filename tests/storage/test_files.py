from __future__ import annotations

import pytest

from lamella.core.errors import InvalidRequest
from lamella.core.records import PageQuery
from lamella.storage import SqlStore

from .examples import ANN, BOB, file

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("text", ["", "Grüße 🦎\r\n\x00 ﷽", None])
async def test_a_file_comes_back_as_it_was(store: SqlStore, text: str | None) -> None:
    await store.add_file(ANN, file(), text)
    assert await store.file(ANN, "file_1") == file()
    assert await store.file_text(ANN, "file_1") == text


async def test_a_failed_file_says_why(store: SqlStore) -> None:
    await store.add_file(ANN, file(reason="It is encrypted."), None)
    found = await store.file(ANN, "file_1")
    assert (found.status, found.code, found.reason) == ("failed", "unreadable", "It is encrypted.")


async def test_text_that_is_not_unicode_stores_nothing(store: SqlStore) -> None:
    with pytest.raises(InvalidRequest, match=r"U\+DFFF"):
        await store.add_file(ANN, file(), "half \udfff")
    assert await store.file_ids() == frozenset()


async def test_files_are_listed_by_page_and_owner(store: SqlStore) -> None:
    for number in range(3):
        await store.add_file(ANN, file(f"file_{number}"), None)
    await store.add_file(BOB, file("file_9"), None)
    first = await store.files(ANN, PageQuery(limit=2))
    second = await store.files(ANN, PageQuery(limit=2, after="file_1"))
    assert [one.id for one in first.data + second.data] == ["file_2", "file_1", "file_0"]
    assert (first.has_more, second.has_more) == (True, False)
    assert await store.file_ids() == {"file_0", "file_1", "file_2", "file_9"}
