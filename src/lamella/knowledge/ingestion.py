"""Ingestion: documents are stored at once and made ready in the background, step by step, each of them resumable.

store ─▶ read (a limited child) ─▶ passages, not yet found ─▶ found by words ─▶ vectors ─▶ ready

A worker that dies loses nothing: the next one continues from the rows. The old version of a document is found until the
new one is ready. A long document is cut in a child process, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import anyio
import msgspec
import structlog

from lamella.background import Retry, Worker
from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, LamellaError, NotFound, ProviderError
from lamella.core.knowledge import CLEAR, ERASE, INGEST, Document, DocumentState, DocumentText, NewPassage, Shelf
from lamella.core.ports import Embedder, Jobs
from lamella.core.records import Caller, Job, NewJob
from lamella.knowledge.document_reader import DocumentReader
from lamella.knowledge.extraction import Extraction
from lamella.knowledge.passage_worker import BATCH, Batch, CutRequest
from lamella.knowledge.passages import embedded_text, passages_of
from lamella.search import lexical
from lamella.search.lexical import LexicalEmbedder
from lamella.storage.erasure import ErasureRows
from lamella.storage.file_store import FileStore
from lamella.storage.knowledge.store import KnowledgeStore

WORKER_MODULE = "lamella.knowledge.passage_worker"

SHORT = 50_000
"""Passages of texts up to so many characters are made in this process, since starting another would take longer."""

LONGEST_LINE = 16_000_000
"""Bytes of a batch of passages as JSON, at most."""


class PassageMaker(Protocol):
    """Makes the passages of documents."""

    def make(self, text: str, order: CutRequest) -> AsyncGenerator[Sequence[NewPassage], None]:
        """The passages of a text in batches, without those that the order skips. Closing it ends the work."""
        ...


class ProcessPassages:
    """A `PassageMaker` with a child process of low priority for each long text."""

    def __init__(self) -> None:
        self._lexical = LexicalEmbedder()  # it remembers words: most of one document stand in the next

    async def make(self, text: str, order: CutRequest) -> AsyncGenerator[Sequence[NewPassage], None]:
        """See `PassageMaker.make`. Raises `LamellaError` when the child breaks off."""
        if len(text) <= SHORT:
            for batch in await asyncio.to_thread(_at_once, text, order, self._lexical):
                yield batch
            return
        process = await _start()
        feeding = asyncio.create_task(_feed(process, text, order))
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                yield msgspec.json.decode(line, type=Batch).passages
            if await process.wait() != 0:
                raise LamellaError("The passages of the document could not be made.", hint="It is tried again.")
        finally:
            feeding.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()


async def _start() -> Process:
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-B", "-m", WORKER_MODULE),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=environment,
        limit=LONGEST_LINE,
        start_new_session=True,
    )


async def _feed(process: Process, text: str, order: CutRequest) -> None:
    """Send the child its text. If it has ended, its exit status has the reason."""
    assert process.stdin is not None
    with suppress(ConnectionError):
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.write(await asyncio.to_thread(text.encode))
        await process.stdin.drain()
    process.stdin.close()


def _at_once(text: str, order: CutRequest, lexical: LexicalEmbedder) -> list[list[NewPassage]]:
    embedder = lexical if order.lexical else None
    made = islice(passages_of(text, order.name, paged=order.paged, lexical=embedder), order.skip, None)
    batches = []
    while batch := list(islice(made, BATCH)):
        batches.append(batch)
    return batches


log = structlog.get_logger()

EMBEDDED_AT_ONCE = 64
"""Passages embedded in one request."""

CLEARED_AT_ONCE = 64
"""Passages that are removed in one transaction."""

ERASED_AGAIN = 5.0
"""Seconds until a removed base is erased once more, if something was in the way."""

RETRY_SECONDS = (15.0, 60.0, 300.0)
"""How long a document waits for an embeddings server that does not answer, attempt by attempt; then as the last."""

Changed = Callable[[Shelf], Awaitable[None]]
"""Called when a shelf's searchable documents changed."""


@dataclass(frozen=True, slots=True)
class IngestionTools:
    """The tools of ingestion: the reader, the passage maker and the embedder."""

    reader: DocumentReader
    embedder: Embedder
    passages: PassageMaker = field(default_factory=ProcessPassages)


class Ingestion:
    """Reads, splits and indexes documents in the background. `changed` is called after a shelf's searchable documents
    changed.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        making: IngestionTools,
        uploads: FileStore,
        jobs: Jobs,
        clock: Clock,
        changed: Changed | None = None,
        erasure: ErasureRows | None = None,
    ) -> None:
        self._store = store
        self._erasure = erasure
        self._making = making
        self._uploads = uploads
        self._clock = clock
        self._changed = changed
        self._worker = Worker(jobs, clock, {INGEST: self._ingest, CLEAR: self._clear, ERASE: self._erase})
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the jobs left by an ended process, and index projects' files and vectors of another embedder."""
        self._worker.start()
        self._starting = asyncio.create_task(self._take_up())

    async def close(self) -> None:
        """Stop. The next start continues."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._worker.close()

    @property
    def is_working(self) -> bool:
        """Whether its jobs are done."""
        return self._worker.is_working

    def wake(self) -> None:
        """Something was stored that is to be indexed: look now."""
        self._worker.wake()

    async def tell(self, shelf: Shelf) -> None:
        """Say that something else is found on a shelf."""
        if self._changed is not None:
            await self._changed(shelf)

    async def _take_up(self) -> None:
        try:
            await self._store.index_held_files(self._clock.now())
            for caller, document_id in await self._store.removed_documents():
                await self._worker.enqueue(caller, NewJob(CLEAR, document_id, "it was removed", self._clock.now()))
            for caller, document_id in await self._store.unready_documents(self._making.embedder.space.model):
                await self._worker.enqueue(caller, NewJob(INGEST, document_id, "it is not ready", self._clock.now()))
        except LamellaError as error:
            log.error("documents to index can't be read", error=error.message)

    async def _clear(self, job: Job) -> Retry | None:
        """Remove what is left of a removed document."""
        await self._clear_document(job.caller, job.subject)
        return None

    async def _clear_document(self, caller: Caller, document_id: str) -> None:
        """Bit by bit, its bytes first."""
        if upload := await self._store.removed_upload(caller, document_id):
            await self._uploads.remove(upload)
        while await self._store.clear_out(caller, document_id, CLEARED_AT_ONCE) == CLEARED_AT_ONCE:
            pass

    async def _erase(self, job: Job) -> Retry | None:
        """Erase what other readers' conversations hold of a removed base, one after the other, then the free pages."""
        if self._erasure is None:
            return Retry("Nothing can be erased here.", retry=False)
        erased = [
            await self._erasure.erase_base(caller, conversation_id, job.subject)
            for caller, conversation_id in await self._erasure.conversations_of_base(job.caller, job.subject)
        ]
        if not all(erased):
            return Retry("A turn runs in a conversation that is to be erased.", ERASED_AGAIN)
        for document_id in await self._erasure.documents_left(job.caller, job.subject):
            await self._clear_document(job.caller, document_id)
        if not await self._erasure.scrub():
            return Retry("The database is being read.", ERASED_AGAIN)
        return None

    async def _ingest(self, job: Job) -> Retry | None:
        """Make a document searchable, from any state. A document that was removed or replaced meanwhile is dropped."""
        try:
            document = await self._store.document_on_shelf(job.caller, job.subject)
        except NotFound:
            return None
        if document.state is DocumentState.FAILED:
            return None
        is_found = document.found == document.version
        state = DocumentState.EMBEDDING if is_found else await self._index(job.caller, document)
        if state is not None and document.version > 1:  # of a first version nothing is left over
            await self._clear(job)
        if state is DocumentState.EMBEDDING:
            return await self._embed(job, document)
        await self.tell(document.shelf)
        return None

    async def _index(self, caller: Caller, document: Document) -> DocumentState | None:
        """Read a version and let it be found by its words; gives its state, None if it can't be read, or is the newest
        no more.
        """
        if not await self._say(caller, document, DocumentState.READING):
            return None
        read = await self._making.reader.read(caller, document)
        if read.status != "ready":
            await self._say(caller, document, DocumentState.FAILED, read.code, read.reason)
            return None
        # The passages of a short text are stored in less time than it takes to say that they are being stored.
        if len(read.text) > SHORT and not await self._say(caller, document, DocumentState.INDEXING):
            return None
        return await self._stage(caller, document, read)

    async def _stage(self, caller: Caller, document: Document, read: Extraction) -> DocumentState | None:
        """Store the passages after those that are stored already, then let all of them be found at once."""
        store, id, version, model = self._store, document.id, document.version, self._making.embedder.space.model
        count, end = await store.staged(caller, id, version)
        order = CutRequest(document.name, read.pages is not None, model == lexical.SPACE.model, count)
        async with aclosing(self._making.passages.make(read.text, order)) as batches:
            async for batch in batches:
                if batch[0].start != end:  # what is stored was cut by another rule
                    await store.unstage(caller, id, version)
                    raise LamellaError(f"The passages of “{document.name}” were inconsistent and are made again.")
                if not await store.stage(caller, id, version, count, batch, model):
                    return None
                count, end = count + len(batch), batch[-1].end
        facts = DocumentText(read.media_type, read.tokens, read.pages)
        return await store.publish(caller, id, version, facts, self._clock.now(), model)

    async def _embed(self, job: Job, document: Document) -> Retry | None:
        """Make the missing vectors; waits while the embedder is unavailable."""
        caller, store, model = job.caller, self._store, self._making.embedder.space.model
        left = await store.begin_embedding(caller, document.id, document.version, model)
        if left is None:
            return None
        try:
            while left and (waiting := await store.unembedded_passages(caller, document.id, model, EMBEDDED_AT_ONCE)):
                made = await self._making.embedder.embed([embedded_text(one.text, one.headings) for one in waiting])
                vectors = dict(zip((one.entry for one in waiting), made.vectors, strict=True))
                if not await store.embed_passages(caller, document.id, model, vectors):
                    return None
        except ProviderError as error:
            return await self._waits(job, document, "embeddings_unavailable", error)
        except InvalidRequest as error:
            return await self._waits(job, document, "wrong_dimension", error)
        await store.finish_document(caller, document.id, document.version, model, self._clock.now())
        await self.tell(document.shelf)
        return None

    async def _waits(self, job: Job, document: Document, code: str, error: LamellaError) -> Retry | None:
        reason = f"{error.message} {error.hint or ''}".strip()
        if not await self._say(job.caller, document, DocumentState.EMBEDDING, code, reason):
            return None
        return Retry(reason, RETRY_SECONDS[min(job.attempts, len(RETRY_SECONDS)) - 1])

    async def _say(
        self,
        caller: Caller,
        document: Document,
        state: DocumentState,
        code: str | None = None,
        reason: str | None = None,
    ) -> bool:
        now = self._clock.now()
        return await self._store.say_state(caller, document.id, document.version, state, now, code=code, reason=reason)
