from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.storage import FileStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def uploads(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "data" / "files")


async def test_an_upload_appears_when_it_is_whole(uploads: FileStore) -> None:
    async with uploads.receive("file_1") as path:
        path.write_bytes(b"content")
        assert not uploads.path("file_1").exists()
    assert uploads.path("file_1").read_bytes() == b"content"
    assert [found.name for found in uploads.path("file_1").parent.iterdir()] == ["file_1"]


@pytest.mark.parametrize("error", [ValueError(), asyncio.CancelledError()])
async def test_a_failed_upload_leaves_nothing(uploads: FileStore, error: BaseException) -> None:
    async def fail() -> None:
        async with uploads.receive("file_1") as path:
            path.write_bytes(b"half of the con")
            raise error

    with pytest.raises(type(error)):
        await fail()
    assert list(uploads.path("file_1").parent.iterdir()) == []


async def test_an_upload_that_was_never_written_fails(uploads: FileStore) -> None:
    with pytest.raises(StoreFailed, match="could not be kept"):
        async with uploads.receive("file_1"):
            pass


@pytest.mark.parametrize(
    "name", ["", "file_", "../etc/passwd", "file_1/../2", "file_1\n", "file_A", "file_1.part", "/file_1", "file_1\x00"]
)
async def test_only_ids_are_names(uploads: FileStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        uploads.path(name)
    with pytest.raises(InvalidRequest):
        async with uploads.receive(name):
            pass


async def test_sweeping_removes_what_has_no_row(uploads: FileStore) -> None:
    folder = uploads.path("file_1").parent
    for name in ("file_1", "file_2", "file_2.part", "file_3.part", "notes.txt", ".hidden"):
        (folder / name).write_bytes(b"x")
    assert await uploads.sweep(frozenset({"file_1", "file_9"})) == 3
    assert sorted(path.name for path in folder.iterdir()) == [".hidden", "file_1", "notes.txt"]


async def test_a_folder_that_is_gone_is_an_error(uploads: FileStore) -> None:
    uploads.path("file_1").parent.rmdir()
    with pytest.raises(StoreFailed, match="could not be cleared up"):
        await uploads.sweep(frozenset())


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreFailed, match="cannot be made"):
        FileStore(tmp_path / "data" / "files")
