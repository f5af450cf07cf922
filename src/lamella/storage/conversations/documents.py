"""What tools brought into a conversation to read, with document numbers that are given once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from lamella.core.json import digest
from lamella.core.knowledge import WITHHELD_DOCUMENT
from lamella.core.messages import Attachment
from lamella.core.records import Caller, FoundDocument
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Rows, reads, writes
from lamella.storage.failures import damaged, unicode_only
from lamella.storage.grants import closed_bases
from lamella.storage.rows import Row, find_row, owned_by, record, values
from lamella.storage.tables import conversations, found_documents

_HEAD = tuple(column for column in found_documents.c if column.name not in ("data", "digest", "owner"))


def _row(owner: str, conversation_id: str, document: FoundDocument) -> Row:
    with unicode_only():
        data = document.text.encode()
        mark = digest((document.url or "").encode(), document.title.encode(), data)
    return values(found_documents, document, owner=owner, conversation_id=conversation_id, digest=mark, data=data)


def _of(row: RowMapping, text: str | None = None) -> Attachment:
    return record(Attachment, row, file_id=row["id"], text=text, found=True)


def ask_documents(connection: Connection, caller: Caller, conversation_id: str) -> Callable[[], tuple[Attachment, ...]]:
    """Asks for what tools brought into a conversation, by number and without the texts."""
    query = (
        select(*_HEAD)
        .where(found_documents.c.conversation_id == conversation_id, found_documents.c.owner == caller.user_id)
        .order_by(found_documents.c.document)
    )
    asked = connection.execute(query).mappings()

    def found() -> tuple[Attachment, ...]:
        rows = asked.all()
        return _held_back(connection, caller, rows, [None] * len(rows))

    return found


def _held_back(
    connection: Connection, caller: Caller, rows: Sequence[RowMapping], texts: Sequence[str | None]
) -> tuple[Attachment, ...]:
    """The documents of these rows; of one that was made from a base that is closed to the caller only the number."""
    closed = closed_bases(connection, caller, (base for row in rows for base in row["made_from"]))
    documents = [_of(row, text) for row, text in zip(rows, texts, strict=True)]
    return tuple(
        one if closed.isdisjoint(row["made_from"]) else _withheld(one) for one, row in zip(documents, rows, strict=True)
    )


def _withheld(document: Attachment) -> Attachment:
    text = None if document.text is None else WITHHELD_DOCUMENT.format(number=document.document)
    return replace(document, title="Withheld", text=text, url=None)


class FoundDocumentRows(Rows):
    """Documents that tools found."""

    @writes
    def keep_document(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        document: FoundDocument,
        tokens: int,
        at: datetime,
    ) -> Attachment:
        """Store what a tool brought into a conversation, under a number that was never used in it; give it as kept.

        The same text from the same place again is the same document.
        """
        row = _row(caller.user_id, conversation_id, document)
        same = (
            select(*_HEAD)
            .where(found_documents.c.conversation_id == conversation_id, found_documents.c.owner == caller.user_id)
            .where(found_documents.c.digest == row["digest"])
        )
        find_conversation(connection, caller, conversation_id, lock=True)
        known = connection.execute(same).mappings().first()
        if known is not None:
            return _of(known, document.text)
        number = _take_number(connection, caller, conversation_id)
        row |= {"id": self._ids.new("doc"), "document": number, "tokens": tokens, "created_at": at}
        connection.execute(insert(found_documents), row)
        stored = connection.execute(same).mappings().one()
        return _of(stored, document.text)

    @reads
    def found_documents(
        self, connection: Connection, caller: Caller, conversation_id: str
    ) -> tuple[tuple[datetime, Attachment], ...]:
        """What tools brought into a conversation, with the texts and the moments, by number."""
        query = (
            select(found_documents)
            .where(found_documents.c.conversation_id == conversation_id, found_documents.c.owner == caller.user_id)
            .order_by(found_documents.c.document)
        )
        find_conversation(connection, caller, conversation_id)
        rows = connection.execute(query).mappings().all()
        found = _held_back(connection, caller, rows, [_text(row) for row in rows])
        return tuple((row["created_at"], one) for row, one in zip(rows, found, strict=True))

    @reads
    def document(self, connection: Connection, caller: Caller, document_id: str) -> Attachment:
        """A document that a tool brought into a conversation, with its text."""
        row = find_row(connection, found_documents, caller, document_id, "document")
        [document] = _held_back(connection, caller, [row], [_text(row)])
        return document


def _text(row: RowMapping) -> str:
    try:
        return str(row["data"], "utf-8")
    except UnicodeDecodeError as error:
        raise damaged(f"the text of {row['id']}", error) from error


def _take_number(connection: Connection, caller: Caller, conversation_id: str) -> int:
    """The conversation's next document number, which nobody else gets."""
    taken = (
        update(conversations)
        .where(*owned_by(conversations, caller, conversation_id))
        .values(next_document=conversations.c.next_document + 1)
        .returning(conversations.c.next_document)
    )
    following: int = connection.execute(taken).scalar_one()
    return following - 1
