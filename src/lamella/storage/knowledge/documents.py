"""Documents that are searched: what stands on a shelf, and how far each is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from lamella.core.errors import NotFound
from lamella.core.ids import Ids
from lamella.core.knowledge import CLEAR, INGEST, Document, DocumentState, Shelf, ShelfTotals
from lamella.core.records import Caller, File, NewJob, Page, PageQuery
from lamella.storage.database import Rows, insert_missing, reads, rows_changed, writes
from lamella.storage.failures import unicode_only
from lamella.storage.jobs import enqueue_job, forget_jobs
from lamella.storage.rows import Row, page, record, values
from lamella.storage.tables import (
    files,
    jobs,
    knowledge_documents,
    knowledge_passages,
    knowledge_shelves,
    project_files,
)

_ROWS = select(knowledge_documents, knowledge_shelves.c.name.label("shelf_name")).join(
    knowledge_shelves, knowledge_shelves.c.number == knowledge_documents.c.shelf
)
_THERE = knowledge_documents.c.removed.is_(False)
_UNREADY = tuple(state for state in DocumentState if state not in (DocumentState.READY, DocumentState.FAILED))


def document_of(row: RowMapping) -> Document:
    """A row of `_ROWS`."""
    return record(Document, row, shelf=Shelf(row["owner"], row["shelf_name"]))


def _row(document: Document, shelf: int) -> Row:
    """The row of a new document."""
    with unicode_only():
        document.name.encode()
    return values(knowledge_documents, document, owner=document.shelf.owner, shelf=shelf, revision=0, removed=False)


def this_document(caller: Caller, document_id: str, version: int | None = None) -> ColumnElement[bool]:
    """Which row a verb is about; of a version, only while it is the newest."""
    owned_by = and_(knowledge_documents.c.id == document_id, knowledge_documents.c.owner == caller.user_id, _THERE)
    return owned_by if version is None else and_(owned_by, knowledge_documents.c.version == version)


def find_document(connection: Connection, caller: Caller, document_id: str) -> Document:
    """The caller's document."""
    row = connection.execute(_ROWS.where(this_document(caller, document_id))).mappings().first()
    if row is None:
        raise NotFound(f"There is no document {document_id}.", param="document_id")
    return document_of(row)


def find_documents(connection: Connection, document_ids: Sequence[str]) -> dict[str, Document]:
    """Documents of any owner by id, without those that are gone."""
    rows = connection.execute(_ROWS.where(knowledge_documents.c.id.in_(document_ids), _THERE))
    return {row["id"]: document_of(row) for row in rows.mappings()}


def shelf_number(connection: Connection, shelf: Shelf) -> int | None:
    """The number of a shelf. None if it never had a document."""
    query = select(knowledge_shelves.c.number).where(
        knowledge_shelves.c.owner == shelf.owner, knowledge_shelves.c.name == shelf.id
    )
    found = connection.execute(query).scalar_one_or_none()
    return None if found is None else int(found)


def _made_shelf(connection: Connection, shelf: Shelf) -> int:
    insert_missing(connection, knowledge_shelves, [{"owner": shelf.owner, "name": shelf.id}])
    number = shelf_number(connection, shelf)
    assert number is not None
    return number


def index_files(connection: Connection, ids: Ids, owner: str, held: Sequence[File], at: datetime) -> None:
    """Let files of an owner's projects be indexed; those that are on their shelf already stay as they are.

    A picture has no text to find anything in.
    """
    caller, shelf = Caller(owner), _made_shelf(connection, Shelf(owner))
    for file in (file for file in held if file.width is None):
        document = Document(file.id, Shelf(owner), file.name, file.size, "", at, at, media_type=file.media_type)
        insert_missing(connection, knowledge_documents, [_row(document, shelf)])
        row = select(knowledge_documents.c.state).where(this_document(caller, file.id))
        if connection.execute(row).scalar_one_or_none() is DocumentState.WAITING:
            job = NewJob(INGEST, file.id, "a project holds it", at)
            enqueue_job(connection, caller, ids.new("job"), job, at)


def forget_documents(connection: Connection, ids: Ids, caller: Caller, which: ColumnElement[bool]) -> None:
    """Let documents be found no more, with a job for each that removes what is left, if anything is."""
    owned_by = (knowledge_documents.c.owner == caller.user_id, _THERE, which)
    stored = exists().where(knowledge_passages.c.document_id == knowledge_documents.c.id)
    nothing = (~stored, knowledge_documents.c.upload == "")
    bare = delete(knowledge_documents).where(*owned_by, *nothing).returning(knowledge_documents.c.id)
    gone = list(connection.execute(bare).scalars())
    forget_jobs(connection, caller, jobs.c.subject.in_(gone))
    query = select(knowledge_documents.c.id, knowledge_documents.c.updated_at).where(*owned_by)
    for document_id, at in connection.execute(query).all():
        job = NewJob(CLEAR, document_id, "it was removed", at)
        enqueue_job(connection, caller, ids.new("job"), job, at)
    changed = update(knowledge_documents).where(*owned_by)
    connection.execute(changed.values(removed=True, revision=knowledge_documents.c.revision + 1))


def forget_shelf(connection: Connection, ids: Ids, shelf: Shelf) -> None:
    """Let everything on a shelf be found no more."""
    number = shelf_number(connection, shelf)
    if number is not None:
        forget_documents(connection, ids, Caller(shelf.owner), knowledge_documents.c.shelf == number)


def uploaded_documents(connection: Connection) -> list[str]:
    """What the uploads are called that documents were read from, or are to be."""
    query = select(knowledge_documents.c.upload).where(_THERE, knowledge_documents.c.upload != "")
    return list(connection.execute(query).scalars())


class DocumentRows(Rows):
    """The verbs of `KnowledgeStore` about documents."""

    @writes
    def add_document(self, connection: Connection, document: Document, job: NewJob) -> Document:
        """Store a new document, and the job that makes it ready.

        The same bytes under the same name on the same shelf are the document that is there: it is given as it is.
        """
        caller, id = Caller(document.shelf.owner), self._ids.new("job")
        shelf = _made_shelf(connection, document.shelf)
        same = _ROWS.where(
            knowledge_documents.c.shelf == shelf,
            knowledge_documents.c.name == document.name,
            knowledge_documents.c.digest == document.digest,
            knowledge_documents.c.state != DocumentState.FAILED,
            _THERE,
        )
        known = connection.execute(same.limit(1)).mappings().first()
        if known is not None:
            return document_of(known)
        connection.execute(insert(knowledge_documents), _row(document, shelf))
        enqueue_job(connection, caller, id, job, document.created_at)
        return document

    @writes
    def replace_document(self, connection: Connection, caller: Caller, new: Document, job: NewJob) -> Document:
        """A new version of the document of this id; what is found of it stays until the new one is indexed.

        Name, size, digest, upload and moment are those of `new`.
        """
        values = {"name": new.name, "size": new.size, "digest": new.digest, "upload": new.upload}
        return self._new_version(connection, caller, new.id, job, values)

    @writes
    def renew_document(self, connection: Connection, caller: Caller, document_id: str, job: NewJob) -> Document:
        """A new version of the document from the bytes that it has; what is found stays until it is indexed."""
        return self._new_version(connection, caller, document_id, job, {})

    def _new_version(
        self, connection: Connection, caller: Caller, document_id: str, job: NewJob, values: dict[str, Any]
    ) -> Document:
        waiting = {
            "version": knowledge_documents.c.version + 1,
            "state": DocumentState.WAITING,
            "code": None,
            "reason": None,
            "updated_at": job.not_before,
        }
        id = self._ids.new("job")
        find_document(connection, caller, document_id)
        changed = update(knowledge_documents).where(this_document(caller, document_id))
        connection.execute(changed.values(**values, **waiting))
        enqueue_job(connection, caller, id, job, job.not_before)
        return find_document(connection, caller, document_id)

    @reads
    def document_on_shelf(self, connection: Connection, caller: Caller, document_id: str) -> Document:
        """One document."""
        return find_document(connection, caller, document_id)

    @reads
    def documents_on_shelf(self, connection: Connection, shelf: Shelf, query: PageQuery) -> Page[Document]:
        """The documents of a shelf."""
        on = (knowledge_shelves.c.owner == shelf.owner, knowledge_shelves.c.name == shelf.id, _THERE)
        return page(connection, _ROWS.where(*on), knowledge_documents.c.id, query, document_of)

    @reads
    def shelf_totals(
        self, connection: Connection, shelf: Shelf, documents: frozenset[str] | None = None
    ) -> ShelfTotals:
        """What stands on a shelf, or these of its documents."""
        of = knowledge_documents.c
        found = of.found.is_not(None)
        query = (
            select(
                of.state,
                func.count(),
                func.sum(case((found, 1), else_=0)),
                func.sum(of.passages),
                func.sum(of.tokens),
                func.sum(of.embedded),
            )
            .join(knowledge_shelves, knowledge_shelves.c.number == of.shelf)
            .where(knowledge_shelves.c.owner == shelf.owner, knowledge_shelves.c.name == shelf.id, _THERE)
            .group_by(of.state)
        )
        if documents is not None:
            query = query.where(of.id.in_(sorted(documents)))
        rows = connection.execute(query).all()
        states = {row[0]: int(row[1]) for row in rows}
        sums = [sum(int(row[column] or 0) for row in rows) for column in range(2, 6)]
        return ShelfTotals(states, *sums)

    @writes
    def remove_document(self, connection: Connection, caller: Caller, document_id: str) -> None:
        """Let a document be found no more; a job removes what is left of it."""
        find_document(connection, caller, document_id)
        forget_documents(connection, self._ids, caller, knowledge_documents.c.id == document_id)

    @reads
    def removed_upload(self, connection: Connection, caller: Caller, document_id: str) -> str:
        """What the bytes of a removed document are called; "" for one that has none, or that is there."""
        of = knowledge_documents.c
        gone = (of.id == document_id, of.owner == caller.user_id, of.removed.is_(True))
        return str(connection.execute(select(of.upload).where(*gone)).scalar_one_or_none() or "")

    @reads
    def removed_documents(self, connection: Connection) -> tuple[tuple[Caller, str], ...]:
        """Documents of every owner that were removed and of which something is left."""
        query = select(knowledge_documents.c.owner, knowledge_documents.c.id).where(
            knowledge_documents.c.removed.is_(True)
        )
        return tuple((Caller(owner), id) for owner, id in connection.execute(query))

    @reads
    def unready_documents(self, connection: Connection, model: str) -> tuple[tuple[Caller, str], ...]:
        """Documents of every owner that are to be made ready, or have no vectors of this model."""
        of = knowledge_documents.c
        other = and_(of.state == DocumentState.READY, func.coalesce(of.model, "") != model)
        query = select(of.owner, of.id).where(_THERE, or_(of.state.in_(_UNREADY), other)).order_by(of.id)
        return tuple((Caller(owner), id) for owner, id in connection.execute(query))

    @writes
    def index_held_files(self, connection: Connection, at: datetime) -> int:
        """Let every file that a project holds be indexed, with a job for each that is not; gives how many are new."""
        new = (
            select(files.c.owner, files.c.id, files.c.name, files.c.size, files.c.media_type)
            .join(project_files, project_files.c.file_id == files.c.id)
            .outerjoin(knowledge_documents, knowledge_documents.c.id == files.c.id)
            .where(knowledge_documents.c.id.is_(None))
            .distinct()
        )
        rows = connection.execute(new).all()
        for owner, *row in rows:
            file = File(row[0], row[1], row[3], row[2], "ready", 0, at)
            index_files(connection, self._ids, owner, [file], at)
        return len(rows)

    @writes
    def say_state(
        self,
        connection: Connection,
        caller: Caller,
        document_id: str,
        version: int,
        state: DocumentState,
        at: datetime,
        *,
        code: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """How far a version is, and why it goes no further."""
        values = {"state": state, "code": code, "reason": reason, "updated_at": at}
        return self._change(connection, caller, document_id, version, values)

    @writes
    def finish_document(
        self, connection: Connection, caller: Caller, document_id: str, version: int, model: str, at: datetime
    ) -> bool:
        """All vectors are there: the document is ready."""
        values = {
            "state": DocumentState.READY,
            "code": None,
            "reason": None,
            "model": model,
            "embedded": knowledge_documents.c.passages,
            "revision": knowledge_documents.c.revision + 1,
            "updated_at": at,
        }
        return self._change(connection, caller, document_id, version, values)

    def _change(
        self, connection: Connection, caller: Caller, document_id: str, version: int, values: dict[str, Any]
    ) -> bool:
        changed = update(knowledge_documents).where(this_document(caller, document_id, version)).values(**values)
        return rows_changed(connection, changed) > 0


def remove_row(connection: Connection, caller: Caller, document_id: str) -> None:
    """Remove what is left of a removed document: its row, and the job that read it, whose error may quote it."""
    forget_jobs(connection, caller, (jobs.c.subject == document_id) & (jobs.c.kind == INGEST))
    connection.execute(
        delete(knowledge_documents).where(
            knowledge_documents.c.id == document_id,
            knowledge_documents.c.owner == caller.user_id,
            knowledge_documents.c.removed.is_(True),
        )
    )
