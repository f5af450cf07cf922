"""Bytes of files."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol


class FileStore(Protocol):
    """Where the bytes of uploads lie, under ids made here; a user's file name is never a path."""

    def receive(self, file_id: str) -> AbstractAsyncContextManager[Path]:
        """A path to write the upload to; kept when the block ends well, removed when it raises."""
        ...

    def path(self, file_id: str) -> Path:
        """Where the file lies."""
        ...

    async def remove(self, file_id: str) -> None:
        """Remove the file, if it lies there; raises `StoreFailed`."""
        ...

    async def sweep(self, keep: frozenset[str]) -> int:
        """Remove what belongs to no row; gives how many."""
        ...
