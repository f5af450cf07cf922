"""`KnowledgeStore`: documents and their index on SQLite. Search: postings from FTS5, vectors exactly, ranked by
`search.documents`, so that only what is searched counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, and_, null, select, text

from lamella.core.ids import Ids
from lamella.core.knowledge import Document, KnowledgeHit, KnowledgeQuery, Shelf, StoredPassage
from lamella.search.documents import PLACE_BITS, Ranked, moved, rank_documents
from lamella.search.ranking import Corpus, Floats, Ints
from lamella.search.vectors import unpacked
from lamella.storage.database import Database, reads
from lamella.storage.knowledge.bindings import BindingRows
from lamella.storage.knowledge.documents import DocumentRows, find_documents, shelf_number
from lamella.storage.knowledge.passages import PassageRows, passage_of, tagged
from lamella.storage.knowledge.scope import MOST_BYTES, Revision, ShelfPart, ShelfScope, ShelfScopes, part_of, scope_of
from lamella.storage.postings import row_of
from lamella.storage.tables import knowledge_documents, knowledge_passages, knowledge_vectors

_POSTINGS = text("SELECT group_concat(doc * 65536 + offset) FROM knowledge_postings WHERE term = :term")
"""The occurrences of a term (`search.documents.PLACE_BITS`), in one text: read apart from the event loop."""


class KnowledgeStore(DocumentRows, PassageRows, BindingRows):
    """Documents and their index in a database file."""

    def __init__(self, database: Database, ids: Ids, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(database, ids)
        self._scopes = ShelfScopes(most_bytes)

    @property
    def kept_bytes(self) -> int:
        """What is kept in memory, about."""
        return self._scopes.size

    async def search_knowledge(self, query: KnowledgeQuery) -> tuple[KnowledgeHit, ...]:
        """What fits the query best, the best first."""
        dimension = len(query.vector) // 2 if query.vector is not None else 0
        searched = await self._searched(query, dimension)
        best = await asyncio.to_thread(_best, searched, query)
        for scope, read in searched:
            for term, held in read.items():
                if not isinstance(held, str):
                    scope.postings.keep(term, held)
        entries = [chosen.entry for chosen in best]
        passages, documents = await self._chosen(entries)
        # What was replaced or removed since the ranking is found no more.
        return tuple(
            KnowledgeHit(passage, documents[passage.document_id], chosen.score, chosen.words, chosen.similarity)
            for chosen in best
            if (passage := passages.get(chosen.entry)) is not None and passage.document_id in documents
        )

    @reads
    def _searched(self, connection: Connection, query: KnowledgeQuery, dimension: int) -> list[tuple[ShelfScope, Read]]:
        """What is searched of each shelf that holds anything, with the postings of the terms."""
        scopes = (self._scope(connection, shelf, query.space.model, dimension) for shelf in query.shelves)
        return [(scope, _read_postings(connection, scope, query.terms)) for scope in scopes if scope is not None]

    @reads
    def _chosen(
        self, connection: Connection, entries: Sequence[int]
    ) -> tuple[Mapping[int, StoredPassage], Mapping[str, Document]]:
        """The passages of these entries, and their documents."""
        rows = connection.execute(select(knowledge_passages).where(knowledge_passages.c.id.in_(entries)))
        passages = {row["id"]: passage_of(row) for row in rows.mappings()}
        return passages, find_documents(connection, sorted({p.document_id for p in passages.values()}))

    def _scope(self, connection: Connection, shelf: Shelf, model: str, dimension: int) -> ShelfScope | None:
        """What is kept of a shelf, with the documents that changed since read again; None for an empty one."""
        number = shelf_number(connection, shelf)
        if number is None:
            return None
        of = knowledge_documents.c
        query = select(of.id, of.revision).where(of.shelf == number, of.removed.is_(False), of.found.is_not(None))
        wanted = tuple((str(id), int(revision)) for id, revision in connection.execute(query.order_by(of.id)))
        if not wanted:
            self._scopes.forget(number)
            return None
        key = (number, model, dimension)
        kept = self._scopes.find(key)
        if kept is not None and kept.documents == wanted:
            return kept
        parts: dict[Revision, ShelfPart] = {}
        if kept is not None:
            still = set(wanted)
            parts = {document: kept.part(at) for at, document in enumerate(kept.documents) if document in still}
        for document in wanted:
            if document not in parts:
                rows = _read_part(connection, document[0], model, with_vectors=dimension > 0)
                parts[document] = part_of(rows, dimension)
        scope = scope_of(number, wanted, parts, dimension)
        self._scopes.keep(key, scope)
        return scope


def _read_part(
    connection: Connection, document_id: str, model: str, *, with_vectors: bool
) -> Sequence[tuple[int, int, bytes | None]]:
    """Entry, length and vector of the passages of a document that are found."""
    of = knowledge_passages.c
    found = and_(knowledge_documents.c.id == of.document_id, knowledge_documents.c.found == of.version)
    joined = knowledge_passages.join(knowledge_documents, found)
    vector: ColumnElement[Any] = null()
    if with_vectors:
        of_model = and_(knowledge_vectors.c.entry_id == of.id, knowledge_vectors.c.model == model)
        joined, vector = joined.outerjoin(knowledge_vectors, of_model), knowledge_vectors.c.data
    query = select(of.id, of.length, vector).select_from(joined).where(of.document_id == document_id)
    query = query.order_by(of.position)
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


Read = dict[str, str | Ints]
"""For each term its occurrences in the scope, or in the table as they were read, with commas between."""


def _read_postings(connection: Connection, scope: ShelfScope, terms: Sequence[str]) -> Read:
    read: Read = {}
    for term in dict.fromkeys(terms):
        known = scope.postings.find(term)
        if known is None:
            found = connection.execute(_POSTINGS, {"term": tagged(scope.number, term)})
            read[term] = str(found.scalar_one() or "")
        else:
            read[term] = known
    return read


@dataclass(frozen=True, slots=True)
class _Chosen:
    entry: int
    score: float
    words: float
    similarity: float


def _best(searched: Sequence[tuple[ShelfScope, Read]], query: KnowledgeQuery) -> list[_Chosen]:
    """The best passages of some shelves, ranked together."""
    if not searched:
        return []
    chosen = [_Selected.of(scope, query.documents) for scope, _ in searched]
    firsts = np.cumsum([0, *(one.count for one in chosen)])
    held = {
        term: np.concatenate(
            [
                selected.occurrences(_held(scope, read, term)) + (first << PLACE_BITS)
                for (scope, read), selected, first in zip(searched, chosen, firsts, strict=False)
            ]
        )
        for term in dict.fromkeys(query.terms)
    }
    similar = _similar(searched, chosen, query)
    corpus = Corpus(_numbered(chosen), np.concatenate([one.lengths for one in chosen]))
    made = rank_documents(corpus, query.terms, held, similar, query.space.document_weight)
    return _first(made, np.concatenate([one.entries for one in chosen]), similar, query.limit)


def _first(made: Ranked, entries: Ints, similar: Floats | None, limit: int) -> list[_Chosen]:
    return [
        _Chosen(
            int(entries[at]),
            float(made.scores[at]),
            float(made.words[at]),
            float(similar[at]) if similar is not None else 0.0,
        )
        for at in made.first(limit)
    ]


def _held(scope: ShelfScope, read: Read, term: str) -> Ints:
    """The occurrences of a term, which are kept in `read` from now on."""
    known = read[term]
    if isinstance(known, str):
        known = read[term] = scope.occurrences(row_of(known))
    return known


def _similar(
    searched: Sequence[tuple[ShelfScope, Read]], chosen: Sequence[_Selected], query: KnowledgeQuery
) -> Floats | None:
    """The similarity of every passage, 0 below the floor; None where the query has no vector."""
    if query.vector is None:
        return None
    vector = unpacked(query.vector)
    near = [selected.of_all(scope.vectors @ vector) for (scope, _), selected in zip(searched, chosen, strict=True)]
    whole = np.concatenate(near).astype(np.float64)
    return np.where(whole >= query.space.floor, whole, 0.0)


def _numbered(chosen: Sequence[_Selected]) -> Ints:
    """A number for each document of all shelves."""
    made, first = [], 0
    for one in chosen:
        numbers = np.unique(one.of_document, return_inverse=True)[1].astype(np.int64)
        made.append(numbers + first)
        first += int(numbers.max()) + 1 if len(numbers) else 0
    return np.concatenate(made)


@dataclass(frozen=True, slots=True)
class _Selected:
    """Of a scope what is searched: all, or the passages of some documents."""

    entries: Ints
    of_document: Ints
    lengths: Floats
    mask: NDArray[np.bool_] | None
    new_place: Ints | None

    @classmethod
    def of(cls, scope: ShelfScope, documents: frozenset[str] | None) -> _Selected:
        if documents is None or all(id in documents for id, _ in scope.documents):
            return cls(scope.entries, scope.of_document, scope.lengths, None, None)
        wanted = np.array([id in documents for id, _ in scope.documents], np.bool_)
        mask = wanted[scope.of_document]
        place = np.cumsum(mask) - 1
        return cls(scope.entries[mask], scope.of_document[mask], scope.lengths[mask], mask, place)

    @property
    def count(self) -> int:
        return len(self.entries)

    def occurrences(self, occurrences: Ints) -> Ints:
        """Occurrences in the whole scope as those in what is searched."""
        if self.mask is None or self.new_place is None:
            return occurrences
        places = occurrences >> PLACE_BITS
        here = self.mask[places]
        return moved(occurrences[here], self.new_place[places[here]])

    def of_all(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        return values if self.mask is None else values[self.mask]
