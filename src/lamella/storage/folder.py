"""Files in a folder, and the lock that keeps a data folder to one process."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType

from lamella.core.errors import ConfigurationError, InvalidRequest, StoreFailed

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, shared: bool) -> None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int, *, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class FolderLock:
    """Holds a data folder, made when it is missing, from `acquire` to `release`; a context manager does both.

    Processes that serve one database together may share a folder.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._folder = folder
        self._shared = shared
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the folder; raises `ConfigurationError` when another process holds it or it cannot be written."""
        if self._descriptor is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / "lamella.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {self._folder} cannot be used: {error.strerror}.", param=str(self._folder)
            ) from error
        try:
            _lock(descriptor, shared=self._shared)
        except OSError as error:
            os.lseek(descriptor, 0, os.SEEK_SET)
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise ConfigurationError(
                f"Another lamella serves this data folder (pid {holder}).",
                hint="Wait if it is still starting; else end it, or choose another folder with --data.",
                param=str(self._folder),
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the folder go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


_ID = re.compile(r"(?:file|doc)_[0-9a-z]+")
_UNFINISHED = ".part"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileStore:
    """The bytes of uploads in a folder, under ids made here: the name of a user's file is never a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFailed(f"The folder of uploads {folder} cannot be made: {error.strerror}.") from error

    def path(self, file_id: str) -> Path:
        """Where the bytes of a file lie; raises `InvalidRequest` for what is no id."""
        if not _ID.fullmatch(file_id):
            raise InvalidRequest("This is not the id of a file.", param="file_id")
        return self._folder / file_id

    @asynccontextmanager
    async def receive(self, file_id: str) -> AsyncIterator[Path]:
        """A path to write the upload to; kept when the block ends well, removed when it raises."""
        target = self.path(file_id)
        unfinished = target.with_name(target.name + _UNFINISHED)
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

    async def remove(self, file_id: str) -> None:
        """Remove the file, if it lies there."""
        try:
            await asyncio.to_thread(self.path(file_id).unlink, missing_ok=True)
        except OSError as error:
            raise StoreFailed(f"The upload could not be removed: {error.strerror}.") from error

    async def sweep(self, keep: frozenset[str]) -> int:
        """Remove unfinished uploads and what belongs to no row; gives how many. Foreign names are left alone."""
        return await asyncio.to_thread(self._sweep, keep)

    def _sweep(self, keep: frozenset[str]) -> int:
        removed = 0
        try:
            for path in list(self._folder.iterdir()):
                if _ID.fullmatch(path.name.removesuffix(_UNFINISHED)) and path.name not in keep:
                    path.unlink(missing_ok=True)
                    removed += 1
        except OSError as error:
            raise StoreFailed(f"The folder of uploads could not be cleared up: {error.strerror}.") from error
        return removed
