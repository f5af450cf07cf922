"""`knowledge_base_search`: passages of knowledge bases and project files; all of them if there are few.

What it says of itself never changes while a server runs, so it stands in the cached prefix. What may be searched is
decided anew for each call, from the caller's grants. Of a base that the caller may use and not read it gives what a
second model and the guard let through, apart from everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec

from lamella.context.documents import OWNERS_DATA, one_to_a_line
from lamella.core.access import RestrictedLevel
from lamella.core.counting import beginning_of, count_tokens
from lamella.core.errors import InvalidRequest, ToolFailed
from lamella.core.json import Json, encode_text
from lamella.core.knowledge import Document, KnowledgeFound, KnowledgeHit, ShelfTotals, StoredPassage
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller, FoundDocument
from lamella.knowledge.restricted.searching import RestrictedBase
from lamella.knowledge.restricted.summary import TO_DO, SafeSummary
from lamella.knowledge.searching import Searched
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope

NAME = "knowledge_base_search"
USUAL, MOST = 8, 20

ALL_SHARE = 0.25
"""The share of the window's free room in which all passages are returned without a search."""

ALL_MOST = 8_000
"""Tokens that all passages may have, at most, however large the window is."""

WARNING = 2
"""The model is warned so many calls before a limit."""

_NO_TITLES = "Documents can't be named in a knowledge base with restricted access."
_ABOUT_SAFE = (
    "What stands under `restricted` is all that may be said of those knowledge bases: help with it in general words, "
    "keep it apart from other sources, don't cite it as a document, and don't guess what was left out."
)

_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for: a question, or its telling words and names."},
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": f"Passages at most. Default {USUAL}.",
        },
        "documents": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 20,
            "description": "Titles of documents to look in. Default: all.",
        },
        "knowledge_base_ids": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 20,
            "description": "Ids of knowledge bases to look in. Default: all of this conversation.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_DESCRIPTION = (
    "Search the knowledge bases of this conversation and the files of its project, by words and meaning. Gives "
    "passages of documents, each with the number to cite, or all passages where there are few. Use it whenever the "
    "answer may stand there; ask for one thing at a time and search again with other words when nothing fits."
)


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    max_results: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = USUAL
    documents: tuple[str, ...] = ()
    knowledge_base_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchReach:
    """What a call may search: bases by id with their names, and a project's files. `restricted`: bases that only give a
    safe summary. `refused`: bound bases that may not be used, with names and reasons.
    """

    where: Searched
    bases: Mapping[str, str]
    refused: Sequence[tuple[str, str]] = ()
    restricted: Sequence[RestrictedBase] = ()


class KnowledgeReader(Protocol):
    """The tool's access to documents, on behalf of the caller of the call."""

    async def reach(self, scope: ToolScope, base_ids: Sequence[str]) -> SearchReach:
        """What this call may search; of the bound bases only `base_ids`, if given."""
        ...

    async def narrowed(self, where: Searched, titles: Sequence[str]) -> Searched:
        """Only the documents with these titles; raises `ToolFailed` for a title that no document has."""
        ...

    async def totals(self, where: Searched) -> ShelfTotals:
        """The totals of these documents."""
        ...

    async def search(self, where: Searched, query: str, limit: int) -> KnowledgeFound:
        """The passages that fit the query."""
        ...

    async def everything(self, where: Searched) -> Sequence[tuple[Document, Sequence[StoredPassage]]]:
        """All documents with all passages."""
        ...

    async def summarised(
        self, scope: ToolScope, bases: Sequence[RestrictedBase], query: str, limit: int
    ) -> Sequence[SafeSummary]:
        """The safe summary of each base with restricted access. Access to the bases was checked before."""
        ...

    async def count(self, caller: Caller, conversation_id: str, turn_id: str) -> tuple[int, int]:
        """Count a call; returns the number of calls of the turn and of the conversation."""
        ...


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits: number of calls, and tokens of passages per call."""

    turn: int
    conversation: int
    tokens: int


class KnowledgeBaseSearch:
    """The tool over a reader."""

    spec = ToolSpec(NAME, _DESCRIPTION, encode_text(_SCHEMA))
    kind = ToolKind.SEARCH

    def __init__(self, reader: KnowledgeReader, limits: SearchLimits, seconds: float = 30.0) -> None:
        self._reader = reader
        self._limits = limits
        self.timeout = seconds

    async def run(self, scope: ToolScope, call: Invocation) -> ToolOutput:
        """See `Tool.run`. Documents as JSON, with the number that each has in the conversation."""
        arguments = msgspec.convert(call.arguments, _Arguments)
        if not arguments.query.strip():
            raise _failure("invalid_query", "The query is empty. Say what to look for.")
        reach = await self._reader.reach(scope, arguments.knowledge_base_ids)
        _must_reach(reach)
        if not reach.where.shelves and arguments.documents:
            raise _failure("restricted", f"{_NO_TITLES} Leave `documents` out.")
        note = await self._counted(scope)
        notes = [note] if note else []
        if not reach.restricted:
            return _output(await self._open(scope, reach, arguments), notes)
        restricted = [] if arguments.documents else await self._restricted(scope, reach.restricted, arguments)
        notes += [f"{_NO_TITLES} Those were not searched."] if arguments.documents else []
        notes += [_ABOUT_SAFE] if restricted else []
        if not reach.where.shelves:
            return _output(
                _Part(None, (), [f"“{name}” was not searched: {why}" for name, why in reach.refused]), notes, restricted
            )
        try:
            part = await self._open(scope, reach, arguments)
        except ToolFailed as error:
            if not restricted:
                raise
            part = _Part((), (), [f"Of the others: {error.message}"])
        return _output(part, notes, restricted)

    async def _restricted(
        self, scope: ToolScope, bases: Sequence[RestrictedBase], arguments: _Arguments
    ) -> list[dict[str, Json]]:
        """A part for each base, never joined with another."""
        summaries = await self._reader.summarised(scope, bases, arguments.query, arguments.max_results)
        return [_safe(base, summary) for base, summary in zip(bases, summaries, strict=True)]

    async def _open(self, scope: ToolScope, reach: SearchReach, arguments: _Arguments) -> _Part:
        """The hits in bases with full access. Raises `ToolFailed`."""
        where = await self._reader.narrowed(reach.where, arguments.documents) if arguments.documents else reach.where
        totals = await self._reader.totals(where)
        _must_be_indexed(totals)
        if scope.room is not None and totals.tokens <= min(scope.room * ALL_SHARE, ALL_MOST):
            return await self._all(scope, where, _notes(totals, reach, whole=True))
        return await self._found(scope, where, arguments, _notes(totals, reach, whole=False))

    async def _counted(self, scope: ToolScope) -> str:
        """Count the call; returns a warning near a limit. Raises `ToolFailed` above one."""
        turn_id = scope.turns[-1].id if scope.turns else ""
        of_turn, of_conversation = await self._reader.count(scope.caller, scope.conversation_id, turn_id)
        for count, limit, what in (
            (of_turn, self._limits.turn, "turn"),
            (of_conversation, self._limits.conversation, "conversation"),
        ):
            if count > limit:
                text = (
                    f"This {what} has made its {limit} searches. Answer with what was found, and say what is missing."
                )
                raise _failure("limit_reached", text)
            if limit - count <= WARNING:
                return f"Searches left in this {what}: {limit - count}."
        return ""

    async def _all(self, scope: ToolScope, where: Searched, notes: Sequence[str]) -> _Part:
        shown: list[Mapping[str, Json]] = []
        rich: list[Json] = []
        for document, passages in await self._reader.everything(where):
            text = "".join(passage.text for passage in passages)
            number = await _number(scope, document, text)
            shown.append({"document": number, "title": document.name, "contents": text})
            rich.append(_rich(number, document, passages[0], len(text)))
        return _Part(shown, rich, notes)

    async def _found(self, scope: ToolScope, where: Searched, arguments: _Arguments, notes: Sequence[str]) -> _Part:
        try:
            found = await self._reader.search(where, arguments.query, arguments.max_results)
        except InvalidRequest as error:
            raise _failure("invalid_query", error.message) from error
        shown: list[Mapping[str, Json]] = []
        rich: list[Json] = []
        most = room = self._limits.tokens
        for hit in found.hits:
            if shown and count_tokens(hit.passage.text) > room:
                break
            text = beginning_of(hit.passage.text, room)
            room -= count_tokens(text)
            number = await _number(scope, hit.document, text)
            shown.append(_simple(number, hit, text))
            rich.append(_rich(number, hit.document, hit.passage, len(text), hit))
        if not shown:
            notes = ["Nothing was found. Try other words, a name or a date.", *notes]
        if cut := _cut(found.hits, shown):
            why = f"the passages of a search have {most:,} tokens at most"
            notes = [f"{cut}: {why}. Ask for one thing at a time, or name documents.", *notes]
        if found.without:
            notes = [*notes, f"Searched by words alone: {found.without}"]
        return _Part(shown, rich, notes)


def _must_reach(scope: SearchReach) -> None:
    if scope.where.shelves or scope.restricted:
        return
    if scope.refused:
        names = "; ".join(f"“{name}”: {why}" for name, why in scope.refused)
        raise _failure("restricted", f"None of the knowledge bases may be read here. {names}")
    raise _failure(
        "not_configured", "No knowledge base and no project with files belongs to this conversation. Answer without."
    )


def _must_be_indexed(totals: ShelfTotals) -> None:
    if totals.found:
        return
    if totals.unfinished:
        raise _failure("still_indexing", f"{_unfinished(totals)}. Say so, or try later.")
    if totals.documents:
        raise _failure("unreadable", f"None of the {totals.documents} documents could be read.")
    raise _failure("empty", "There are no documents in what can be searched.")


def _unfinished(totals: ShelfTotals) -> str:
    """The documents that are not indexed yet; "" if none. The old version of a document is searched while a new one is
    indexed.
    """
    if not totals.unfinished or totals.found >= totals.documents:
        return ""
    are = "is" if totals.unfinished == 1 else "are"
    return f"{totals.unfinished} of {totals.documents} documents {are} still being indexed"


def _notes(totals: ShelfTotals, scope: SearchReach, *, whole: bool) -> list[str]:
    """Notes on what is missing and what is not. `whole`: all passages are returned."""
    unfinished = _unfinished(totals)
    made = [f"{unfinished}: search again later for what stands there."] if unfinished else []
    if whole and not unfinished:
        made.append("These are all passages of what can be searched: there is no need to search again.")
    elif whole:
        made.insert(0, "These are all passages that can be searched now.")
    elif totals.embedded < totals.passages:
        made.append(f"{totals.passages - totals.embedded} of {totals.passages} passages are found by words alone yet.")
    made += [f"“{name}” was not searched: {why}" for name, why in scope.refused]
    return made


async def _number(scope: ToolScope, document: Document, shown: str) -> int:
    """The number of a document in the conversation: that of the project's file, or a new permanent one."""
    held = next((a for a in scope.attachments if a.file_id == document.id), None)
    if held is not None:
        return held.document
    if scope.documents is None:
        raise ToolFailed("Documents can't be cited here.")
    base = document.shelf.id
    url = f"/api/v1/knowledge-bases/{base}/documents/{document.id}"
    made_from = (base,) if base else ()
    found = FoundDocument(document.name, document.media_type or "text/plain", "", document.size, url, made_from, shown)
    return (await scope.documents.keep(found)).document


def _cut(hits: Sequence[KnowledgeHit], shown: Sequence[Mapping[str, Json]]) -> str:
    """Which hits are not shown; "" if all are."""
    if not hits:
        return ""
    said = ["the first passage was cut"] if shown[0]["contents"] != hits[0].passage.text else []
    if left := len(hits) - len(shown):
        said.append("1 passage that fits was left out" if left == 1 else f"{left} passages that fit were left out")
    made = " and ".join(said)
    return made[:1].upper() + made[1:]


def _simple(number: int, hit: KnowledgeHit, text: str) -> dict[str, Json]:
    passage = hit.passage
    place = [f"page {passage.page}"] if passage.page is not None else []
    metadata = ", ".join([*place, " › ".join(passage.headings)]) if passage.headings else ", ".join(place)
    form: dict[str, Json] = {"document": number, "title": hit.document.name}
    if metadata:
        form["metadata"] = metadata
    return {**form, "contents": text}


def _rich(
    number: int, document: Document, passage: StoredPassage, length: int, hit: KnowledgeHit | None = None
) -> dict[str, Json]:
    made: dict[str, Json] = {
        "document": number,
        "title": document.name,
        "knowledge_base_id": document.shelf.id or None,
        "document_id": document.id,
        "headings": passage.headings,
        "page": passage.page,
        "start": passage.start,
        "end": passage.start + length,
    }
    if hit is not None:
        scores = {"score": hit.score, "words": hit.words, "similarity": hit.similarity}
        made |= {name: round(value, 4) for name, value in scores.items()}
    return made


@dataclass(frozen=True, slots=True)
class _Part:
    """The open part of a result: documents for the model (None: none are open) and for people."""

    shown: Sequence[Mapping[str, Json]] | None
    rich: Sequence[Json]
    notes: Sequence[str]


def _safe(base: RestrictedBase, summary: SafeSummary) -> dict[str, Json]:
    """A base's part of the result, the only text from its documents that is returned."""
    made: dict[str, Json] = {"knowledge_base": base.name, "id": base.id, "access": "restricted"}
    if base.level is not RestrictedLevel.SUMMARY:
        made["level"] = base.level.value
    made |= {"decision": summary.decision, "reason": summary.reason.value}
    if summary.decision == "answer":
        return made | {"summary": summary.text}
    return made | {"what_to_do": TO_DO[summary.reason]}


def _output(part: _Part, notes: Sequence[str], restricted: Sequence[Mapping[str, Json]] = ()) -> ToolOutput:
    pieces = [] if part.shown is None else [f'"documents": {one_to_a_line(part.shown)}']
    pieces += [f'"restricted": {one_to_a_line(restricted)}'] if restricted else []
    pieces += [f'"documents_are": "{OWNERS_DATA}"'] if part.shown else []
    told = [*part.notes, *notes] if restricted else [*notes, *part.notes]
    pieces += [f'"note": {encode_text(" ".join(told))}'] if told else []
    rich: dict[str, Json] = {"documents": list(part.rich)}
    rich |= {"restricted": [dict(one) for one in restricted]} if restricted else {}
    content = "{" + ", ".join(pieces) + "}"
    return ToolOutput(content, rich=encode_text(rich))


def _failure(cause: str, text: str) -> ToolFailed:
    """The reason of a failure, with a code for programs."""
    return ToolFailed(f"{cause}: {text}")
