"""Types of the search over earlier messages and summaries: passages, terms, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.tokens import Usage


class Speaker(StrEnum):
    """Whose words a passage are."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Source:
    """Something that can be read again in full: a message, the result of a call, or the summary of a session.

    `id` is the message's, or the session's for a summary; `call_id` is "" but for a result, whose tool is `name`.
    """

    conversation_id: str
    session_id: str
    session: int
    """The session's number in its conversation."""
    turn_id: str | None
    id: str
    call_id: str
    speaker: Speaker
    name: str
    at: datetime
    content: str
    made_from: tuple[str, ...] = ()
    """The knowledge bases whose content is in it."""

    @property
    def reference(self) -> str:
        """Its name within its conversation: `MESSAGE`, or `MESSAGE/CALL` for a result."""
        return f"{self.id}/{self.call_id}" if self.call_id else self.id


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a source to index: characters `start` to `end`, its terms in order, and its vector, if already made.

    `vector` is float16, little-endian, of norm 1.
    """

    id: str
    call_id: str
    speaker: Speaker
    name: str
    at: datetime
    start: int
    end: int
    terms: Sequence[str]
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class PassageText:
    """A stored passage that has no vector yet; `entry` names it in the index."""

    entry: int
    session_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Space:
    """A vector space: all vectors of one model and dimension are comparable.

    `weight` is the weight of the rank by meaning, relative to the rank by words, `floor` the least similarity that
    means anything; `session_weight` is the weight of a session's nearest passages relative to its words, and
    `document_weight` what, in a search of documents, the nearest passage counts at most, relative to the best by words.
    `words_only` is empty for vectors that tell meaning; for others it says so, with the setting that gives meaning.
    """

    model: str
    weight: float
    floor: float
    session_weight: float = 0.0
    document_weight: float = 0.7
    words_only: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of texts, in the same order, and their cost."""

    vectors: tuple[bytes, ...]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A search: `terms`, and a `vector` of `space` if there is one; in one conversation, or in all."""

    terms: tuple[str, ...]
    space: Space
    vector: bytes | None = None
    conversation_id: str | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """A found passage and its source. `score` is 1 for the best by words and by meaning."""

    source: Source
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class SessionHit:
    """A session that was found. `score` is 1 for the best; `covers`: the share of the query, by weight, in it."""

    session_id: str
    score: float
    covers: float
    best: Hit | None
    """Its best passage."""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The hits, best first. `without`: why vectors took no part, or "". If the embedder captures no meaning, it is set
    only when nothing was found.
    """

    hits: tuple[Hit, ...] = ()
    sessions: tuple[SessionHit, ...] = ()
    without: str = ""
