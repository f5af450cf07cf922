"""Ingestion: documents become ready in the background, and nothing is lost when something dies, fails or goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from lamella.core.clock import SystemClock, VirtualClock
from lamella.core.errors import InvalidRequest, NotFound, PayloadTooLarge, ProviderUnreachable
from lamella.core.ids import RandomIds
from lamella.core.knowledge import INGEST, Document, DocumentState, NewPassage, Shelf
from lamella.core.ports import Embedder
from lamella.core.recall import Embedded
from lamella.core.records import Caller, File, JobStatus, PageQuery, ProjectContent
from lamella.knowledge.document_reader import DocumentReader
from lamella.knowledge.document_uploads import DocumentUploads
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.ingestion import Ingestion, IngestionTools, PassageMaker, ProcessPassages
from lamella.knowledge.passage_worker import BATCH, CutRequest
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.search.lexical import LexicalEmbedder
from lamella.search.vectors import packed
from lamella.storage import Store, open_store
from lamella.storage.file_store import FolderFiles
from lamella.storage.knowledge.store import KnowledgeStore
from storage.examples import ANN, NOON

pytestmark = pytest.mark.anyio

FoundT = TypeVar("FoundT")

SHELF = Shelf(ANN.user_id, "kb_1")
LONG = "\n\n".join(f"# Part {n}\n\nThe number {n} is told of here. {'Words that fill it. ' * 40}" for n in range(120))


class Remote:
    """An embedder over a network: it answers when it is let, fails, or gives another dimension."""

    is_local = False

    def __init__(self) -> None:
        made = LexicalEmbedder()
        self.space = replace(made.space, model="remote")
        self._made = made
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        self.let.set()
        self.fails = False
        self.dimension: int | None = None
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked.set()
        await self.let.wait()
        if self.fails:
            raise ProviderUnreachable("The embeddings server does not answer.")
        self.texts += len(texts)
        if self.dimension is not None:
            return Embedded(tuple(packed([1.0] * self.dimension) for _ in texts))
        return await self._made.embed(texts)

    async def close(self) -> None:
        pass


class Held:
    """Makes passages, and stops behind so many batches until it is let go on."""

    def __init__(self, batches: int) -> None:
        self._left = batches
        self.held, self.let = asyncio.Event(), asyncio.Event()

    async def make(self, text: str, order: CutRequest) -> AsyncGenerator[Sequence[NewPassage], None]:
        async for batch in ProcessPassages().make(text, order):
            if self._left == 0:
                self.held.set()
                await self.let.wait()
            self._left -= 1
            yield batch


@dataclass(frozen=True, slots=True)
class Playback:
    store: Store
    knowledge: KnowledgeStore
    ingestion: Ingestion
    deposits: DocumentUploads
    uploads: FolderFiles
    clock: VirtualClock

    async def add(self, name: str, text: str | bytes) -> Document:
        return await self.deposits.add(SHELF, name, pieces(text))

    async def until(self, id: str, fits: Callable[[Document], bool]) -> Document:
        """The document once it fits; works off what is due meanwhile."""

        async def look() -> Document | None:
            found = await self.knowledge.document_on_shelf(ANN, id)
            return found if fits(found) else None

        return await until(look)

    async def ready(self, id: str) -> Document:
        return await self.until(id, lambda d: d.state is DocumentState.READY)

    async def find(self, query: str, embedder: Embedder | None = None) -> list[str]:
        search = KnowledgeSearch(self.knowledge, embedder or LexicalEmbedder())
        return [hit.passage.text for hit in (await search.search(Searched((SHELF,)), query)).hits]

    def later(self, seconds: float) -> None:
        """Let time pass, so that what waits is due."""
        self.clock.advance(seconds)
        self.ingestion.wake()


async def until(look: Callable[[], Awaitable[FoundT | None]]) -> FoundT:
    """What a look gives, once it gives something."""
    async with asyncio.timeout(30):
        while True:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(0.005)


async def pieces(text: str | bytes) -> AsyncIterator[bytes]:
    yield text.encode() if isinstance(text, str) else text


def stored(folder: Path) -> list[str]:
    """The uploads that lie in the folder."""
    return [path.name for path in (folder / "uploads").iterdir()]


@asynccontextmanager
async def opened(
    folder: Path, embedder: Embedder | None = None, maker: PassageMaker | None = None
) -> AsyncIterator[Playback]:
    async with await open_store(folder / "a.db") as store:
        clock = VirtualClock(NOON)
        ids = RandomIds(SystemClock())
        knowledge = KnowledgeStore(store.database, ids)
        uploads = FolderFiles(folder / "uploads")
        extractor = ProcessExtractor(ExtractionLimits())
        chosen = embedder or LexicalEmbedder()
        making = IngestionTools(DocumentReader(store.files, uploads, extractor), chosen, maker or ProcessPassages())
        ingestion = Ingestion(knowledge, making, uploads, store.jobs, clock)
        deposits = DocumentUploads(knowledge, uploads, ingestion.wake, clock, ids, 1_000_000)
        ingestion.start()
        try:
            yield Playback(store, knowledge, ingestion, deposits, uploads, clock)
        finally:
            await ingestion.close()


async def test_a_document_becomes_ready_and_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        added = await stage.add("guide.md", "# Airships\n\nA zeppelin is filled with hydrogen.")
        assert added.state is DocumentState.WAITING
        done = await stage.ready(added.id)
        assert (done.passages, done.embedded, done.media_type, done.found) == (1, 1, "text/markdown", 1)
        assert await stage.find("zeppelin") == ["# Airships\n\nA zeppelin is filled with hydrogen."]


async def test_a_long_document_is_the_text_in_passages(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        added = await stage.add("long.md", LONG)
        done = await stage.ready(added.id)
        passages = await stage.knowledge.passages_of(ANN, added.id)
        assert "".join(passage.text for passage in passages) == LONG.strip("\n")
        assert done.passages == done.embedded == len(passages) > 100
        assert "number 77 is" in (await stage.find("the number 77"))[0]


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.pdf", b"%PDF-1.4 broken", "corrupt"),
        ("a.txt", b" \n ", "empty"),
        ("a.docx", b"PK\x03\x04 broken", "corrupt"),
        ("a.exe", b"MZ\x90\x00" + bytes(300), "not_text"),
    ],
)
async def test_a_document_that_cannot_be_read_says_why(tmp_path: Path, name: str, data: bytes, code: str) -> None:
    async with opened(tmp_path) as stage:
        added = await stage.add(name, data)
        failed = await stage.until(added.id, lambda d: d.state is DocumentState.FAILED)
        assert failed.code == code
        assert failed.reason


async def test_too_large_and_empty_uploads_store_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        with pytest.raises(PayloadTooLarge):
            await stage.add("a.txt", "x" * 1_000_001)
        with pytest.raises(InvalidRequest, match="empty"):
            await stage.add("a.txt", "")
        assert (await stage.knowledge.documents_on_shelf(SHELF, PageQuery())).data == ()
        assert stored(tmp_path) == []


async def test_without_an_embeddings_server_words_are_found_and_vectors_come_later(tmp_path: Path) -> None:
    remote = Remote()
    remote.fails = True
    async with opened(tmp_path, remote) as stage:
        added = await stage.add("a.md", "A zeppelin.")
        waiting = await stage.until(added.id, lambda d: d.code is not None)
        assert (waiting.state, waiting.code) == (DocumentState.EMBEDDING, "embeddings_unavailable")
        assert "does not answer" in (waiting.reason or "")
        assert await stage.find("zeppelin", remote) == ["A zeppelin."]
        for _ in range(5):  # however often: it is never given up
            await wait_for_job(stage, added.id, JobStatus.WAITING)
            remote.asked.clear()
            stage.later(301)
            await asyncio.wait_for(remote.asked.wait(), 10)
            await stage.until(added.id, lambda d: d.code is not None)
        remote.fails = False
        await wait_for_job(stage, added.id, JobStatus.WAITING)
        stage.later(301)
        done = await stage.ready(added.id)
        assert (done.embedded, done.code, done.reason) == (1, None, None)


async def wait_for_job(stage: Playback, id: str, status: JobStatus) -> None:
    async def look() -> bool | None:
        job = await stage.store.jobs.job(ANN, INGEST, id)
        return (job is not None and job.status is status) or None

    await until(look)


async def test_a_wrong_dimension_is_told_and_can_be_mended(tmp_path: Path) -> None:
    remote = Remote()
    async with opened(tmp_path, remote) as stage:
        await stage.ready((await stage.add("a.md", "A zeppelin.")).id)
        remote.dimension = 3
        added = await stage.add("b.md", "A quagga.")
        waiting = await stage.until(added.id, lambda d: d.code is not None)
        assert waiting.code == "wrong_dimension"
        assert "3 numbers" in (waiting.reason or "")
        remote.dimension = None
        await wait_for_job(stage, added.id, JobStatus.WAITING)
        stage.later(301)
        await stage.ready(added.id)


async def test_a_new_version_replaces_the_old_one_and_a_broken_one_does_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        first = await stage.ready((await stage.add("a.md", "A zeppelin.")).id)
        same = await stage.deposits.replace(ANN, first.id, "a.md", pieces("A zeppelin."))
        assert same.version == 1
        await stage.deposits.replace(ANN, first.id, "a.md", pieces("A quagga."))
        done = await stage.until(first.id, lambda d: d.state is DocumentState.READY and d.found == 2)
        assert await stage.find("zeppelin") == []
        assert await stage.find("quagga") == ["A quagga."]
        await stage.deposits.replace(ANN, first.id, "a.pdf", pieces(b"%PDF-1.4 broken"))
        failed = await stage.until(first.id, lambda d: d.state is DocumentState.FAILED)
        assert (failed.version, failed.found) == (3, done.found)
        assert await stage.find("quagga") == ["A quagga."]
        assert stored(tmp_path) == [failed.upload]


async def test_a_document_that_is_removed_while_it_is_ingested_leaves_nothing(tmp_path: Path) -> None:
    maker = Held(2)
    async with opened(tmp_path, maker=maker) as stage:
        added = await stage.add("long.md", LONG)
        await asyncio.wait_for(maker.held.wait(), 10)
        assert (await stage.knowledge.staged(ANN, added.id, 1))[0] == 2 * BATCH
        await stage.deposits.remove(ANN, added.id)
        maker.let.set()

        async def cleared() -> bool | None:
            return not await stage.knowledge.removed_documents() or None

        await until(cleared)
        with pytest.raises(NotFound):
            await stage.knowledge.document_on_shelf(ANN, added.id)
        assert (await stage.knowledge.staged(ANN, added.id, 1))[0] == 0
        assert stored(tmp_path) == []


async def test_a_worker_that_ends_in_the_middle_is_gone_on_from(tmp_path: Path) -> None:
    maker = Held(2)
    async with opened(tmp_path, maker=maker) as stage:
        added = await stage.add("long.md", LONG)
        await asyncio.wait_for(maker.held.wait(), 10)
    seen: list[int] = []

    class Watched:
        async def make(self, text: str, order: CutRequest) -> AsyncGenerator[Sequence[NewPassage], None]:
            seen.append(order.skip)
            async for batch in ProcessPassages().make(text, order):
                yield batch

    async with opened(tmp_path, maker=Watched()) as stage:
        await stage.ready(added.id)
        passages = await stage.knowledge.passages_of(ANN, added.id)
        assert "".join(passage.text for passage in passages) == LONG.strip("\n")
        assert [passage.position for passage in passages] == list(range(len(passages)))
    assert seen == [2 * BATCH]


async def test_vectors_that_were_made_are_not_made_again(tmp_path: Path) -> None:
    remote = Remote()
    async with opened(tmp_path, remote) as stage:
        added = await stage.add("long.md", LONG)
        done = await stage.ready(added.id)
        assert remote.texts == done.passages
        await stage.deposits.replace(ANN, added.id, "long.md", pieces(LONG + "\n\n# Last\n\n" + "One more. " * 60))
        again = await stage.until(added.id, lambda d: d.state is DocumentState.READY and d.found == 2)
        assert remote.texts - done.passages <= 3 < again.passages


async def test_another_embedder_makes_all_vectors_anew_in_the_background(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        added = await stage.ready((await stage.add("a.md", "A zeppelin.")).id)
        assert added.model == LexicalEmbedder().space.model
    remote = Remote()
    async with opened(tmp_path, remote) as stage:
        await stage.until(added.id, lambda d: d.model == "remote")
        assert remote.texts == 1
        assert await stage.find("zeppelin", remote) == ["A zeppelin."]


async def test_files_of_projects_are_indexed_and_go_with_the_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        file = File("file_1", "plan.md", "text/markdown", 9, "ready", 4, NOON)
        await stage.store.files.add_file(ANN, file, "The zeppelin lands at noon.")
        await stage.store.library.add_project(ANN, "proj_1", ProjectContent("Plans", "", ("file_1",)), NOON)
        stage.ingestion.wake()
        done = await stage.ready("file_1")
        assert (done.shelf, done.tokens) == (Shelf(ANN.user_id), 4)
        search = KnowledgeSearch(stage.knowledge, LexicalEmbedder())
        where = Searched((Shelf(ANN.user_id),), frozenset({"file_1"}))
        assert [hit.document.id for hit in (await search.search(where, "zeppelin")).hits] == ["file_1"]
        await stage.store.library.delete_project(ANN, "proj_1")
        await stage.store.files.delete_file(ANN, "file_1")
        stage.ingestion.wake()
        assert (await search.search(where, "zeppelin")).hits == ()


async def test_what_projects_held_before_is_indexed_by_the_next_start(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "a.db") as store:
        file = File("file_1", "plan.md", "text/markdown", 9, "ready", 4, NOON)
        await store.files.add_file(ANN, file, "The zeppelin lands at noon.")
        await store.library.add_project(ANN, "proj_1", ProjectContent("Plans", "", ("file_1",)), NOON)
        for table in ("knowledge_documents", "jobs"):
            await store.database.write(partial(Connection.exec_driver_sql, statement=f"DELETE FROM {table}"))
    async with opened(tmp_path) as stage:

        async def taken_up() -> bool | None:
            return (await stage.knowledge.shelf_totals(Shelf(ANN.user_id))).documents > 0 or None

        await until(taken_up)
        await stage.ready("file_1")


async def test_nobody_else_can_touch_a_document(tmp_path: Path) -> None:
    bob = Caller("user_bob")
    async with opened(tmp_path) as stage:
        added = await stage.add("a.md", "A zeppelin.")
        with pytest.raises(NotFound):
            await stage.deposits.remove(bob, added.id)
        with pytest.raises(NotFound):
            await stage.deposits.replace(bob, added.id, "a.md", pieces("mine"))
        await stage.ready(added.id)


async def test_neighbours_are_shown_as_one_and_a_query_of_several_questions_is_one(tmp_path: Path) -> None:
    text = "\n\n".join(f"# Step {n}\n\nThe zeppelin rises, step {n}. {'More of it. ' * 60}" for n in range(4))
    async with opened(tmp_path) as stage:
        await stage.ready((await stage.add("a.md", text)).id)
        remote = Remote()
        search = KnowledgeSearch(stage.knowledge, remote)
        found = await search.search(Searched((SHELF,)), "When does the zeppelin rise? Who steps out of it?")
        assert remote.texts == 1
        [hit, *_] = found.hits
        assert hit.passage.text == text[hit.passage.start : hit.passage.end]
        assert hit.passage.text.count("# Step") > 1


async def test_of_many_tiny_documents_none_is_lost_when_the_embeddings_fail_in_the_middle(tmp_path: Path) -> None:
    remote = Remote()
    async with opened(tmp_path, remote) as stage:
        first = [await stage.add(f"{number}.md", f"Zeppelin number {number}.") for number in range(6)]
        await stage.ready(first[0].id)
        remote.fails = True
        rest = [await stage.add(f"{number}.md", f"Zeppelin number {number}.") for number in range(6, 12)]
        waiting = await stage.until(rest[-1].id, lambda d: d.code == "embeddings_unavailable")
        assert waiting.found == 1  # by its words
        remote.fails = False
        for document in (*first, *rest):
            await wait_for_ready(stage, document.id)
        totals = await stage.knowledge.shelf_totals(SHELF)
        assert (totals.documents, totals.found, totals.embedded, totals.unfinished) == (12, 12, 12, 0)
        assert len(await stage.find("zeppelin")) == 10


async def wait_for_ready(stage: Playback, id: str) -> None:
    """Until it is ready, while the time passes for which it waits."""

    async def look() -> bool | None:
        if (await stage.knowledge.document_on_shelf(ANN, id)).state is DocumentState.READY:
            return True
        stage.later(301)
        return None

    await until(look)
