"""Uploads in one folder, each under its own id; what a user calls a file is never a path."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from lamella.core.errors import InvalidRequest, StoreFailed

_ID = re.compile(r"(?:file|doc)_[0-9a-z]+")
_UNFINISHED = ".part"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderFileStore:
    """A `FileStore` on a folder, which is made when it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFailed(f"The folder of uploads {folder} cannot be made: {error.strerror}.") from error

    def path(self, file_id: str) -> Path:
        """Where the file lies; raises `InvalidRequest` for what is not a file's id."""
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
