"""Uploads: received in pieces, kept under our own id, read in a child process, and stored as one row or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, NotFound, PayloadTooLarge, StoreFailed
from lamella.core.ids import Ids
from lamella.core.json import digest
from lamella.core.messages import Image
from lamella.core.records import Caller, File
from lamella.knowledge.extraction import Extractor, Picture
from lamella.storage import Store
from lamella.storage.file_store import FileStore

MAX_NAME = 255

ELSEWHERE_SECONDS, ELSEWHERE_PAUSE = 20.0, 0.1
"""How long an upload waits for the same one at another process, which may have ended, and the pause between two looks.
"""


def clean_name(name: str) -> str:
    """A file's name for display: the last part of its path, without control characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable()).strip()[:MAX_NAME] or "untitled"


def too_large(limit: int) -> PayloadTooLarge:
    """The answer to an upload of more than `limit` bytes."""
    size = f"{limit // 1_000_000:,} MB" if limit >= 1_000_000 else f"{limit:,} bytes"
    return PayloadTooLarge(
        f"The file is larger than {size}.", hint="Split it and upload the parts you need.", param="file"
    )


def _image(file_id: str, picture: Picture) -> Image:
    fingerprint = digest(picture.data)
    return Image(file_id, picture.media_type, picture.width, picture.height, fingerprint, picture.data)


class _Repeated(Exception):
    """The upload repeats one that is stored."""

    def __init__(self, file_id: str) -> None:
        super().__init__(file_id)
        self.file_id = file_id


class FileUploads:
    """Stores uploaded files of a caller."""

    def __init__(
        self, store: Store, uploads: FileStore, extractor: Extractor, clock: Clock, ids: Ids, max_bytes: int
    ) -> None:
        self._store = store
        self._uploads = uploads
        self._extractor = extractor
        self._clock = clock
        self._ids = ids
        self._max_bytes = max_bytes
        self._reading: set[str] = set()

    async def receive(
        self,
        caller: Caller,
        name: str,
        pieces: AsyncIterator[bytes],
        key: str | None = None,
        purpose: Callable[[], str] = lambda: "user_data",
    ) -> File:
        """Store an upload and its text or picture. An unreadable file is stored as failed, with the reason.

        `purpose` is asked when all bytes have come: a form may say it after its file. If the Idempotency-Key was used
        before with the same file, returns that file. Raises `PayloadTooLarge`,
        `InvalidRequest` or `IdempotencyMismatch`; then nothing is stored.
        """
        file_id = self._ids.new("file")
        self._reading.add(file_id)
        try:
            return await self._receive(caller, file_id, name, pieces, key, purpose)
        except _Repeated as known:
            return await self._store.files.file(caller, known.file_id)
        finally:
            self._reading.discard(file_id)

    async def _receive(
        self,
        caller: Caller,
        file_id: str,
        name: str,
        pieces: AsyncIterator[bytes],
        key: str | None,
        purpose: Callable[[], str],
    ) -> File:
        async with self._uploads.receive(file_id) as path:
            size, content = await write_upload(path, pieces, self._max_bytes)
            told, fingerprint = purpose(), digest(name.encode(), content)
            if key is not None:
                await self._claim(caller, key, fingerprint, file_id)
            try:
                extraction = await self._extractor.extract(path, clean_name(name))
            except BaseException:
                if key is not None:
                    await asyncio.shield(self._store.keys.release_key(caller, key, file_id))
                raise
        ready, picture = extraction.status == "ready", extraction.picture
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
            width=picture.width if picture else None,
            height=picture.height if picture else None,
            purpose=told,
        )
        text = extraction.text if ready and picture is None else None
        image = _image(file_id, picture) if picture else None
        while not await self._store.files.add_file(caller, file, text, image, key):
            try:
                await self._claim(caller, str(key), fingerprint, file_id)
            except _Repeated:
                await self._uploads.remove(file_id)
                raise
        return file

    async def _claim(self, caller: Caller, key: str, fingerprint: str, file_id: str) -> None:
        """Bind the key to this upload; raises `_Repeated` when it is bound to a file that is stored.

        Another process may be reading the same file: this waits for it. If nothing comes of it, the key is taken over,
        and that one stores nothing any more.
        """
        clock, keys, waited_for, until = self._clock, self._store.keys, "", 0.0
        while (bound := await keys.claim_key(caller, key, "files", fingerprint, file_id, clock.now())) != file_id:
            if bound in self._reading:
                raise InvalidRequest("The same file is still being read.", hint="Wait for its answer.", param="file")
            with suppress(NotFound):
                raise _Repeated((await self._store.files.file(caller, bound)).id)
            if bound != waited_for:
                waited_for, until = bound, clock.monotonic() + ELSEWHERE_SECONDS
            if self._store.database.process_id is None or clock.monotonic() > until:
                await keys.release_key(caller, key, bound)  # a process ended between the key and the file
            else:
                await clock.sleep(ELSEWHERE_PAUSE)


async def write_upload(path: Path, pieces: AsyncIterator[bytes], max_bytes: int) -> tuple[int, bytes]:
    """Write an upload to a path; returns its size and the fingerprint of its bytes.

    Raises `PayloadTooLarge`, `InvalidRequest` if empty, `StoreFailed`.
    """
    size, content = 0, blake2b(digest_size=16)
    try:
        with path.open("wb") as target:
            async for piece in pieces:
                size += len(piece)
                if size > max_bytes:
                    raise too_large(max_bytes)
                content.update(piece)
                await asyncio.to_thread(target.write, piece)
    except OSError as error:
        raise StoreFailed(f"The upload could not be kept: {error.strerror}.") from error
    if size == 0:
        raise InvalidRequest("The file is empty.", hint="Check that you saved it, and upload it again.", param="file")
    return size, content.digest()
