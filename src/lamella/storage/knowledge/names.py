"""The names in documents: what each version tells of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from lamella.core.knowledge import NameCounts, NamedDocument, Shelf
from lamella.core.records import Caller
from lamella.storage.database import Rows, reads, writes
from lamella.storage.tables import knowledge_documents, knowledge_names, knowledge_shelves


class NameRows(Rows):
    """The verbs of `KnowledgeStore` about names."""

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
