"""Where the bytes of uploads are: in a folder, which several servers may share, or in S3-compatible storage.

Each upload has an id made here: the name of a user's file is never a path. An upload appears under its id when it is
whole, and never changes. Example: `LAMELLA_FILES=s3://bucket/lamella` keeps `file_01j9…` as the object
`lamella/file_01j9…`.

What belongs to no row of the database is swept away. A mark, the id of the database, keeps a server from sweeping the
files of another one.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import blake2b, file_digest
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from time import time
from typing import Protocol

from lamella.core.errors import ConfigurationError, InvalidRequest, StoreFailed

SETTING = "LAMELLA_FILES"

MARK = "database.id"
"""The name of the mark."""

PIECE = 256 * 1024
"""Bytes that are read from a folder at once."""

DAY = 86_400.0
"""Seconds that an upload without a row is left alone where other servers store too: it may just be coming in."""

UNFINISHED = ".part"
_ID = re.compile(r"(?:file|doc)_[0-9a-z]+")


class FileStore(Protocol):
    """The bytes of uploads, by id. Its verbs raise `InvalidRequest` for what is no id, `StoreFailed` if it fails."""

    def receive(self, file_id: str) -> AbstractAsyncContextManager[Path]:
        """A path of this machine to write an upload to: kept when the block ends well, dropped when it raises."""
        ...

    def local(self, file_id: str) -> AbstractAsyncContextManager[Path]:
        """A path of this machine to read from. Nothing lies there if the file is missing."""
        ...

    async def size(self, file_id: str) -> int | None:
        """The number of bytes; None if the file is missing."""
        ...

    def read(self, file_id: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` up to before `end`, in pieces."""
        ...

    async def remove(self, file_id: str) -> None:
        """Remove a file, if it is there."""
        ...

    async def ids(self) -> frozenset[str]:
        """The ids of all whole files."""
        ...

    async def sweep(self, keep: frozenset[str], age: float) -> int:
        """Remove what is not to be kept and is older than `age` seconds; gives how many. Foreign names are left."""
        ...

    async def mark(self, mark: str) -> str:
        """The mark that is there. If there is none, this one is left."""
        ...


def checked_id(file_id: str) -> str:
    """An id; raises `InvalidRequest` for what is none."""
    if not _ID.fullmatch(file_id):
        raise InvalidRequest("This is not the id of a file.", param="file_id")
    return file_id


def is_upload(name: str) -> bool:
    """Whether a name is that of an upload, finished or not."""
    return _ID.fullmatch(name.removesuffix(UNFINISHED)) is not None


def open_files(place: str) -> FileStore:
    """The files at a place: the path of a folder, or `s3://BUCKET/PREFIX`. Raises `ConfigurationError`."""
    if "://" not in place:
        return FolderFiles(Path(place).expanduser())
    if not place.startswith("s3://"):
        raise ConfigurationError(
            f"Files can't be kept at {place}.", hint="Name a folder or s3://BUCKET/PREFIX.", param=SETTING
        )
    if find_spec("obstore") is None:
        raise ConfigurationError("S3 needs the package obstore.", hint="pip install 'lamella[s3]'", param=SETTING)
    made: FileStore = import_module("lamella.storage.object_files").ObjectFiles.of(place)
    return made


async def claim(files: FileStore, database_id: str, known: Callable[[], Awaitable[frozenset[str]]]) -> bool:
    """Mark files as those of a database; False if they have no mark and seem to be those of another one.

    `known` gives the ids of its rows, and is asked only if there is no mark yet. Raises `ConfigurationError` if the
    mark is that of another database.
    """
    found = await files.mark("")
    if not found:
        there = await files.ids()
        if there and not there & await known():
            return False
        found = await files.mark(database_id)
    if found != database_id:
        raise ConfigurationError(
            "The files belong to another database: uploads without a row here would be removed.",
            hint=f"Set {SETTING} to another place, or use the database that they belong to.",
            param=SETTING,
        )
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderFiles:
    """Files in a folder, of this machine or a volume that several servers mount."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFailed(f"The folder of uploads {folder} cannot be made: {error.strerror}.") from error

    def path(self, file_id: str) -> Path:
        """Where the bytes of a file lie."""
        return self._folder / checked_id(file_id)

    @asynccontextmanager
    async def receive(self, file_id: str) -> AsyncIterator[Path]:
        """See `FileStore`."""
        target = self.path(file_id)
        unfinished = target.with_name(target.name + UNFINISHED)
        try:
            yield unfinished
            await asyncio.to_thread(self._keep, unfinished, target)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def _keep(self, unfinished: Path, target: Path) -> None:
        """Let the file appear under its name only when it is whole on the disk."""
        try:
            _sync(unfinished)
            unfinished.replace(target)
            if os.name == "posix":
                _sync(self._folder)
        except OSError as error:
            raise StoreFailed(f"The upload could not be kept: {error.strerror}.") from error

    @asynccontextmanager
    async def local(self, file_id: str) -> AsyncIterator[Path]:
        """See `FileStore`: the file itself."""
        yield self.path(file_id)

    async def size(self, file_id: str) -> int | None:
        """See `FileStore`."""
        path = self.path(file_id)
        return await asyncio.to_thread(lambda: path.stat().st_size if path.is_file() else None)

    async def read(self, file_id: str, start: int, end: int) -> AsyncIterator[bytes]:
        """See `FileStore`."""
        try:
            with self.path(file_id).open("rb") as file:
                file.seek(start)
                while piece := await asyncio.to_thread(file.read, min(PIECE, end - start)):
                    start += len(piece)
                    yield piece
        except OSError as error:
            raise StoreFailed(f"The upload could not be read: {error.strerror}.") from error

    async def remove(self, file_id: str) -> None:
        """See `FileStore`."""
        try:
            await asyncio.to_thread(self.path(file_id).unlink, missing_ok=True)
        except OSError as error:
            raise StoreFailed(f"The upload could not be removed: {error.strerror}.") from error

    async def ids(self) -> frozenset[str]:
        """See `FileStore`."""
        found = await asyncio.to_thread(self._names)
        return frozenset(name for name in found if _ID.fullmatch(name))

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self._folder.iterdir()]
        except OSError as error:
            raise StoreFailed(f"The folder of uploads could not be listed: {error.strerror}.") from error

    async def sweep(self, keep: frozenset[str], age: float) -> int:
        """See `FileStore`; unfinished uploads are removed too."""
        return await asyncio.to_thread(self._sweep, keep, age)

    def _sweep(self, keep: frozenset[str], age: float) -> int:
        removed, before = 0, time() - age
        for name in self._names():
            path = self._folder / name
            try:
                if is_upload(name) and name not in keep and (not age or path.stat().st_mtime < before):
                    path.unlink(missing_ok=True)
                    removed += 1
            except FileNotFoundError:
                continue  # another server was quicker
            except OSError as error:
                raise StoreFailed(f"The folder of uploads could not be cleared up: {error.strerror}.") from error
        return removed

    async def mark(self, mark: str) -> str:
        """See `FileStore`."""
        return await asyncio.to_thread(self._marked, mark)

    def _marked(self, mark: str) -> str:
        path = self._folder / MARK
        try:
            if mark:
                with suppress(FileExistsError), path.open("x") as file:
                    file.write(mark)
            return path.read_text().strip() if path.is_file() else ""
        except OSError as error:
            raise StoreFailed(f"The folder of uploads can't be written: {error.strerror}.") from error


async def copy_file(source: FileStore, target: FileStore, file_id: str) -> int | None:
    """Copy a file unless its bytes are there, and compare what the target has with the source.

    Returns the number of bytes, None if the source lacks the file. Raises `StoreFailed` if they differ.
    """
    size = await source.size(file_id)
    if size is None:
        return None
    async with source.local(file_id) as path:
        wanted = await asyncio.to_thread(_digest_of, path)
        if await target.size(file_id) == size and await _digest_in(target, file_id, size) == wanted:
            return size
        async with target.receive(file_id) as receiving:
            await asyncio.to_thread(copyfile, path, receiving)
    if await target.size(file_id) != size or await _digest_in(target, file_id, size) != wanted:
        raise StoreFailed(f"The copy of {file_id} differs from its source.", hint="Copy again.")
    return size


def _digest_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file_digest(file, "blake2b").digest()


async def _digest_in(files: FileStore, file_id: str, size: int) -> bytes:
    found = blake2b()
    async for piece in files.read(file_id, 0, size):
        found.update(piece)
    return found.digest()
