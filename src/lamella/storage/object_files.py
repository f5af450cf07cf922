"""Uploads in S3-compatible storage, one object each. The only module that loads `obstore`.

What is received is written to a temporary file of this machine first: its text is read from there, and only a whole
file is sent, in parts of 5 MB if it is larger. An object appears when its last part has come, so nothing half stored is
ever seen. Address, region and key come from the variables that all programs for S3 know: `AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import obstore
import structlog
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.storage.file_store import MARK, SETTING, checked_id, is_upload

PART = 5 * 1024 * 1024
"""Bytes of a part of a large upload: the least that S3 takes."""

PARTS_AT_ONCE = 3
"""Parts of one upload that are on their way at the same time."""

PIECE = 1024 * 1024
"""Bytes that are read at once, at least."""

ANSWER, CONNECT = timedelta(seconds=30), timedelta(seconds=5)
"""How long a request may take, and connecting for it. After as long no further attempt begins."""

RETRIES = 3

log = structlog.get_logger()


def _object_only(error: FileNotFoundError) -> None:
    """An object is missing, which is no failure; raises the error again if the bucket is."""
    if "NoSuchBucket" in str(error):
        raise error


class ObjectFiles:
    """Files in a bucket."""

    def __init__(self, store: S3Store, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    @classmethod
    def of(cls, place: str, answer: timedelta = ANSWER) -> ObjectFiles:
        """Those of `s3://BUCKET/PREFIX`. Nothing is asked yet. Raises `ConfigurationError`."""
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        if not bucket:
            raise ConfigurationError(f"{place} names no bucket.", hint="Write s3://BUCKET/PREFIX.", param=SETTING)
        try:
            store = S3Store(
                bucket,
                prefix=prefix.strip("/") or None,
                client_options={"timeout": answer, "connect_timeout": CONNECT, "allow_http": True},
                retry_config={"max_retries": RETRIES, "retry_timeout": answer},
            )
        except BaseError as error:
            why = str(error).split("\n", 1)[0]
            raise ConfigurationError(f"{place} can't be used: {why}", hint="Look at the AWS variables.") from error
        return cls(store, bucket)

    @asynccontextmanager
    async def receive(self, file_id: str) -> AsyncIterator[Path]:
        """See `FileStore`. An id is used once, so what a retry finds under it is its own."""
        name = checked_id(file_id)
        with await asyncio.to_thread(TemporaryDirectory, prefix="lamella-upload-") as folder:
            path = Path(folder) / name
            yield path
            if not await asyncio.to_thread(path.is_file):
                raise StoreFailed("The upload could not be kept: it was not written.")
            with self._failures("The upload could not be kept"):
                await obstore.put_async(self._store, name, path, chunk_size=PART, max_concurrency=PARTS_AT_ONCE)

    @asynccontextmanager
    async def local(self, file_id: str) -> AsyncIterator[Path]:
        """See `FileStore`: a temporary copy."""
        name = checked_id(file_id)
        with await asyncio.to_thread(TemporaryDirectory, prefix="lamella-file-") as folder:
            path = Path(folder) / name
            with self._failures("The upload could not be read"):
                await self._fetch(name, path)
            yield path

    async def _fetch(self, name: str, path: Path) -> None:
        try:
            found = await obstore.get_async(self._store, name)
        except FileNotFoundError as error:
            _object_only(error)
            return
        with path.open("wb") as file:
            async for piece in found.stream(min_chunk_size=PIECE):
                await asyncio.to_thread(file.write, piece)

    async def size(self, file_id: str) -> int | None:
        """See `FileStore`."""
        with self._failures("The upload could not be read"):
            try:
                return int((await obstore.head_async(self._store, checked_id(file_id)))["size"])
            except FileNotFoundError as error:
                _object_only(error)
                return None

    async def read(self, file_id: str, start: int, end: int) -> AsyncIterator[bytes]:
        """See `FileStore`."""
        if start >= end:
            return
        with self._failures("The upload could not be read"):
            found = await obstore.get_async(self._store, checked_id(file_id), options={"range": (start, end)})
            async for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    async def remove(self, file_id: str) -> None:
        """See `FileStore`."""
        with self._failures("The upload could not be removed"):
            await self._remove(checked_id(file_id))

    async def _remove(self, name: str) -> None:
        try:
            await obstore.delete_async(self._store, name)
        except FileNotFoundError as error:
            _object_only(error)

    async def ids(self) -> frozenset[str]:
        """See `FileStore`."""
        return frozenset([str(found["path"]) async for found in self._listed()])

    async def _listed(self) -> AsyncIterator[Any]:
        with self._failures("The uploads could not be listed"):
            async for batch in obstore.list(self._store, chunk_size=1_000):
                for found in batch:
                    if is_upload(found["path"]):
                        yield found

    async def sweep(self, keep: frozenset[str], age: float) -> int:
        """See `FileStore`. Its own clock says how old an object is."""
        before = datetime.now(UTC) - timedelta(seconds=age)
        old = [one["path"] async for one in self._listed() if one["path"] not in keep and one["last_modified"] < before]
        with self._failures("Uploads without a row could not be removed"):
            for name in old:
                await self._remove(name)
        return len(old)

    async def mark(self, mark: str) -> str:
        """See `FileStore`."""
        with self._failures("The files can't be marked"):
            if mark:
                with suppress(AlreadyExistsError):
                    await obstore.put_async(self._store, MARK, mark.encode(), mode="create")
            try:
                found = await obstore.get_async(self._store, MARK)
                return bytes(await found.bytes_async()).decode().strip()
            except FileNotFoundError as error:
                _object_only(error)
                return ""

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """Errors of the storage in plain words; the log has its own."""
        try:
            yield
        except (BaseError, FileNotFoundError, TimeoutError) as error:
            log.error("S3 failed", what=what, cause=str(error)[:500])
            why, hint = self._explained(error)
            raise StoreFailed(f"{what}: {why}.", hint=hint) from error

    def _explained(self, error: Exception) -> tuple[str, str]:
        """What went wrong, and what to do."""
        said = str(error)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or "AccessDenied" in said:
            return f"the key may not use the bucket {self._bucket}", "Look at AWS_ACCESS_KEY_ID and its rights."
        if isinstance(error, FileNotFoundError) or "NoSuchBucket" in said:
            return f"there is no bucket {self._bucket}", f"Make it, or set {SETTING} to another one."
        if "credential" in said.lower() or "169.254.169.254" in said:
            return "there is no key for it", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        return (
            "the storage does not answer, or breaks off",
            "Is the address AWS_ENDPOINT_URL up? Try again in a moment.",
        )
