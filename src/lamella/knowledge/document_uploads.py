"""Adds and removes documents: stored at once, indexed or cleared in the background by `Ingestion`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.ids import Ids
from lamella.core.json import digest
from lamella.core.knowledge import INGEST, Document, DocumentState, Shelf
from lamella.core.records import Caller, NewJob
from lamella.knowledge.file_uploads import clean_name, write_upload
from lamella.storage.file_store import FileStore
from lamella.storage.knowledge.store import KnowledgeStore

log = structlog.get_logger()


class DocumentUploads:
    """Adds documents of at most `max_bytes`, and removes them. `wake` starts the background work."""

    def __init__(
        self,
        store: KnowledgeStore,
        uploads: FileStore,
        wake: Callable[[], None],
        clock: Clock,
        ids: Ids,
        max_bytes: int,
    ) -> None:
        self._store = store
        self._uploads = uploads
        self._wake = wake
        self._clock = clock
        self._ids = ids
        self._max_bytes = max_bytes

    async def add(self, shelf: Shelf, name: str, pieces: AsyncIterator[bytes]) -> Document:
        """Store a document on a shelf; it is made ready in the background.

        The same bytes under the same name again are the document that is there. Raises `PayloadTooLarge`,
        `InvalidRequest` for an empty one, `StoreFailed`; then nothing is stored.
        """
        id, upload = self._ids.new("doc"), self._ids.new("doc")
        size, content = await self._receive(upload, pieces)
        now = self._clock.now()
        document = Document(id, shelf, clean_name(name), size, content, now, now, upload=upload)
        stored = await self._kept(upload, self._store.add_document(document, NewJob(INGEST, id, "it was added", now)))
        if stored.id != id:
            await self._drop(upload)
        self._wake()
        return stored

    async def replace(self, caller: Caller, document_id: str, name: str, pieces: AsyncIterator[bytes]) -> Document:
        """A new version of a document; the one before is found until it is indexed.

        The bytes that are there already change nothing. Raises as `add` does, and `NotFound`.
        """
        known = await self._store.document_on_shelf(caller, document_id)
        if known.is_file:
            raise InvalidRequest("A file of a project is not replaced.", hint="Upload another file.")
        upload = self._ids.new("doc")
        size, content = await self._receive(upload, pieces)
        name = clean_name(name) if name else known.name
        if (content, name) == (known.digest, known.name) and known.state is not DocumentState.FAILED:
            await self._drop(upload)
            return known
        now = self._clock.now()
        new = replace(known, name=name, size=size, digest=content, upload=upload, updated_at=now)
        job = NewJob(INGEST, document_id, "it was replaced", now, follows=True, takes_over=True)
        stored = await self._kept(upload, self._store.replace_document(caller, new, job))
        await self._drop(known.upload)
        self._wake()
        return stored

    async def again(self, caller: Caller, document_id: str) -> Document:
        """Read a document once more, as a new version. Raises `NotFound`. Searches use the old version until it is
        indexed.
        """
        job = NewJob(INGEST, document_id, "it is read again", self._clock.now(), follows=True, takes_over=True)
        stored = await self._store.renew_document(caller, document_id, job)
        self._wake()
        return stored

    async def remove(self, caller: Caller, document_id: str) -> None:
        """Remove a document: searches no longer find it, and its data is removed in the background."""
        known = await self._store.document_on_shelf(caller, document_id)
        await self._store.remove_document(caller, document_id)
        if not known.is_file:
            await self._drop(known.upload)
        self._wake()

    async def _receive(self, upload: str, pieces: AsyncIterator[bytes]) -> tuple[int, str]:
        """Store the bytes; returns their size and fingerprint."""
        async with self._uploads.receive(upload) as path:
            size, content = await write_upload(path, pieces, self._max_bytes)
        return size, digest(content)

    async def _drop(self, upload: str) -> None:
        """Remove bytes that no row needs. What can't be removed now is swept later, and the log says so."""
        try:
            await self._uploads.remove(upload)
        except StoreFailed as error:
            log.warning("the bytes of a document are left", upload=upload, error=error.message)

    async def _kept(self, upload: str, storing: Awaitable[Document]) -> Document:
        """The stored row; without one the bytes go."""
        try:
            return await storing
        except BaseException:
            await asyncio.shield(self._drop(upload))
            raise
