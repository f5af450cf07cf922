"""The document numbers of files in a conversation: one for each file, for good, whatever brings it (SPEC O7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, delete, insert, select, update

from lamella.core.errors import NotFound
from lamella.core.records import Caller
from lamella.storage.tables import conversations, document_numbers


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file's document number in a conversation, how often it came there, and which of these uses is the project's."""

    document: int
    uses: int = 0
    project_use: int | None = None


@dataclass(slots=True)
class Numbers:
    """The numbers of some files in a conversation, and the next one that is free; gives numbers to new ones."""

    following: int
    known: dict[str, Numbered]
    changed: set[str] = field(default_factory=set)

    def attach(self, file_id: str) -> tuple[int, int]:
        """Number and use of a file that is attached now."""
        numbered = self._of(file_id)
        self._put(file_id, replace(numbered, uses=numbered.uses + 1))
        return numbered.document, numbered.uses

    def project(self, file_id: str) -> tuple[int, int]:
        """Number and use of a file of the project: always the same."""
        numbered = self._of(file_id)
        if numbered.project_use is not None:
            return numbered.document, numbered.project_use
        self._put(file_id, replace(numbered, uses=numbered.uses + 1, project_use=numbered.uses))
        return numbered.document, numbered.uses

    def _of(self, file_id: str) -> Numbered:
        known = self.known.get(file_id)
        if known is None:
            known = Numbered(self.following)
            self.following += 1
        return known

    def _put(self, file_id: str, numbered: Numbered) -> None:
        self.known[file_id] = numbered
        self.changed.add(file_id)


def numbers_of(connection: Connection, caller: Caller, conversation_id: str, file_ids: Sequence[str]) -> Numbers:
    """What is stored of these files in a conversation. Raises `NotFound`."""
    following = select(conversations.c.next_document).where(
        conversations.c.id == conversation_id, conversations.c.owner == caller.user_id
    )
    number: int | None = connection.execute(following).scalar_one_or_none()
    if number is None:
        raise NotFound(f"There is no conversation {conversation_id}.", param="conversation_id")
    return Numbers(number, _known(connection, caller, conversation_id, file_ids) if file_ids else {})


def _known(
    connection: Connection, caller: Caller, conversation_id: str, file_ids: Sequence[str]
) -> dict[str, Numbered]:
    query = select(document_numbers).where(
        document_numbers.c.conversation_id == conversation_id,
        document_numbers.c.owner == caller.user_id,
        document_numbers.c.file_id.in_(file_ids),
    )
    rows = connection.execute(query).mappings()
    return {row["file_id"]: Numbered(row["document"], row["uses"], row["project_use"]) for row in rows}


def store_numbers(connection: Connection, caller: Caller, conversation_id: str, numbers: Numbers) -> None:
    """Store what was given since they were read, in the same transaction."""
    if not numbers.changed:
        return
    changed: Mapping[str, Numbered] = {file_id: numbers.known[file_id] for file_id in sorted(numbers.changed)}
    these = (document_numbers.c.conversation_id == conversation_id, document_numbers.c.owner == caller.user_id)
    connection.execute(delete(document_numbers).where(*these, document_numbers.c.file_id.in_(list(changed))))
    rows = [
        {
            "conversation_id": conversation_id,
            "file_id": file_id,
            "owner": caller.user_id,
            "document": numbered.document,
            "uses": numbered.uses,
            "project_use": numbered.project_use,
        }
        for file_id, numbered in changed.items()
    ]
    connection.execute(insert(document_numbers), rows)
    connection.execute(
        update(conversations)
        .where(conversations.c.id == conversation_id, conversations.c.owner == caller.user_id)
        .values(next_document=numbers.following)
    )
