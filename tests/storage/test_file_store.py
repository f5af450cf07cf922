"""The bytes of uploads: one contract for a folder and for S3-compatible storage, and what goes wrong with each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from time import time

import pytest

from lamella.core.errors import ConfigurationError, InvalidRequest, StoreFailed
from lamella.storage import FileStore, FolderFiles
from lamella.storage.file_store import DAY, claim, open_files
from s3 import S3Server, in_between

pytestmark = pytest.mark.anyio
LARGE = os.urandom(13 * 1024 * 1024)
"""Sent to S3 in three parts."""


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where files are kept."""
    if request.param == "folder":
        return str(tmp_path / "data" / "files")
    return f"s3://{request.getfixturevalue('bucket')}/lamella/uploads"


@pytest.fixture
def files(place: str) -> FileStore:
    return open_files(place)


async def put(files: FileStore, file_id: str, data: bytes) -> None:
    async with files.receive(file_id) as path:
        path.write_bytes(data)


def knowing(*ids: str) -> Callable[[], Awaitable[frozenset[str]]]:
    """A database that has rows of these files."""

    async def known() -> frozenset[str]:
        return frozenset(ids)

    return known


async def whole(files: FileStore, file_id: str, start: int = 0, end: int | None = None) -> bytes:
    """What is read, from the storage itself and from the local copy."""
    size = await files.size(file_id)
    assert size is not None
    end = size if end is None else end
    read = b"".join([piece async for piece in files.read(file_id, start, end)])
    async with files.local(file_id) as path:
        assert path.read_bytes()[start:end] == read
    return read


async def test_an_upload_appears_when_it_is_whole(files: FileStore) -> None:
    async with files.receive("file_1") as path:
        path.write_bytes(b"content")
        assert await files.size("file_1") is None
        assert await files.ids() == frozenset()
    assert await whole(files, "file_1") == b"content"
    assert await files.ids() == {"file_1"}
    assert not path.exists()


async def test_a_large_upload_is_whole_and_read_in_parts(files: FileStore) -> None:
    await put(files, "doc_1", LARGE)
    assert await files.size("doc_1") == len(LARGE)
    assert await whole(files, "doc_1") == LARGE
    assert await whole(files, "doc_1", 6_000_000, 6_000_007) == LARGE[6_000_000:6_000_007]
    assert await whole(files, "doc_1", 5, 5) == b""


@pytest.mark.parametrize("error", [ValueError(), asyncio.CancelledError()])
async def test_a_failed_upload_leaves_nothing(files: FileStore, error: BaseException) -> None:
    left: list[Path] = []

    async def fail() -> None:
        async with files.receive("file_1") as path:
            left.append(path)
            path.write_bytes(b"half of the con")
            raise error

    with pytest.raises(type(error)):
        await fail()
    assert await files.ids() == frozenset()
    assert not left[0].exists()


async def test_an_upload_that_was_never_written_fails(files: FileStore) -> None:
    with pytest.raises(StoreFailed, match="could not be kept"):
        async with files.receive("file_1"):
            pass


@pytest.mark.parametrize(
    "name", ["", "file_", "../etc/passwd", "file_1/../2", "file_1\n", "file_A", "file_1.part", "/file_1", "file_1\x00"]
)
async def test_only_ids_are_names(files: FileStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await files.size(name)
    with pytest.raises(InvalidRequest):
        await files.remove(name)
    with pytest.raises(InvalidRequest):
        async with files.receive(name):
            pass


async def test_what_is_removed_is_gone_and_may_be_gone_already(files: FileStore) -> None:
    await put(files, "file_1", b"x")
    await files.remove("file_1")
    await files.remove("file_1")
    assert await files.size("file_1") is None
    async with files.local("file_1") as path:
        assert not path.exists()


async def test_sweeping_removes_what_has_no_row_but_nothing_new(files: FileStore) -> None:
    for number in range(4):
        await put(files, f"file_{number}", b"x")
    await files.mark("a database")
    assert await files.sweep(frozenset({"file_1"}), DAY) == 0
    assert await files.ids() == {"file_0", "file_1", "file_2", "file_3"}
    await asyncio.sleep(1.1)  # S3 tells times in seconds
    assert await files.sweep(frozenset({"file_1", "file_9"}), 0) == 3
    assert await files.ids() == {"file_1"}
    assert await files.mark("") == "a database"


async def test_the_first_mark_stays(place: str) -> None:
    one, other = open_files(place), open_files(place)
    assert await one.mark("") == ""
    assert set(await asyncio.gather(one.mark("one"), other.mark("one"))) == {"one"}
    assert await other.mark("other") == "one"


async def test_files_of_another_database_are_neither_used_nor_swept(files: FileStore) -> None:
    assert await claim(files, "one", knowing())
    assert await claim(files, "one", knowing("file_1"))
    with pytest.raises(ConfigurationError, match="belong to another database"):
        await claim(files, "other", knowing())
    await put(files, "file_1", b"x")
    with pytest.raises(ConfigurationError, match="belong to another database"):
        await claim(files, "other", knowing())


async def test_files_without_a_mark_belong_to_the_database_that_knows_one_of_them(files: FileStore) -> None:
    await put(files, "file_1", b"x")
    assert not await claim(files, "other", knowing("file_2"))
    assert await files.mark("") == ""
    assert await claim(files, "one", knowing("file_1", "file_2"))
    assert await files.mark("") == "one"


# A folder


async def test_sweeping_a_folder_leaves_foreign_names_and_takes_unfinished_uploads(tmp_path: Path) -> None:
    for name in ("file_1", "file_2", "file_2.part", "file_3.part", "notes.txt", ".hidden"):
        (tmp_path / name).write_bytes(b"x")
    os.utime(tmp_path / "file_2", (0, time() - DAY - 1))
    assert await FolderFiles(tmp_path).sweep(frozenset({"file_1"}), DAY) == 1
    assert await FolderFiles(tmp_path).sweep(frozenset({"file_1", "file_9"}), 0) == 2
    assert sorted(os.listdir(tmp_path)) == [".hidden", "file_1", "notes.txt"]


async def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "files")
    (tmp_path / "files").rmdir()
    with pytest.raises(StoreFailed, match="could not be listed"):
        await files.sweep(frozenset(), 0)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreFailed, match="cannot be made"):
        FolderFiles(tmp_path / "data" / "files")


# S3


async def test_an_upload_that_is_cut_off_leaves_nothing(
    bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_between(s3_server.address, 3_000_000) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for name, data in (("file_1", LARGE), ("file_2", LARGE[:4_000_000])):
            with pytest.raises(StoreFailed, match="could not be kept: the storage does not answer, or breaks off"):
                await put(open_files(f"s3://{bucket}"), name, data)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.address)
    files = open_files(f"s3://{bucket}")
    assert await files.ids() == frozenset()
    await put(files, "file_1", LARGE)
    assert await whole(files, "file_1") == LARGE


async def test_a_storage_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    files = open_files("s3://bucket/files")
    for asked in (files.size("file_1"), files.remove("file_1"), files.ids(), files.sweep(frozenset(), 0)):
        with pytest.raises(StoreFailed, match="does not answer") as caught:
            await asked
        assert "AWS_ENDPOINT_URL" in str(caught.value.hint)


async def test_a_storage_that_is_silent_is_told(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    async with in_between(s3_server.address) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        files: FileStore = import_module("lamella.storage.object_files").ObjectFiles.of(
            "s3://bucket", timedelta(seconds=0.3)
        )
        async with asyncio.timeout(20):
            with pytest.raises(StoreFailed, match="does not answer"):
                await put(files, "file_1", b"x")
            with pytest.raises(StoreFailed, match="does not answer"):
                await files.ids()


async def test_a_key_without_rights_is_told(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"content-length: 1\r\n" in head.lower():
            await reader.readexactly(1)
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.sockets[0].getsockname()[:2]))
    files = open_files("s3://bucket")
    for asked in (lambda: put(files, "file_1", b"x"), lambda: files.mark("one"), files.ids):
        with pytest.raises(StoreFailed, match="the key may not use the bucket bucket"):
            await asked()
    server.close()


async def test_a_bucket_that_is_missing_is_told(bucket: str) -> None:
    files = open_files(f"s3://{bucket}-missing/files")
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: put(files, "file_1", b"x"),
        lambda: put(files, "file_1", LARGE),
        lambda: files.mark("one"),
        files.ids,
    ]
    for one in asked:
        with pytest.raises(StoreFailed, match=f"there is no bucket {bucket}-missing"):
            await one()


@pytest.mark.parametrize("place", ["s3://", "s3:///prefix", "ftp://host/files", "gs://bucket"])
def test_a_place_that_is_none_is_refused(place: str, s3_server: S3Server) -> None:
    with pytest.raises(ConfigurationError):
        open_files(place)
