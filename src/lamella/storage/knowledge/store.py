"""`KnowledgeStore`: documents and their index on SQLite. Search: vectors are compared exactly and passages ranked by
`search.documents`, so that only what is searched counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, select, true

from lamella.core.ids import Ids
from lamella.core.knowledge import Document, KnowledgeHit, KnowledgeQuery, StoredPassage
from lamella.search.documents import rank_documents
from lamella.storage.database import Database, reads
from lamella.storage.knowledge.bindings import BindingRows
from lamella.storage.knowledge.documents import DocumentRows, find_documents, shelf_number
from lamella.storage.knowledge.names import NameRows
from lamella.storage.knowledge.passages import PassageRows, passage_of
from lamella.storage.passages import WRITTEN
from lamella.storage.scopes import Mark, Part, PassageScope, Reading, Scopes, ranked
from lamella.storage.tables import knowledge_documents, knowledge_passages


class KnowledgeStore(DocumentRows, PassageRows, NameRows, BindingRows):
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
        query = select(of.id, of.revision).where(of.shelf == number, of.removed.is_(False), of.found.is_not(None))
        wanted = tuple((str(id), int(revision)) for id, revision in connection.execute(query.order_by(of.id)))
        shelf = (WRITTEN.name, str(number))
        if not wanted:
            self._scopes.forget(*shelf)
            return None
        key = (*shelf, model, str(dimension))
        kept = self._scopes.find(key)
        if kept is not None and kept.marks == wanted:
            return kept
        known = {} if kept is None else kept.parts(frozenset(wanted))
        new = [mark for mark in wanted if mark not in known]
        known |= _read_parts(connection, number, new, model, dimension)
        scope = PassageScope.of({mark: known[mark] for mark in wanted})
        self._scopes.keep(key, scope)
        return scope


def _read_parts(
    connection: Connection, shelf: int, marks: Sequence[Mark], model: str, dimension: int
) -> dict[Mark, Part]:
    """The passages of documents that are found."""
    of = knowledge_passages.c
    found = and_(knowledge_documents.c.id == of.document_id, knowledge_documents.c.found == of.version)
    joined, vector = WRITTEN.of_space(knowledge_passages.join(knowledge_documents, found), model, dimension)
    query = select(of.id, of.document_id, of.length, true(), vector).select_from(joined).order_by(of.position)
    made = {}
    for mark in marks:
        rows = connection.execute(query.where(of.document_id == mark[0], knowledge_documents.c.shelf == shelf))
        made[mark] = Part.of(rows.all(), dimension)
    return made
