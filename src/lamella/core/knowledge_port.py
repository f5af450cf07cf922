"""The port to the documents that are searched, and to their index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from lamella.core.knowledge import (
    Document,
    DocumentState,
    DocumentText,
    KnowledgeHit,
    KnowledgeQuery,
    NewPassage,
    Searcher,
    Shelf,
    ShelfTotals,
    StoredPassage,
)
from lamella.core.records import Caller, NewJob, Page, PageQuery


class KnowledgeStore(Protocol):
    """Documents, their passages and vectors (`storage/`). Every verb is one transaction.

    The caller is the owner of the shelf: who else may read from it is decided above. A foreign id is `NotFound`. What
    belongs to a version says so: a verb of a version that is no longer the newest, or of a document that was removed,
    stores nothing and gives False, so that late work is lost and nothing else.
    """

    async def add_document(self, document: Document, job: NewJob) -> Document:
        """Store a new document, and the job that makes it ready.

        The same bytes under the same name on the same shelf are the document that is there: it is given as it is.
        """
        ...

    async def replace_document(self, caller: Caller, new: Document, job: NewJob) -> Document:
        """A new version of the document of this id; what is found of it stays until the new one is indexed.

        Name, size, digest, upload and moment are those of `new`.
        """
        ...

    async def renew_document(self, caller: Caller, document_id: str, job: NewJob) -> Document:
        """A new version of the document from the bytes that it has; what is found stays until it is indexed."""
        ...

    async def document_on_shelf(self, caller: Caller, document_id: str) -> Document:
        """One document."""
        ...

    async def documents_on_shelf(self, shelf: Shelf, query: PageQuery) -> Page[Document]:
        """The documents of a shelf."""
        ...

    async def shelf_totals(self, shelf: Shelf, documents: frozenset[str] | None = None) -> ShelfTotals:
        """What stands on a shelf, or these of its documents."""
        ...

    async def remove_document(self, caller: Caller, document_id: str) -> None:
        """Let a document be found no more; a job removes what is left of it."""
        ...

    async def removed_upload(self, caller: Caller, document_id: str) -> str:
        """What the bytes of a removed document are called; "" for one that has none, or that is there."""
        ...

    async def removed_documents(self) -> tuple[tuple[Caller, str], ...]:
        """Documents of every owner that were removed and of which something is left."""
        ...

    async def unready_documents(self, model: str) -> tuple[tuple[Caller, str], ...]:
        """Documents of every owner that are to be made ready, or have no vectors of this model."""
        ...

    async def say_state(
        self,
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
        ...

    async def index_held_files(self, at: datetime) -> int:
        """Let every file that a project holds be indexed, with a job for each that is not; gives how many are new."""
        ...

    async def staged(self, caller: Caller, document_id: str, version: int) -> tuple[int, int]:
        """How many passages of a version are stored already, and at which character the last one ends."""
        ...

    async def unstage(self, caller: Caller, document_id: str, version: int) -> None:
        """Remove the passages of a version that nobody finds yet."""
        ...

    async def stage(
        self, caller: Caller, document_id: str, version: int, first: int, passages: Sequence[NewPassage], model: str
    ) -> bool:
        """Store passages of a version from position `first` on; nobody finds them yet.

        A passage that stands in the version that is found, word for word, has its vector.
        """
        ...

    async def publish(self, caller: Caller, document_id: str, version: int, facts: DocumentText, at: datetime) -> bool:
        """Let this version be found in place of the one before, from one moment to the next."""
        ...

    async def clear_out(self, caller: Caller, document_id: str, limit: int) -> int:
        """Remove passages that nobody finds any more, at most so many; gives how many.

        Of a removed document the row goes with the last of them.
        """
        ...

    async def begin_embedding(self, caller: Caller, document_id: str, version: int, model: str) -> int | None:
        """Count what is found and has vectors of this model; gives how many have none, None for a version that is no
        more.
        """
        ...

    async def unembedded_passages(
        self, caller: Caller, document_id: str, model: str, limit: int
    ) -> tuple[StoredPassage, ...]:
        """Passages that are found and have no vector of this model."""
        ...

    async def embed_passages(self, caller: Caller, document_id: str, model: str, vectors: Mapping[int, bytes]) -> bool:
        """Give passages their vectors in place of earlier ones; raises `InvalidRequest` for another dimension than
        that of the vectors of this model that are stored already.
        """
        ...

    async def finish_document(self, caller: Caller, document_id: str, version: int, model: str, at: datetime) -> bool:
        """All vectors are there: the document is ready."""
        ...

    async def search_knowledge(self, query: KnowledgeQuery) -> tuple[KnowledgeHit, ...]:
        """What fits the query best, the best first."""
        ...

    async def passages_of(
        self, caller: Caller, document_id: str, first: int = 0, limit: int | None = None
    ) -> tuple[StoredPassage, ...]:
        """The passages of a document that are found, from position `first` on."""
        ...

    async def bind_bases(self, caller: Caller, subject_id: str, base_ids: Sequence[str]) -> None:
        """Let a conversation or an agent search these bases, in place of those before; whether it may is decided each
        time.
        """
        ...

    async def bound_bases(self, caller: Caller, subject_id: str) -> tuple[str, ...]:
        """The bases that a conversation or an agent searches, in order."""
        ...

    async def searchers(self, caller: Caller, base_id: str, limit: int) -> tuple[Searcher, ...]:
        """The caller's agents and conversations that search a base, the newest first."""
        ...

    async def count_search(self, caller: Caller, conversation_id: str, turn_id: str) -> tuple[int, int]:
        """Count one more search; gives how many the turn made, and how many the conversation did."""
        ...
