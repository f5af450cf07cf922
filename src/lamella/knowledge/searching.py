"""Search in documents: by words and by meaning, neighbours shown as one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.core.errors import InvalidRequest, ProviderError
from lamella.core.knowledge import KnowledgeFound, KnowledgeHit, KnowledgeQuery, Shelf
from lamella.core.ports import Embedder
from lamella.search.terms import query_words
from lamella.storage.knowledge.store import KnowledgeStore

LONGEST_QUERY = 2_000
"""Characters."""

LONGEST_RUN = 3
"""Maximum number of adjacent passages that are shown as one."""

EMBEDDING_SECONDS = 10.0
"""How long a search waits for its query's vector; then it goes by words only."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The scope of a search: whole shelves, or only these of their documents."""

    shelves: tuple[Shelf, ...]
    documents: frozenset[str] | None = None


class KnowledgeSearch:
    """Searches. The caller has checked what may be searched."""

    def __init__(self, store: KnowledgeStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    @property
    def embedder(self) -> str:
        """The model of the vectors, as people read it."""
        return self._embedder.space.model

    async def search(self, where: Searched, query: str, limit: int = 10) -> KnowledgeFound:
        """The passages that fit the query, best first. Raises `InvalidRequest` for an empty query.

        If the query has no vector, words decide, and `without` has the reason.
        """
        words = query.strip()[:LONGEST_QUERY]
        if not words:
            raise InvalidRequest("The query is empty.", hint="Say what to look for.", param="query")
        if not where.shelves or where.documents == frozenset():
            return KnowledgeFound()
        vector, without = await self._vector(words)
        space = self._embedder.space
        asked = KnowledgeQuery(query_words(words), space, vector, where.shelves, where.documents, LONGEST_RUN * limit)
        hits = tuple(_neighbours(await self._store.search_knowledge(asked), limit))
        return KnowledgeFound(hits, without or ("" if hits else space.words_only))

    async def _vector(self, query: str) -> tuple[bytes | None, str]:
        """The query's vector, or why there is none."""
        try:
            async with asyncio.timeout(EMBEDDING_SECONDS):
                return (await self._embedder.embed([query])).vectors[0], ""
        except ProviderError as error:
            return None, error.message
        except TimeoutError:
            return None, f"The embeddings gave no answer within {EMBEDDING_SECONDS:g} s."


def _neighbours(hits: Sequence[KnowledgeHit], limit: int) -> list[KnowledgeHit]:
    """The best hits. Adjacent passages of a document are combined at the better one's place."""
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
