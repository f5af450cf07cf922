"""Files and documents: their rows, texts and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from lamella.core.messages import Attachment, Image
from lamella.core.records import (
    Caller,
    File,
    FoundDocument,
    Page,
    PageQuery,
)


class FileRows(Protocol):
    """Files and documents: their rows, texts and pictures."""

    async def add_file(self, caller: Caller, file: File, text: str | None, image: Image | None = None) -> None:
        """Store a file's row, and its extracted text or its picture."""
        ...

    async def delete_file(self, caller: Caller, file_id: str) -> None:
        """Remove a file; raises `FileInUse` while a message or a project holds it."""
        ...

    async def attachments(
        self, caller: Caller, conversation_id: str, file_ids: Sequence[str], project: Sequence[Attachment] = ()
    ) -> tuple[Attachment, ...]:
        """Files as they would be attached to a message of a conversation; nothing is stored.

        Each has the one number that it has there. `project` are the files of its project, whose numbers come first.
        """
        ...

    async def file(self, caller: Caller, file_id: str) -> File:
        """One file."""
        ...

    async def files(self, caller: Caller, query: PageQuery) -> Page[File]:
        """The caller's files."""
        ...

    async def file_text(self, caller: Caller, file_id: str) -> str | None:
        """The extracted text, None when there is none."""
        ...

    async def keep_document(
        self, caller: Caller, conversation_id: str, found: FoundDocument, tokens: int, at: datetime
    ) -> Attachment:
        """Store what a tool brought into a conversation, under a number that was never used in it; give it as kept.

        The same text from the same place again is the same document.
        """
        ...

    async def found_documents(self, caller: Caller, conversation_id: str) -> tuple[tuple[datetime, Attachment], ...]:
        """What tools brought into a conversation, with the texts and the moments, by number."""
        ...

    async def document(self, caller: Caller, document_id: str) -> Attachment:
        """A document that a tool brought into a conversation, with its text."""
        ...

    async def attached(self, caller: Caller, conversation_id: str, file_id: str) -> Attachment:
        """A file of any message of a conversation, wherever its window begins; raises `NotFound`."""
        ...

    async def file_ids(self) -> frozenset[str]:
        """The ids of every stored file of every owner: for clearing up at start."""
        ...
