"""What is found again: passages of messages and summaries, their terms and vectors."""

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
    """The knowledge bases that something of stands in it."""

    @property
    def reference(self) -> str:
        """What names it within its conversation: `MESSAGE`, or `MESSAGE/CALL` for a result."""
        return f"{self.id}/{self.call_id}" if self.call_id else self.id


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a source to index: characters `start` to `end`, its terms in order, and its vector, where made already.

    `vector` is of float16, little-endian, of length 1.
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
    """Where vectors can be compared: all of one model and dimension.

    `weight` is what the rank by meaning counts beside the rank by words, `floor` the least similarity that means
    anything; `session_weight` is what the nearest passages of a session count beside its words, and `document_weight`
    what, in a search of documents, the nearest passage counts at most beside the best by words. `words_only` is empty
    for vectors that tell meaning; for others it says so, with the setting that gives meaning.
    """

    model: str
    weight: float
    floor: float
    session_weight: float = 0.0
    document_weight: float = 0.7
    words_only: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of texts, in their order, and what they cost."""

    vectors: tuple[bytes, ...]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What is looked for: `terms`, and a `vector` of `space` where there is one; in one conversation, or in all."""

    terms: tuple[str, ...]
    space: Space
    vector: bytes | None = None
    conversation_id: str | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found, in its source. `score` is 1 for what stands first by words and by meaning."""

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
class Found:
    """What was found, the best first. `without`: why meaning had no say, or "". Of an embedder that knows no meaning it
    is said where nothing was found."""

    hits: tuple[Hit, ...] = ()
    sessions: tuple[SessionHit, ...] = ()
    without: str = ""
