"""How quickly documents are found, and what ingestion costs others.

`python bench/knowledge_search.py search | ingest | tiny | quality | collection FILE …`: a collection has judgements, in
the form that `judged_documents.py` says, and is searched by plain BM25 too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from judged_documents import collection
from knowledge_corpus import CORPUS, QUERIES
from lamella.app.app import LOCAL_OWNER, App
from lamella.app.embedding import embedder_of
from lamella.core.access import BaseContent
from lamella.core.clock import SystemClock
from lamella.core.ids import RandomIds
from lamella.core.knowledge import Document, DocumentText, KnowledgeQuery, NewPassage, Shelf
from lamella.core.records import Caller, NewJob
from lamella.knowledge.passages import embedded_text, passages_of
from lamella.search.lexical import LexicalEmbedder
from lamella.search.terms import query_words, terms_of
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.store import open_store

OWNER = Caller("user_bench")
SHELF = Shelf(OWNER.user_id, "kb_bench")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = DocumentText("text/plain", 0, None)
IN_A_DOCUMENT = 500
AT_ONCE = 250
POOL = 5_000


def vocabulary(count: int = 20_000) -> list[str]:
    """Made-up words, the same in every run."""
    pick = random.Random(7)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    return ["".join(pick.choices(syllables, k=pick.randint(2, 4))) for _ in range(count)]


class Texts:
    """Passages whose words are as unevenly spread as those of a language (Zipf)."""

    def __init__(self) -> None:
        self._words = vocabulary()
        self._weights = [1 / rank for rank in range(1, len(self._words) + 1)]
        self._pick = random.Random(11)

    def words(self, count: int) -> list[str]:
        return self._pick.choices(self._words, self._weights, k=count)

    def passage(self) -> str:
        return " ".join(self.words(200))


async def fill(knowledge: KnowledgeStore, count: int) -> None:
    """Store so many passages, quicker than by reading documents: drawn from `POOL` different ones."""
    texts, lexical, pick = Texts(), LexicalEmbedder(), random.Random(13)
    model, pool = lexical.space.model, []
    for text in (texts.passage() for _ in range(min(count, POOL))):
        terms, [vector] = terms_of(text), lexical.vectors([text])
        pool.append(NewPassage(0, len(text), text, (), None, " ".join(terms), len(terms), 260, vector))
    for number in range(0, count, IN_A_DOCUMENT):
        id = f"doc_{number:08d}"
        document = Document(id, SHELF, f"{id}.txt", 1, id, NOW, NOW, upload=f"{id}u")
        await knowledge.add_document(document, NewJob("none", id, "bench", NOW))
        for first in range(0, min(IN_A_DOCUMENT, count - number), AT_ONCE):
            await knowledge.stage(OWNER, id, 1, first, pick.choices(pool, k=AT_ONCE), model)
        await knowledge.publish(OWNER, id, 1, FACTS, NOW, model)
        if number % 10_000 == 0:
            print(f"  {number:,} passages stored", file=sys.stderr)


def peak() -> float:
    """Megabytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000


async def search(count: int, queries: int) -> None:
    """The time of searches among `count` passages, warm: one round of the same queries before."""
    with TemporaryDirectory() as folder:
        async with await open_store(Path(folder) / "a.db") as store:
            knowledge = KnowledgeStore(store.database, RandomIds(SystemClock()))
            await fill(knowledge, count)
            before = peak()
            lexical, texts = LexicalEmbedder(), Texts()
            asked = []
            for _ in range(queries):
                text = " ".join(texts.words(6))
                [vector] = lexical.vectors([text])
                asked.append(KnowledgeQuery(query_words(text), lexical.space, vector, (SHELF,)))
            begin = time.perf_counter()
            await knowledge.search_knowledge(asked[0])
            cold = time.perf_counter() - begin
            for query in asked:
                await knowledge.search_knowledge(query)
            took, used = [], []
            for query in asked:
                begin, cpu = time.perf_counter(), time.process_time()
                await knowledge.search_knowledge(query)
                took.append(time.perf_counter() - begin)
                used.append(time.process_time() - cpu)
            size = (Path(folder) / "a.db").stat().st_size / 1e6
            print(
                f"{count:,} passages: first search {cold * 1000:,.0f} ms; warm p50 {median(took) * 1000:.1f} ms, "
                f"p95 {quantiles(took, n=20)[18] * 1000:.1f} ms, CPU p50 {median(used) * 1000:.1f} ms; kept in memory "
                f"{knowledge.kept_bytes / 1e6:.0f} MB, process {before:.0f} → {peak():.0f} MB, file {size:,.0f} MB"
            )


class Playback:
    """A server with a base and a conversation whose gauge is asked for while documents are made ready."""

    def __init__(self, app: App, client: ServerClient, base: str, conversation: str) -> None:
        self.app, self.client, self.path = app, client, f"/knowledge-bases/{base}/documents"
        self._asked = f"/conversations/{conversation}/context"

    async def one(self) -> float:
        """Seconds of a request."""
        begin = time.perf_counter()
        answer = await self.client.call("GET", self._asked)
        assert answer.status_code == 200
        return time.perf_counter() - begin

    async def some(self, count: int) -> list[float]:
        made = []
        for _ in range(count):
            made.append(await self.one())
            await asyncio.sleep(0.02)
        return made

    async def beside(self, name: str, data: bytes) -> tuple[list[float], float, Object]:
        """Seconds of requests until an uploaded document is ready, of its making, and the document."""
        begin = time.perf_counter()
        added = (await self.client.call("POST", self.path, files={"file": (name, data)})).json()
        taken: list[float] = []
        while True:
            taken += await self.some(10)
            found = await self.client.get(f"{self.path}/{added['id']}")
            if found["state"] in ("ready", "failed"):
                return taken, time.perf_counter() - begin, found


async def ingest(pages: int, rounds: int) -> None:
    """How long other requests take while PDFs of so many pages are made ready, against when nothing is done.

    In pairs, one behind the other, as many requests in each: what else the machine does is in both.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from knowledge.pdf_writer import PdfPage, write_pdf  # noqa: PLC0415

    texts = Texts()
    with TemporaryDirectory() as folder:
        async with served(read_settings(data=Path(folder)), checked=False) as (app, client):
            base = app.ids.new("kb")
            await app.access.add_base(LOCAL_OWNER, base, BaseContent("Bench"), app.clock.now())
            stage = Playback(app, client, base, await client.conversation())
            await stage.some(30)
            idle: list[float] = []
            busy: list[float] = []
            took: list[float] = []
            for number in range(rounds):
                sheets = [
                    PdfPage(f"Page {n}", [" ".join(texts.words(12)) + "." for _ in range(30)]) for n in range(pages)
                ]
                taken, seconds, found = await stage.beside(f"bench {number}.pdf", write_pdf(sheets))
                assert found["state"] == "ready", found
                busy += taken
                took.append(seconds)
                idle += await stage.some(len(taken))
            print(
                f"{rounds} PDFs of {pages:,} pages ({found['passages']:,} passages), {median(took):.1f} s each (median)"
            )
            print(f"Other requests, {len(busy)} meanwhile and {len(idle)} between them, idle → meanwhile:")
            for percent in (50, 90, 99):
                before, after = p(idle, percent), p(busy, percent)
                print(f"  p{percent} {before:.1f} → {after:.1f} ms ({after / before:.2f}x)")


async def tiny(files: int) -> None:
    """How long so many tiny files take, what they cost this process, and how long a look at their progress takes."""
    texts = Texts()
    with TemporaryDirectory() as folder:
        async with served(read_settings(data=Path(folder)), checked=False) as (_, client):
            base = (await client.post("/knowledge-bases", {"name": "Tiny"}))["id"]
            path = f"/knowledge-bases/{base}/documents"
            before, begin = peak(), time.perf_counter()
            for number in range(files):
                data = f"# Note {number}\n\n{' '.join(texts.words(20))}.".encode()
                answer = await client.call("POST", path, files={"file": (f"note {number}.md", data)})
                assert answer.status_code == 202, answer.text
            stored = time.perf_counter() - begin
            looks: list[float] = []
            while True:
                look = time.perf_counter()
                page = await client.get(f"{path}?limit=100")
                looks.append(time.perf_counter() - look)
                shown = page["totals"]
                assert (len(page["data"]), shown["documents"]) == (min(files, 100), files)
                if not shown["unfinished"]:
                    break
                await asyncio.sleep(0.5)
            took = time.perf_counter() - begin
            print(f"{files:,} tiny files: all stored after {stored:.1f} s, all ready after {took:.1f} s: {shown}")
            slowest = f"{median(looks) * 1000:.0f} ms in the median, {max(looks) * 1000:.0f} ms at most"
            print(f"a look at progress and a page of 100: {slowest}; process {before:.0f} → {peak():.0f} MB")


def p(seconds: Sequence[float], percent: int) -> float:
    """A percentile, in milliseconds."""
    return quantiles(seconds, n=100)[percent - 1] * 1000


async def quality() -> None:
    """The share of the judged passages among the first ten, by words, by vectors, and by both.

    With the embedder of the settings: `LAMELLA_EMBEDDING_MODEL=minilm` is another.
    """
    embedder = embedder_of(read_settings())
    space = embedder.space
    print(f"embedder {space.model}")
    with TemporaryDirectory() as folder:
        async with await open_store(Path(folder) / "a.db") as store:
            knowledge = KnowledgeStore(store.database, RandomIds(SystemClock()))
            for name, text in CORPUS.items():
                document = Document(name, SHELF, f"{name}.md", 1, name, NOW, NOW, upload=f"{name}u")
                await knowledge.add_document(document, NewJob("none", name, "bench", NOW))
                cut = list(passages_of(text, name, paged=False, lexical=None))
                embedded = await embedder.embed([embedded_text(one.text, one.headings) for one in cut])
                made = [replace(one, vector=vector) for one, vector in zip(cut, embedded.vectors, strict=True)]
                await knowledge.stage(OWNER, name, 1, 0, made, space.model)
                await knowledge.publish(OWNER, name, 1, FACTS, NOW, space.model)
            for leg in ("words", "vectors", "both"):
                recalls, firsts = [], []
                for query, wanted in QUERIES:
                    [vector] = (await embedder.embed([query])).vectors
                    terms = () if leg == "vectors" else query_words(query)
                    asked_in = replace(space, floor=0.0) if leg == "vectors" else space
                    asked = KnowledgeQuery(terms, asked_in, None if leg == "words" else vector, (SHELF,))
                    hits = await knowledge.search_knowledge(asked)
                    found = {hit.document.id for hit in hits[:10]}
                    recalls.append(len(found & set(wanted)) / len(wanted))
                    firsts.append(bool(hits) and hits[0].document.id in wanted)
                scores = f"recall@10 {sum(recalls) / len(recalls):.3f}, first is right {sum(firsts) / len(firsts):.3f}"
                print(f"{leg:8} {scores} of {len(QUERIES)} queries")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["search", "ingest", "tiny", "quality", "collection"])
    parser.add_argument("file", nargs="*", type=Path, help="collections with judgements, for `collection`")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=6, help="PDFs, one behind the other (default: %(default)s)")
    parser.add_argument("--files", type=int, default=10_000)
    asked = parser.parse_args()
    match asked.what:
        case "search":
            asyncio.run(search(asked.passages, asked.queries))
        case "ingest":
            asyncio.run(ingest(asked.pages, asked.rounds))
        case "tiny":
            asyncio.run(tiny(asked.files))
        case "collection":
            for file in asked.file:
                asyncio.run(collection(file))
        case _:
            asyncio.run(quality())


if __name__ == "__main__":
    main()
