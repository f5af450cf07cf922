"""Documents of knowledge bases, their passages, search results, and the rule for withholding content.

A result names the knowledge bases whose passages it contains. Answers and summaries name the bases whose passages,
directly or through earlier answers, were in the window that produced them. If a reader loses access to one of these
bases, a fixed sentence replaces the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal

from msgspec import DecodeError

from lamella.core.agents import Summary
from lamella.core.counting import count_tokens
from lamella.core.json import decode_object, encode_text
from lamella.core.messages import AnswerPart, Step, Text, ToolCall, ToolResult, Turn, UserMessage
from lamella.core.recall import Space

INGEST = "knowledge_ingest"
"""The job that makes a document ready."""

CLEAR = "knowledge_clear"
"""The job that removes the rest of a deleted document."""


ERASE = "knowledge_erase"
"""The job that erases what conversations hold of a removed base."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A collection of documents: a knowledge base (`id` is the base's), or the files of an owner's projects (`id`
    "").
    """

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
    """A searchable document. A project's file has the file's id; the bytes of others are in a `FileStore` as `upload`.

    `version` counts its contents from 1. `found` is the version that search uses, None before the first is indexed; if
    a new version fails, the old one stays. `code` and `reason` say why it failed or is waiting. `tokens` and `passages`
    describe the version in use; `embedded` counts the passages with a vector of `model`.
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
    """The facts about the extracted text of a document's version, without the text."""

    media_type: str
    tokens: int
    pages: int | None


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to store: characters `start` to `end` of its document, and its terms in order, separated by blanks.

    `length` counts terms. `vector` is float16, little-endian, of norm 1, if it is already made.
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


NameCounts = dict[str, tuple[dict[str, int], dict[str, int], dict[str, int]]]
"""What a document tells of names, by language: how often words stand with a capital, in small letters, and phrases."""


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A document that is found, and the `rules` by which the names in its text were found, None if they were not."""

    id: str
    version: int
    name: str
    tokens: int
    rules: str | None


@dataclass(frozen=True, slots=True)
class Searcher:
    """A conversation or an agent that searches a base, as its owner knows it."""

    kind: Literal["conversation", "agent"]
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ShelfTotals:
    """Number of documents on a shelf by state, and of those that search uses."""

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
    """A search: `terms` in order, with repeats, and a `vector` of `space`, on `shelves`.

    `documents` limits it to these ids; None searches all.
    """

    terms: tuple[str, ...]
    space: Space
    vector: bytes | None
    shelves: tuple[Shelf, ...]
    documents: frozenset[str] | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """A found passage and its document.

    `score` is 1 for what is best by words and by meaning; `words` is its BM25 score, 0 if it holds no word, and
    `similarity` its cosine to the query, 0 if there is no vector. Among more than 100,000 passages that is an estimate
    for one which is not among the 1,000 nearest.
    """

    passage: StoredPassage
    document: Document
    score: float
    words: float
    similarity: float


@dataclass(frozen=True, slots=True)
class KnowledgeFound:
    """The hits of a search, best first. `without` says why vectors took no part, or "" (as in
    `core.recall.RecallResult`).
    """

    hits: tuple[KnowledgeHit, ...] = ()
    without: str = ""


WITHHELD = "This result came from a knowledge base that may not be read in full any more. Search again."
WITHHELD_ANSWER = "What was said here was made with a knowledge base that may not be read in full any more."
WITHHELD_SUMMARY = (
    "The summary of this part was made with a knowledge base that may not be read in full any more. Search again, or "
    "search the conversation for what the user said."
)

WITHHELD_REQUEST = "This request was made with a knowledge base that may not be read in full any more."
WITHHELD_ERROR = "What failed here was made with a knowledge base that may not be read in full any more."
WITHHELD_TITLE = "Withheld"
WITHHELD_DOCUMENT = "Document {number} was brought here with a knowledge base that may not be read in full any more."

_MARK = '"knowledge_base'
DOUBTFUL = "?"
"""Stands for a base that can't be read from a result: nobody has a grant on it."""


def bases_of(result: ToolResult) -> frozenset[str]:
    """The knowledge bases whose passages a result holds, as far as more than a safe summary of them."""
    if _MARK not in result.rich:
        return frozenset()
    try:
        rich = decode_object(result.rich)
    except DecodeError:
        return frozenset({DOUBTFUL})
    documents, quoted = rich.get("documents", []), rich.get("knowledge_bases", [])
    if not isinstance(documents, list) or not isinstance(quoted, list):
        return frozenset({DOUBTFUL})
    named = [document.get("knowledge_base_id") for document in documents if isinstance(document, dict)]
    return frozenset(id if isinstance(id, str) else DOUBTFUL for id in (*named, *quoted) if id is not None)


def quoting(bases: Iterable[str]) -> str:
    """The `rich` of a result that quotes what was made of these bases."""
    named = sorted(set(bases))
    return encode_text({"knowledge_bases": list(named)}) if named else ""


def bases_of_steps(steps: Iterable[Step]) -> frozenset[str]:
    """The bases that these steps, as they are given, hold something of."""
    held: set[str] = set()
    for step in steps:
        held.update(step.made_from, *(bases_of(result) for result in step.results))
    return frozenset(held)


def bases_of_window(turns: Sequence[Turn], summaries: Sequence[Summary] = ()) -> frozenset[str]:
    """The bases that a window of these holds something of."""
    steps = [step for turn in turns for step in turn.steps]
    return bases_of_steps(steps).union(base for summary in summaries for base in summary.made_from)


def held_back(result: ToolResult, closed: Collection[str]) -> ToolResult:
    """The result as it may be given when these bases are closed to its reader."""
    return result if bases_of(result).isdisjoint(closed) else _emptied(result)


def _emptied(result: ToolResult) -> ToolResult:
    return ToolResult(result.call_id, result.name, WITHHELD, result.is_error)


def error_held_back(error: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The error without its text, in which a provider may quote the request; its type and code stay."""
    return {**error, "message": WITHHELD_ERROR, "param": None, "hint": None}


def with_held_back(steps: Iterable[Step], closed: Collection[str]) -> tuple[Step, ...]:
    """The steps with the content of these bases replaced by the fixed sentence."""
    if not closed:
        return tuple(steps)
    return tuple(_held_back(step, frozenset(closed)) for step in steps)


def user_held_back(user: UserMessage, closed: Collection[str]) -> UserMessage:
    """The message without its dynamic context, if that contains content of these bases. The user's own text stays."""
    withheld = tuple(sorted(set(user.made_from).intersection(closed)))
    if not withheld:
        return user
    return replace(user, dynamic="", dynamic_whys=(), made_from=(), withheld=withheld)


def _held_back(step: Step, closed: frozenset[str]) -> Step:
    """A step that was made with a closed base keeps only the names of its calls: arguments and results may quote the
    base.
    """
    withheld = tuple(sorted(bases_of_steps([step]) & closed))
    if closed.isdisjoint(step.made_from):
        results = tuple(held_back(result, closed) for result in step.results)
        return _counted(replace(step, results=results, withheld=withheld)) if withheld else step
    says: tuple[AnswerPart, ...] = (Text(WITHHELD_ANSWER),) if step.text or not step.calls else ()
    calls = tuple(ToolCall(call.id, call.name, "{}") for call in step.calls)
    results = tuple(_emptied(result) for result in step.results)
    return _counted(replace(step, parts=(*says, *calls), results=results, made_from=(), withheld=withheld))


def _counted(step: Step) -> Step:
    """The step with the tokens of the remaining text, since the old count would show how much was removed."""
    texts = [step.text, *(result.content for result in step.results)]
    texts += [f"{call.name}{call.arguments}" for call in step.calls]
    return replace(step, tokens=sum(map(count_tokens, texts)))
