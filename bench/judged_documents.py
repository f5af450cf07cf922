"""How good the search of documents is, next to plain BM25 in the same run, on a collection with judgements.

The file is JSON: `docs` {id: [title, text]}, `queries` {id: text}, `qrels` {query id: {document id: gain}}. Each
document is uploaded to a running server as a text file with its title in the first line; each query is asked there.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lamella.core.json import Json
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

AT = 10
"""Documents that count."""

HITS = 50
"""Hits that are asked for, so that there are enough documents."""

UPLOADS = 4
"""Documents that are uploaded at once."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A collection; a gain is 1 or more for a document that answers."""

    docs: Mapping[str, str]
    queries: Mapping[str, str]
    gains: Mapping[str, Mapping[str, float]]

    @classmethod
    def read(cls, path: Path) -> Judged:
        """The collection in a file. Queries that nothing answers are left out."""
        raw = json.loads(path.read_text("utf-8"))
        texts = {id: f"{title}\n\n{text}".strip() for id, (title, text) in raw["docs"].items()}
        docs = {id: text for id, text in texts.items() if text}  # an empty file is refused
        gains = {id: {one: gain for one, gain in of.items() if gain > 0} for id, of in raw["qrels"].items()}
        return cls(docs, {id: raw["queries"][id] for id in gains if gains[id]}, gains)

    def ndcg(self, query: str, found: Sequence[str]) -> float:
        """nDCG of the first `AT` documents, with the gains as they are. A query that is itself a document does not
        count as found.
        """
        gains = self.gains[query]
        ranked = [id for id in found if id != query or query in gains][:AT]
        best = sorted(gains.values(), reverse=True)[:AT]
        return _discounted([gains.get(id, 0) for id in ranked]) / _discounted(best)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


class WholeDocuments:
    """Textbook BM25 over the words of whole documents, with k1 1.5 and b 0.75."""

    def __init__(self, docs: Mapping[str, str]) -> None:
        self._ids = list(docs)
        texts = [Counter(_words(text)) for text in docs.values()]
        lengths = [sum(text.values()) for text in texts]
        mean = sum(lengths) / len(lengths)
        self._pulls = [1.5 * (1 - 0.75 + 0.75 * length / mean) for length in lengths]
        self._holders: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, text in enumerate(texts):
            for word, times in text.items():
                self._holders[word].append((index, times))

    def ask(self, query: str) -> list[str]:
        """The documents that hold a word of the query, the best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in _words(query):
            holders = self._holders.get(word, [])
            weight = math.log(1 + (len(self._ids) - len(holders) + 0.5) / (len(holders) + 0.5))
            for index, times in holders:
                scores[index] += weight * times * 2.5 / (times + self._pulls[index])
        return [self._ids[index] for index in sorted(scores, key=lambda index: -scores[index])]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


async def _upload(client: ServerClient, base: str, docs: Mapping[str, str]) -> dict[str, str]:
    """Upload documents and wait until all are ready; gives the collection's id for each of ours."""
    path, named, waiting = f"/knowledge-bases/{base}/documents", {}, list(enumerate(docs.items()))[::-1]

    async def some() -> None:
        while waiting:
            number, (id, text) = waiting.pop()
            added = await client.call("POST", path, files={"file": (f"{number}.txt", text.encode())})
            assert added.status_code in (200, 202), added.text
            named[added.json()["id"]] = id

    await asyncio.gather(*(some() for _ in range(UPLOADS)))
    while True:
        if not (await client.get(f"{path}?limit=1"))["totals"]["unfinished"]:
            return named
        await asyncio.sleep(0.2)


async def collection(path: Path) -> None:
    """Measure a collection and print a line for each search."""
    judged = Judged.read(path)
    with TemporaryDirectory() as folder:
        async with served(read_settings(data=Path(folder))) as (app, client):
            base = (await client.post("/knowledge-bases", {"name": "Judged"}))["id"]
            began, used = time.perf_counter(), time.process_time()
            named = await _upload(client, base, judged.docs)
            made, used = time.perf_counter() - began, time.process_time() - used
            ours, began = [], time.perf_counter()
            for id, query in judged.queries.items():
                asked: dict[str, Json] = {"query": query[:2000], "knowledge_base_ids": [base], "max_results": HITS}
                hits = (await client.post("/knowledge-bases/search", asked))["data"]
                ours.append(judged.ndcg(id, list(dict.fromkeys(named[hit["document_id"]] for hit in hits))))
            took = (time.perf_counter() - began) / len(ours)
            embedder = app.knowledge.searching.embedder
    plain = WholeDocuments(judged.docs)
    theirs = [judged.ndcg(id, plain.ask(query)) for id, query in judged.queries.items()]
    print(f"{path.stem}: {len(judged.docs):,} documents, ready after {made:.1f} s ({used:.1f} of CPU)")
    print(f"  plain BM25  nDCG@{AT} {sum(theirs) / len(theirs):.3f} of {len(theirs)} queries")
    print(f"  Lamella     nDCG@{AT} {sum(ours) / len(ours):.3f}, {took * 1000:.0f} ms a query, {embedder}")
