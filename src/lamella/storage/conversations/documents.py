"""What tools brought into a conversation to read, with document numbers that are given once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from lamella.core.errors import NotFound
from lamella.core.json import digest
from lamella.core.knowledge import WITHHELD_DOCUMENT
from lamella.core.messages import Attachment
from lamella.core.records import Caller, FoundDocument
from lamella.storage.columns import NAMES, json_of, json_text, moment_text
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Rows, reads, writes
from lamella.storage.failures import damaged, unicode_only
from lamella.storage.grants import closed_bases
from lamella.storage.mapping.library import Row
from lamella.storage.tables import conversations, found_documents

_HEAD = tuple(column for column in found_documents.c if column.name not in ("data", "digest", "owner"))


def _row(owner: str, conversation_id: str, found: FoundDocument) -> Row:
    with unicode_only():
        data = found.text.encode()
        return {
            "owner": owner,
            "conversation_id": conversation_id,
            "title": found.title,
            "media_type": found.media_type,
            "url": found.url,
            "size": found.size,
            "digest": digest((found.url or "").encode(), found.title.encode(), data),
            "data": data,
            "made_from": json_text(found.made_from),
        }


def _of(row: RowMapping, text: str | None = None) -> Attachment:
    return Attachment(
        file_id=row["id"],
        document=row["document"],
        title=row["title"],
        media_type=row["media_type"],
        size=row["size"],
        tokens=row["tokens"],
        text=text,
        found=True,
        url=row["url"],
    )


def find_documents(connection: Connection, caller: Caller, conversation_id: str) -> tuple[Attachment, ...]:
    """What tools brought into a conversation, by number and without the texts."""
    query = (
        select(*_HEAD)
        .where(found_documents.c.conversation_id == conversation_id, found_documents.c.owner == caller.user_id)
        .order_by(found_documents.c.document)
    )
    rows = connection.execute(query).mappings().all()
    return _held_back(connection, caller, rows, [None] * len(rows))


def _held_back(
    connection: Connection, caller: Caller, rows: Sequence[RowMapping], texts: Sequence[str | None]
) -> tuple[Attachment, ...]:
    """The documents of these rows; of one that was made from a base that is closed to the caller only the number."""
    made_from = [json_of(NAMES, row["made_from"], f"document {row['id']}") for row in rows]
    closed = closed_bases(connection, caller, (base for bases in made_from for base in bases))
    documents = [_of(row, text) for row, text in zip(rows, texts, strict=True)]
    return tuple(
        one if closed.isdisjoint(bases) else _withheld(one) for one, bases in zip(documents, made_from, strict=True)
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
        found: FoundDocument,
        tokens: int,
        at: datetime,
    ) -> Attachment:
        """Store what a tool brought into a conversation, under a number that was never used in it; give it as kept.

        The same text from the same place again is the same document.
        """
        row = _row(caller.user_id, conversation_id, found)
        same = (
            select(*_HEAD)
            .where(found_documents.c.conversation_id == conversation_id, found_documents.c.owner == caller.user_id)
            .where(found_documents.c.digest == row["digest"])
        )
        find_conversation(connection, caller, conversation_id, lock=True)
        known = connection.execute(same).mappings().first()
        if known is not None:
            return _of(known, found.text)
        number = _take_number(connection, caller, conversation_id)
        row |= {
            "id": self._ids.new("doc"),
            "document": number,
            "tokens": tokens,
            "created_at": moment_text(at),
        }
        connection.execute(insert(found_documents), row)
        stored = connection.execute(same).mappings().one()
        return _of(stored, found.text)

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
        return tuple((datetime.fromisoformat(row["created_at"]), one) for row, one in zip(rows, found, strict=True))

    @reads
    def document(self, connection: Connection, caller: Caller, document_id: str) -> Attachment:
        """A document that a tool brought into a conversation, with its text."""
        query = select(found_documents).where(
            found_documents.c.id == document_id, found_documents.c.owner == caller.user_id
        )
        row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"There is no document {document_id}.", param="document_id")
        [document] = _held_back(connection, caller, [row], [_text(row)])
        return document


def _text(row: RowMapping) -> str:
    try:
        return bytes(row["data"]).decode()
    except UnicodeDecodeError as error:
        raise damaged(f"the text of {row['id']}", error) from error


def _take_number(connection: Connection, caller: Caller, conversation_id: str) -> int:
    """The conversation's next document number, which nobody else gets."""
    taken = (
        update(conversations)
        .where(conversations.c.id == conversation_id, conversations.c.owner == caller.user_id)
        .values(next_document=conversations.c.next_document + 1)
        .returning(conversations.c.next_document)
    )
    following: int = connection.execute(taken).scalar_one()
    return following - 1
