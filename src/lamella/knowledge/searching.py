"""Search in documents: by words and by meaning, several phrasings at once, neighbours shown as one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.core.errors import InvalidRequest, ProviderError
from lamella.core.knowledge import KnowledgeFound, KnowledgeHit, KnowledgeQuery, Shelf
from lamella.core.ports import Embedder
from lamella.search.terms import query_terms
from lamella.storage.knowledge.store import KnowledgeStore

LONGEST_QUERY = 2_000
"""Characters."""

MOST_QUERIES = 4
"""Phrasings that one search runs at most: the query itself, and what it is made of."""

LONGEST_RUN = 3
"""Passages that stand side by side and are shown as one, at most."""

EMBEDDING_SECONDS = 10.0
"""How long a search waits for the vector of its query; then words decide alone."""

_PARTS = re.compile(r"[?!;\n]+|\.(?=\s)|(?:,\s+(?:and|und|et|y)\s+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Searched:
    """Where a search looks: whole shelves, or only these documents of them."""

    shelves: tuple[Shelf, ...]
    documents: frozenset[str] | None = None


def expanded(query: str) -> tuple[str, ...]:
    """The phrasings that a query is searched by: itself, and each of several questions or sentences in it."""
    parts = [part.strip() for part in _PARTS.split(query)]
    telling = [part for part in parts if len(query_terms(part)) > 1]
    if len(telling) < 2:
        return (query,)
    return tuple(dict.fromkeys((query, *telling)))[:MOST_QUERIES]


class KnowledgeSearch:
    """Searches for whoever has decided what may be searched."""

    def __init__(self, store: KnowledgeStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    @property
    def embedder(self) -> str:
        """The model of the vectors, as people read it."""
        return self._embedder.space.model

    async def search(self, where: Searched, query: str, limit: int = 10) -> KnowledgeFound:
        """What fits the query, the best first. Raises `InvalidRequest` for an empty one.

        Where no vector of the query can be had, words decide alone and `without` says why.
        """
        words = query.strip()[:LONGEST_QUERY]
        if not words:
            raise InvalidRequest("The query is empty.", hint="Say what to look for.", param="query")
        if not where.shelves or where.documents == frozenset():
            return KnowledgeFound(queries=(words,))
        queries = expanded(words)
        vectors, without = await self._vectors(queries)
        space = self._embedder.space
        asked = [
            KnowledgeQuery(query_terms(one), space, vector, where.shelves, where.documents, LONGEST_RUN * limit)
            for one, vector in zip(queries, vectors, strict=True)
        ]
        found = [await self._store.search_knowledge(one) for one in asked]
        hits = tuple(_neighbours(_fused(found), limit))
        return KnowledgeFound(hits, without or ("" if hits else space.words_only), queries)

    async def _vectors(self, queries: Sequence[str]) -> tuple[Sequence[bytes | None], str]:
        """The queries' vectors, or why there are none."""
        try:
            async with asyncio.timeout(EMBEDDING_SECONDS):
                return (await self._embedder.embed(queries)).vectors, ""
        except ProviderError as error:
            return [None] * len(queries), error.message
        except TimeoutError:
            return [None] * len(queries), f"The embeddings gave no answer within {EMBEDDING_SECONDS:g} s."


def _fused(found: Sequence[Sequence[KnowledgeHit]]) -> list[KnowledgeHit]:
    """What several queries found, each passage with its best score."""
    best: dict[int, KnowledgeHit] = {}
    for hits in found:
        for hit in hits:
            known = best.get(hit.passage.entry)
            if known is None or hit.score > known.score:
                best[hit.passage.entry] = hit
    return sorted(best.values(), key=lambda hit: -hit.score)


def _neighbours(hits: Sequence[KnowledgeHit], limit: int) -> list[KnowledgeHit]:
    """The best hits; those that stand side by side in a document are one, in the place of the better."""
    runs: list[list[KnowledgeHit]] = []
    for hit in hits:
        beside = next((run for run in runs if len(run) < LONGEST_RUN and _is_beside(run, hit)), None)
        if beside is not None:
            beside.append(hit)
            beside.sort(key=lambda one: one.passage.position)
        elif len(runs) < limit:
            runs.append([hit])
    return [_joined(run) for run in runs]


def _is_beside(run: Sequence[KnowledgeHit], hit: KnowledgeHit) -> bool:
    first, last, passage = run[0].passage, run[-1].passage, hit.passage
    if first.document_id != passage.document_id:
        return False
    return passage.end == first.start or passage.start == last.end


def _joined(run: Sequence[KnowledgeHit]) -> KnowledgeHit:
    first, last = run[0].passage, run[-1].passage
    best = max(run, key=lambda hit: hit.score)
    passage = replace(
        first,
        end=last.end,
        text="".join(hit.passage.text for hit in run),
        tokens=sum(hit.passage.tokens for hit in run),
        headings=best.passage.headings if len(run) == 1 else first.headings,
    )
    return replace(best, passage=passage)
