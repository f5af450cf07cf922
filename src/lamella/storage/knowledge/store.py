"""`KnowledgeStore`: documents, their index, and what they tell of names.

Passages are ranked by `search.documents`, so that only what is searched counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, and_, delete, insert, select, true

from lamella.core.ids import Ids
from lamella.core.knowledge import (
    Document,
    KnowledgeHit,
    KnowledgeQuery,
    NameCounts,
    NamedDocument,
    Shelf,
    StoredPassage,
)
from lamella.core.records import Caller
from lamella.search.documents import rank_documents
from lamella.search.ranking import Ints
from lamella.storage.database import Database, reads, writes
from lamella.storage.knowledge.bindings import BindingRows
from lamella.storage.knowledge.documents import DocumentRows, find_documents, shelf_number
from lamella.storage.knowledge.passages import PassageRows, passage_of
from lamella.storage.passages import WRITTEN
from lamella.storage.scopes import Mark, Part, PassageScope, Reading, Scopes, Vectors, nearest, ranked
from lamella.storage.tables import knowledge_documents, knowledge_names, knowledge_passages, knowledge_shelves


class KnowledgeStore(DocumentRows, PassageRows, BindingRows):
    """Documents and their index in a database file. `scopes` is shared with the index of what was said."""

    def __init__(self, database: Database, ids: Ids, scopes: Scopes | None = None) -> None:
        super().__init__(database, ids)
        self._scopes = scopes or Scopes()

    @property
    def kept_bytes(self) -> int:
        """What is kept in memory, about."""
        return self._scopes.size

    async def search_knowledge(self, query: KnowledgeQuery) -> tuple[KnowledgeHit, ...]:
        """What fits the query best, the best first."""
        readings = await self._readings(query, len(query.vector) // 2 if query.vector is not None else 0)
        if not readings:
            return ()
        if query.vector is not None:
            readings = [await self._with_vectors(reading, query, query.vector) for reading in readings]
        asked = (query.terms, query.space, query.vector, query.documents)
        best = await asyncio.to_thread(ranked, rank_documents, readings, *asked)
        first = best.made.first(query.limit)
        passages, documents = await self._chosen(best.entries[first].tolist())
        # What was replaced or removed since the ranking is found no more.
        return tuple(
            KnowledgeHit(
                passage,
                documents[passage.document_id],
                float(best.made.scores[at]),
                float(best.made.words[at]),
                float(best.similar[at]) if best.similar is not None else 0.0,
            )
            for at in first
            if (passage := passages.get(int(best.entries[at]))) is not None and passage.document_id in documents
        )

    @reads
    def _readings(self, connection: Connection, query: KnowledgeQuery, dimension: int) -> list[Reading]:
        """What is searched of each shelf that holds anything, with the occurrences of the words."""
        found = []
        for shelf in query.shelves:
            number = shelf_number(connection, shelf)
            scope = None if number is None else self._scope(connection, number, query.space.model, dimension)
            if number is not None and scope is not None:
                found.append(WRITTEN.reading(connection, scope, (shelf.owner, number), query.terms, forms=True))
        return found

    async def _with_vectors(self, reading: Reading, query: KnowledgeQuery, vector: bytes) -> Reading:
        """A reading with the vectors that are nearest, where its scope has sketches."""
        if not reading.scope.whole.is_sketched:
            return reading
        wanted = await asyncio.to_thread(nearest, reading, vector, query.documents)
        return replace(reading, exact=await self._exact(wanted, query.space.model, len(vector) // 2))

    @reads
    def _exact(self, connection: Connection, entries: Ints, model: str, dimension: int) -> tuple[Ints, Vectors]:
        return WRITTEN.vectors_of(connection, entries, model, dimension)

    @reads
    def _chosen(
        self, connection: Connection, entries: Sequence[int]
    ) -> tuple[Mapping[int, StoredPassage], Mapping[str, Document]]:
        """The passages of these entries, and their documents."""
        rows = connection.execute(select(knowledge_passages).where(knowledge_passages.c.id.in_(entries)))
        passages = {row["id"]: passage_of(row) for row in rows.mappings()}
        return passages, find_documents(connection, sorted({p.document_id for p in passages.values()}))

    def _scope(self, connection: Connection, number: int, model: str, dimension: int) -> PassageScope | None:
        """What is kept of a shelf, with the documents that changed since read again; None for an empty one."""
        of = knowledge_documents.c
        query = select(of.id, of.revision, of.passages)
        query = query.where(of.shelf == number, of.removed.is_(False), of.found.is_not(None)).order_by(of.id)
        rows = connection.execute(query).all()
        wanted = tuple((str(row.id), int(row.revision)) for row in rows)
        are_many = sum(row.passages for row in rows) > self._scopes.exact
        shelf = (WRITTEN.name, str(number))
        if not wanted:
            self._scopes.forget(*shelf)
            return None
        key = (*shelf, model, str(dimension))
        kept = self._scopes.find(key)
        if kept is not None and kept.marks == wanted:
            return kept
        has_vectors = kept is not None and (are_many or not kept.whole.is_sketched)
        known = kept.parts(frozenset(wanted)) if kept is not None and has_vectors else {}
        new = [mark for mark in wanted if mark not in known]
        for mark, part in _read_parts(connection, number, new, model, dimension):
            known[mark] = part.sketched() if are_many else part
        scope = PassageScope.of({mark: known[mark] for mark in wanted}, self._scopes.exact)
        self._scopes.keep(key, scope)
        return scope

    @reads
    def named_documents(self, connection: Connection, shelf: Shelf) -> tuple[NamedDocument, ...]:
        """The documents of a shelf that are found, and how the names of the version that is found were found."""
        of, names = knowledge_documents.c, knowledge_names.c
        query = (
            select(of.id, of.found, of.name, of.tokens, names.rules)
            .join(knowledge_shelves, knowledge_shelves.c.number == of.shelf)
            .outerjoin(knowledge_names, (names.document_id == of.id) & (names.version == of.found))
            .where(knowledge_shelves.c.owner == shelf.owner, knowledge_shelves.c.name == shelf.id)
            .where(of.found.is_not(None), of.removed.is_(False))
            .order_by(of.id)
        )
        return tuple(NamedDocument(*row) for row in connection.execute(query))

    @reads
    def names_in(self, connection: Connection, caller: Caller, document_ids: Sequence[str]) -> tuple[NameCounts, ...]:
        """What documents of the caller's tell of names."""
        names = knowledge_names.c
        query = select(names.counts).where(names.owner == caller.user_id, names.document_id.in_(document_ids))
        return tuple(connection.execute(query).scalars())

    @writes
    def keep_names(
        self, connection: Connection, caller: Caller, document: NamedDocument, rules: str, counts: NameCounts
    ) -> bool:
        """What a version of a document tells of names; False, and nothing kept, if it is found no more."""
        of = knowledge_documents.c
        there = select(of.id).where(
            of.id == document.id, of.owner == caller.user_id, of.found == document.version, of.removed.is_(False)
        )
        if connection.execute(there).first() is None:
            return False
        connection.execute(delete(knowledge_names).where(knowledge_names.c.document_id == document.id))
        row = {"document_id": document.id, "owner": caller.user_id, "version": document.version}
        connection.execute(insert(knowledge_names).values(**row, rules=rules, counts=counts))
        return True


def _read_parts(
    connection: Connection, shelf: int, marks: Sequence[Mark], model: str, dimension: int
) -> Iterator[tuple[Mark, Part]]:
    """The passages of documents that are found."""
    of = knowledge_passages.c
    found = and_(knowledge_documents.c.id == of.document_id, knowledge_documents.c.found == of.version)
    joined, vector = WRITTEN.of_space(knowledge_passages.join(knowledge_documents, found), model, dimension)
    query = select(of.id, of.document_id, of.length, true(), vector).select_from(joined).order_by(of.position)
    for mark in marks:
        rows = connection.execute(query.where(of.document_id == mark[0], knowledge_documents.c.shelf == shelf))
        yield mark, Part.of(rows.all(), dimension)
