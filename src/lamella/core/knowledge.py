"""What is kept to be searched: documents on shelves, their passages, and what a search finds (SPEC W9, O4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from lamella.core.recall import Space

INGEST = "knowledge_ingest"
"""The job that makes a document ready."""

CLEAR = "knowledge_clear"
"""The job that removes what is left of a document."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What documents stand on: a knowledge base (`id` is the base's), or the files of an owner's projects (`id` "")."""

    owner: str
    id: str = ""


class DocumentState(StrEnum):
    """How far a document is."""

    WAITING = "waiting"
    """Its bytes are stored; nothing was read."""

    READING = "reading"
    INDEXING = "indexing"
    EMBEDDING = "embedding"
    """It is found by words; vectors are missing."""

    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Document:
    """A document to be searched. A file of a project has the file's id; the bytes of others lie in a `FileStore` as
    `upload`.

    `version` counts its contents from 1; `found` is the one whose passages are found, None for none yet: a failed new
    version leaves the one before. `code` and `reason` say why it failed, or what it waits for. `tokens` and `passages`
    are those of the version that is found; `embedded` counts the passages that have a vector of `model`.
    """

    id: str
    shelf: Shelf
    name: str
    size: int
    digest: str
    created_at: datetime
    updated_at: datetime
    state: DocumentState = DocumentState.WAITING
    media_type: str = ""
    pages: int | None = None
    tokens: int = 0
    code: str | None = None
    reason: str | None = None
    version: int = 1
    found: int | None = None
    passages: int = 0
    embedded: int = 0
    model: str | None = None
    upload: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it is a file of a project, whose text is the file's."""
        return not self.upload


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What was read of a version of a document: its facts, without the text."""

    media_type: str
    tokens: int
    pages: int | None


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to store: characters `start` to `end` of its document, with its terms in order and blanks between.

    `length` is in terms. `vector` is of float16, little-endian, of length 1, where it is made already.
    """

    start: int
    end: int
    text: str
    headings: tuple[str, ...]
    page: int | None
    terms: str
    length: int
    tokens: int
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage of a document; `position` counts from 0, `entry` names it in the index."""

    entry: int
    document_id: str
    position: int
    start: int
    end: int
    text: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Searcher:
    """A conversation or an agent that searches a base, as its owner knows it."""

    kind: Literal["conversation", "agent"]
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ShelfTotals:
    """What stands on a shelf: documents by state, and what of them is found."""

    states: Mapping[DocumentState, int]
    found: int
    passages: int
    tokens: int
    embedded: int

    @property
    def documents(self) -> int:
        """All documents."""
        return sum(self.states.values())

    @property
    def unfinished(self) -> int:
        """Documents that are still being made ready."""
        return self.documents - self.states.get(DocumentState.READY, 0) - self.states.get(DocumentState.FAILED, 0)


@dataclass(frozen=True, slots=True)
class KnowledgeQuery:
    """What is looked for: `terms`, and a `vector` of `space` where there is one, on `shelves`.

    `documents` limits it to these; None is all.
    """

    terms: tuple[str, ...]
    space: Space
    vector: bytes | None
    shelves: tuple[Shelf, ...]
    documents: frozenset[str] | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """A passage that was found, of the document that it is in.

    `score` is 1 for what stands first by words and by meaning; `words` is its BM25 score, `similarity` its cosine to
    the query, each 0 where that had no say.
    """

    passage: StoredPassage
    document: Document
    score: float
    words: float
    similarity: float


@dataclass(frozen=True, slots=True)
class KnowledgeFound:
    """What was found, the best first. `without`: why meaning had no say, as `core.recall.Found` has it; `queries` are
    all that were run."""

    hits: tuple[KnowledgeHit, ...] = ()
    without: str = ""
    queries: tuple[str, ...] = field(default=())
