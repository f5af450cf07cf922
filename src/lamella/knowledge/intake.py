"""Uploads: received in pieces, kept under our own id, read in a child process, and stored as one row or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, PayloadTooLarge, StoreFailed
from lamella.core.ids import Ids
from lamella.core.ports import FileStore, Store
from lamella.core.records import Caller, File
from lamella.knowledge.extraction import Extractor

MAX_NAME = 255


def clean_name(name: str) -> str:
    """A file's name as it is shown: the last part of whatever path it came with, without control characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable()).strip()[:MAX_NAME] or "untitled"


def too_large(limit: int) -> PayloadTooLarge:
    """The answer to an upload of more than `limit` bytes."""
    size = f"{limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"{limit:,} bytes"
    return PayloadTooLarge(
        f"The file is larger than {size}.", hint="Split it and upload the parts you need.", param="file"
    )


class Intake:
    """Takes files in for a caller."""

    def __init__(
        self, store: Store, uploads: FileStore, extractor: Extractor, clock: Clock, ids: Ids, max_bytes: int
    ) -> None:
        self._store = store
        self._uploads = uploads
        self._extractor = extractor
        self._clock = clock
        self._ids = ids
        self._max_bytes = max_bytes

    async def receive(self, caller: Caller, name: str, pieces: AsyncIterator[bytes]) -> File:
        """Store an upload and its text. A file that can't be read is stored as failed, with the reason.

        Raises `PayloadTooLarge` or `InvalidRequest`; then nothing is stored.
        """
        file_id = self._ids.new("file")
        async with self._uploads.receive(file_id) as path:
            size = await self._write(path, pieces)
            extraction = await self._extractor.extract(path, clean_name(name))
        ready = extraction.status == "ready"
        file = File(
            id=file_id,
            name=clean_name(name),
            media_type=extraction.media_type,
            size=size,
            status=extraction.status,
            tokens=extraction.tokens,
            created_at=self._clock.now(),
            pages=extraction.pages,
            code=extraction.code,
            reason=extraction.reason,
        )
        await self._store.add_file(caller, file, extraction.text if ready else None)
        return file

    async def _write(self, path: Path, pieces: AsyncIterator[bytes]) -> int:
        size = 0
        try:
            with path.open("wb") as target:
                async for piece in pieces:
                    size += len(piece)
                    if size > self._max_bytes:
                        raise too_large(self._max_bytes)
                    await asyncio.to_thread(target.write, piece)
        except OSError as error:
            raise StoreFailed(f"The upload could not be kept: {error.strerror}.") from error
        if size == 0:
            raise InvalidRequest(
                "The file is empty.", hint="Check that you saved it, and upload it again.", param="file"
            )
        return size
