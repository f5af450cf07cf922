"""Passages of documents and their vectors: stored out of sight, shown all at once, cleared out bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from lamella.core.errors import InvalidRequest
from lamella.core.json import digest
from lamella.core.knowledge import DocumentState, DocumentText, NewPassage, StoredPassage
from lamella.core.records import Caller
from lamella.storage.database import Rows, reads, rows_changed, writes
from lamella.storage.knowledge.documents import remove_row, this_document
from lamella.storage.passages import WRITTEN, NewEntry, forget_words, merge_runs
from lamella.storage.rows import record
from lamella.storage.tables import knowledge_documents, knowledge_passages, knowledge_vectors


def passage_of(row: RowMapping) -> StoredPassage:
    """A row of `knowledge_passages`."""
    return record(StoredPassage, row, entry=row["id"])


def found_passages(caller: Caller, document_id: str) -> Select[*tuple[Any, ...]]:
    """The passages of a document that are found."""
    return (
        select(knowledge_passages)
        .join(
            knowledge_documents,
            and_(
                knowledge_documents.c.id == knowledge_passages.c.document_id,
                knowledge_documents.c.found == knowledge_passages.c.version,
            ),
        )
        .where(this_document(caller, document_id))
    )


class PassageRows(Rows):
    """The verbs of `KnowledgeStore` about passages."""

    @reads
    def staged(self, connection: Connection, caller: Caller, document_id: str, version: int) -> tuple[int, int]:
        """How many passages of a version are stored already, and at which character the last one ends."""
        query = select(func.count(), func.max(knowledge_passages.c.end)).where(
            knowledge_passages.c.document_id == document_id,
            knowledge_passages.c.owner == caller.user_id,
            knowledge_passages.c.version == version,
        )
        count, end = connection.execute(query).one()
        return int(count), int(end or 0)

    @writes
    def unstage(self, connection: Connection, caller: Caller, document_id: str, version: int) -> None:
        """Remove the passages of a version that nobody finds yet."""
        of = knowledge_passages.c
        owned_by = (of.document_id == document_id, of.owner == caller.user_id, of.version == version)
        found = select(knowledge_documents.c.found).where(knowledge_documents.c.id == document_id).scalar_subquery()
        hidden = or_(found.is_(None), found != version)
        gone = delete(knowledge_passages).where(*owned_by, hidden).returning(of.id)
        entries = list(connection.execute(gone).scalars())
        shelf = select(knowledge_documents.c.shelf).where(knowledge_documents.c.id == document_id)
        forget_words(connection, (caller.user_id, connection.execute(shelf).scalar_one()), entries)

    async def stage(
        self,
        caller: Caller,
        document_id: str,
        version: int,
        first: int,
        passages: Sequence[NewPassage],
        model: str,
    ) -> bool:
        """Store passages of a version from position `first` on; nobody finds them yet. False if there is a newer one.

        A passage that stands in the version that is found, word for word, has its vector.
        """
        shelf = await self._stage(caller, document_id, version, first, passages, model)
        if shelf is not None:
            await merge_runs(self._database, (caller.user_id, shelf))
        return shelf is not None

    @writes
    def _stage(
        self,
        connection: Connection,
        caller: Caller,
        document_id: str,
        version: int,
        first: int,
        passages: Sequence[NewPassage],
        model: str,
    ) -> int | None:
        """The number of the shelf."""
        this = select(knowledge_documents.c.shelf, knowledge_documents.c.found)
        row = connection.execute(this.where(this_document(caller, document_id, version))).first()
        if row is None:
            return None
        shelf, found = row
        new = [
            NewEntry(
                _row(caller.user_id, document_id, version, position, passage), passage.terms.split(), passage.vector
            )
            for position, passage in enumerate(passages, first)
        ]
        entries = WRITTEN.add(connection, (caller.user_id, shelf), new, model)
        if found is not None and all(passage.vector is None for passage in passages):
            _take_over(connection, caller, document_id, found, entries, model)
        return int(shelf)

    @writes
    def publish(
        self,
        connection: Connection,
        caller: Caller,
        document_id: str,
        version: int,
        facts: DocumentText,
        at: datetime,
        model: str,
    ) -> DocumentState | None:
        """Let this version be found in place of the one before, from one moment to the next.

        Gives its state, which is READY if all its passages have vectors of `model`; None if it is the newest no more.
        """
        owned_by = and_(knowledge_passages.c.document_id == document_id, knowledge_passages.c.version == version)
        joined = knowledge_passages.join(knowledge_vectors, knowledge_vectors.c.entry_id == knowledge_passages.c.id)
        with_vector = select(func.count()).select_from(joined).where(owned_by, knowledge_vectors.c.model == model)
        count = connection.execute(select(func.count()).where(owned_by)).scalar_one()
        embedded = connection.execute(with_vector).scalar_one()
        state = DocumentState.READY if embedded == count else DocumentState.EMBEDDING
        values = {
            "found": version,
            "revision": knowledge_documents.c.revision + 1,
            "state": state,
            "model": model if state is DocumentState.READY else knowledge_documents.c.model,
            "code": None,
            "reason": None,
            "media_type": facts.media_type,
            "tokens": facts.tokens,
            "pages": facts.pages,
            "passages": count,
            "embedded": embedded,
            "updated_at": at,
        }
        published = update(knowledge_documents).where(this_document(caller, document_id, version)).values(**values)
        return state if rows_changed(connection, published) else None

    @writes
    def clear_out(self, connection: Connection, caller: Caller, document_id: str, limit: int) -> int:
        """Remove passages that nobody finds any more, at most so many; gives how many.

        Of a removed document the row goes with the last of them.
        """
        of = knowledge_documents.c
        row = select(of.shelf, of.found, of.version, of.removed)
        row = row.where(of.id == document_id, of.owner == caller.user_id)
        known = connection.execute(row).first()
        if known is None:
            return 0
        shelf, found, version, removed = known
        stale = [knowledge_passages.c.document_id == document_id, knowledge_passages.c.owner == caller.user_id]
        if not removed:
            stale.append(knowledge_passages.c.version.not_in({found, version} - {None}))
        query = select(knowledge_passages.c.id).where(*stale)
        all_stale = list(connection.execute(query).scalars())
        # Of a base that is removed all documents are: their words leave together.
        others = select(knowledge_passages.c.id).join(knowledge_documents, of.id == knowledge_passages.c.document_id)
        others = others.where(of.shelf == shelf, of.removed.is_(True))
        forget_words(connection, (caller.user_id, shelf), all_stale, others)
        entries = all_stale[:limit]
        connection.execute(delete(knowledge_passages).where(knowledge_passages.c.id.in_(entries)))
        if removed and len(entries) < limit:
            remove_row(connection, caller, document_id)
        return len(entries)

    @reads
    def unembedded_passages(
        self, connection: Connection, caller: Caller, document_id: str, model: str, limit: int
    ) -> tuple[StoredPassage, ...]:
        """Passages that are found and have no vector of this model."""
        query = (
            found_passages(caller, document_id)
            .outerjoin(knowledge_vectors, knowledge_vectors.c.entry_id == knowledge_passages.c.id)
            .where(WRITTEN.without_vector(model))
            .order_by(knowledge_passages.c.id)
            .limit(limit)
        )
        return tuple(map(passage_of, connection.execute(query).mappings()))

    @writes
    def embed_passages(
        self, connection: Connection, caller: Caller, document_id: str, model: str, vectors: Mapping[int, bytes]
    ) -> bool:
        """Give passages their vectors in place of earlier ones; raises `InvalidRequest` for another dimension than
        that of the vectors of this model that are stored already.
        """
        dimension = len(next(iter(vectors.values()))) // 2
        other = select(knowledge_vectors.c.dimension).where(
            knowledge_vectors.c.owner == caller.user_id,
            knowledge_vectors.c.model == model,
            knowledge_vectors.c.dimension != dimension,
        )
        known = connection.execute(other.limit(1)).scalar_one_or_none()
        if known is not None:
            raise InvalidRequest(
                f"The embeddings server gave vectors of {dimension} numbers; those of “{model}” that are stored "
                f"have {known}.",
                hint="Give the other model its own name in LAMELLA_EMBEDDING_MODEL.",
            )
        found = found_passages(caller, document_id).with_only_columns(knowledge_passages.c.id)
        count = WRITTEN.embed(connection, caller.user_id, model, vectors, knowledge_passages.c.id.in_(found))
        if not count:
            return False
        more = knowledge_documents.c.embedded + count
        every = knowledge_documents.c.passages
        counted = case((more < every, more), else_=every)
        changed = update(knowledge_documents).where(this_document(caller, document_id)).values(embedded=counted)
        return rows_changed(connection, changed) > 0

    @writes
    def begin_embedding(
        self, connection: Connection, caller: Caller, document_id: str, version: int, model: str
    ) -> int | None:
        """Count what is found and has vectors of this model; gives how many have none, None for a version that is no
        more.
        """
        has = (
            select(func.count())
            .select_from(knowledge_passages)
            .join(knowledge_vectors, knowledge_vectors.c.entry_id == knowledge_passages.c.id)
            .where(
                knowledge_passages.c.document_id == document_id,
                knowledge_passages.c.version == knowledge_documents.c.found,
                knowledge_vectors.c.model == model,
            )
        )
        changed = (
            update(knowledge_documents)
            .where(this_document(caller, document_id, version))
            .values(embedded=has.scalar_subquery())
            .returning(knowledge_documents.c.passages - knowledge_documents.c.embedded)
        )
        left = connection.execute(changed).scalar_one_or_none()
        return None if left is None else int(left)

    @reads
    def passages_of(
        self, connection: Connection, caller: Caller, document_id: str, first: int = 0, limit: int | None = None
    ) -> tuple[StoredPassage, ...]:
        """The passages of a document that are found, from position `first` on."""
        query = (
            found_passages(caller, document_id)
            .where(knowledge_passages.c.position >= first)
            .order_by(knowledge_passages.c.position)
            .limit(limit)
        )
        return tuple(map(passage_of, connection.execute(query).mappings()))


def _row(owner: str, document_id: str, version: int, position: int, passage: NewPassage) -> dict[str, Any]:
    return {
        "owner": owner,
        "document_id": document_id,
        "version": version,
        "position": position,
        "start": passage.start,
        "end": passage.end,
        "page": passage.page,
        "headings": passage.headings,
        "length": passage.length,
        "tokens": passage.tokens,
        "digest": digest(passage.text.encode()),
        "text": passage.text,
    }


def _take_over(
    connection: Connection, caller: Caller, document_id: str, found: int, entries: Sequence[int], model: str
) -> None:
    """Give new passages the vectors of earlier passages with exactly the same text."""
    old, new = knowledge_passages.alias("old"), knowledge_passages.alias("new")
    first = (
        select(new.c.id, func.min(knowledge_vectors.c.entry_id).label("entry_id"))
        .select_from(new)
        .join(
            old,
            and_(old.c.document_id == document_id, old.c.version == found, old.c.digest == new.c.digest),
        )
        .join(knowledge_vectors, knowledge_vectors.c.entry_id == old.c.id)
        .where(new.c.id.in_(entries), knowledge_vectors.c.model == model)
        .group_by(new.c.id)
        .subquery()
    )
    of = knowledge_vectors.c
    same = select(first.c.id, literal(caller.user_id), of.model, of.dimension, of.data).join(
        knowledge_vectors, of.entry_id == first.c.entry_id
    )
    columns = ["entry_id", "owner", "model", "dimension", "data"]
    connection.execute(insert(knowledge_vectors).from_select(columns, same))
