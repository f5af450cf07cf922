"""The model's two tools: `search_conversation` finds what was said, `read_message` gives it in full, by its id.

What they say of themselves never changes while a server runs, so it stands in the cached prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from lamella.context.documents import OWNERS_DATA
from lamella.context.results import READ_MESSAGE
from lamella.core.errors import InvalidRequest, NotFound, ToolFailed
from lamella.core.json import Json, encode_text
from lamella.core.knowledge import quoting
from lamella.core.messages import Turn
from lamella.core.prompt import ToolSpec
from lamella.core.recall import Hit, Source
from lamella.sessions.recall.indexing import SEARCH_CONVERSATION
from lamella.sessions.recall.recall import Recall
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope

PIECE = 12_000
"""Characters of one reading."""

MOST_FOUND = 12_000
"""Maximum characters of one search result."""

USUAL, MOST = 6, 20

_EVERYWHERE: dict[str, Json] = {
    "type": "boolean",
    "description": "Whether to search all of the user's conversations. Default: this one only.",
}


def _schema(*, everywhere: bool) -> dict[str, Json]:
    properties: dict[str, Json] = {
        "query": {"type": "string", "description": "What to look for: names, words, a date, a whole question."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "description": f"Passages. Default {USUAL}."},
    }
    if everywhere:
        properties["all_conversations"] = _EVERYWHERE
    return {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}


_SEARCH = (
    "Search what was said in this conversation before, by words and meaning: the user's messages, your answers and "
    "results of tools, word for word, also from sessions whose summary is all that is in the window. Use it before you "
    "say that you don't know or remember something, and whenever an exact wording, name, number or date of earlier "
    "matters. Each passage has an id."
)
_READ = (
    "Read an earlier message or the result of an earlier call in full, by the id of a passage that search_conversation "
    "found, or by the id behind “read_message” where an old result is left out or cut. When next_offset is in the "
    "result, there is more: read on from there."
)
_READ_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id of the message or call."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in characters. Default 0."},
    },
    "required": ["id"],
    "additionalProperties": False,
}


_OF_A_TOOL = {"text_is": OWNERS_DATA}
"""Said of what a tool gave; the user's own words, and the model's, need no such word."""


class _Search(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = USUAL
    all_conversations: bool = False


class _Read(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


class SearchConversation:
    """`search_conversation`. With `everywhere` the model may ask for all of the user's conversations."""

    kind = ToolKind.OTHER
    timeout = 30.0

    def __init__(self, recall: Recall, *, everywhere: bool = False) -> None:
        self._recall = recall
        self._everywhere = everywhere
        self.spec = ToolSpec(SEARCH_CONVERSATION, _SEARCH, encode_text(_schema(everywhere=everywhere)))

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """See `Tool.run`. Passages as JSON, the best first."""
        arguments = msgspec.convert(call.arguments, _Search)
        if arguments.all_conversations and not self._everywhere:
            raise ToolFailed("Only this conversation can be searched.")
        where = None if arguments.all_conversations else scope.conversation_id
        try:
            found = await self._recall.search(scope.caller, arguments.query, where, arguments.limit)
        except InvalidRequest as error:
            raise ToolFailed(error.message) from error
        if not found.hits:
            note = "Nothing was found. Try other words, or a name or a date."
            note += f" Searched by words alone: {found.without}" if found.without else ""
            return encode_text({"passages": [], "note": note})
        passages = encode_text({"passages": list(_bounded(found.hits, everywhere=where is None))})
        return ToolOutput(passages, rich=quoting(base for hit in found.hits for base in hit.source.made_from))


class ReadMessage:
    """`read_message`. Content of the window is read from there, earlier content from the store."""

    kind = ToolKind.OTHER
    timeout = 30.0
    spec = ToolSpec(READ_MESSAGE, _READ, encode_text(_READ_SCHEMA))

    def __init__(self, recall: Recall, *, everywhere: bool = False) -> None:
        self._recall = recall
        self._everywhere = everywhere

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """See `Tool.run`. One piece of the text as JSON."""
        arguments = msgspec.convert(call.arguments, _Read)
        rich = ""
        if (held := _in_window(scope.turns, arguments.id)) is not None:
            content, about = held
        else:
            source = await self._source(scope, arguments.id)
            content, about, rich = source.content, _about(source), quoting(source.made_from)
        if arguments.offset > len(content):
            raise ToolFailed(f"offset must be between 0 and {len(content)}.")
        end = min(arguments.offset + PIECE, len(content))
        more: dict[str, Json] = {"next_offset": end} if end < len(content) else {}
        place: dict[str, Json] = {"characters": f"{arguments.offset} to {end} of {len(content)}"}
        return ToolOutput(encode_text({**about, **place, "text": content[arguments.offset : end], **more}), rich=rich)

    async def _source(self, scope: ToolScope, reference: str) -> Source:
        for where in (scope.conversation_id, None) if self._everywhere else (scope.conversation_id,):
            try:
                return await self._recall.source(scope.caller, where, reference)
            except NotFound:
                continue
        raise ToolFailed(f"This conversation has no message or call {reference[:80]}. search_conversation gives ids.")


def _in_window(turns: Sequence[Turn], reference: str) -> tuple[str, dict[str, str]] | None:
    """The text of a message, or of a call's result, of the turns in the window; the newest of that id. And its id, and
    of a result what it is.
    """
    message, _, call = reference.partition("/")
    for turn in reversed(turns):
        for step in reversed(turn.steps):
            for result in step.results:
                if reference == result.call_id or (step.id, result.call_id) == (message, call):
                    return result.content, {"id": reference} | _OF_A_TOOL
            if step.id == reference:
                return step.text, {"id": reference}
        if turn.user.id == reference:
            return turn.user.text, {"id": reference}
    return None


def _about(source: Source) -> dict[str, str]:
    """The source of a passage, as text for the model."""
    said_by = f"tool {source.name}" if source.name else source.speaker.value
    about = {"id": source.reference, "from": said_by, "at": f"{source.at:%Y-%m-%d %H:%M}"}
    return about | _OF_A_TOOL if source.name else about


def _bounded(hits: Sequence[Hit], *, everywhere: bool) -> Iterator[Json]:
    """The passages, while there is room."""
    room = MOST_FOUND
    for hit in hits:
        source = hit.source
        text = source.content[hit.start : hit.end][:room]
        if not text.strip():
            return
        room -= len(text)
        shown: dict[str, Json] = {**_about(source), "session": source.session}
        if everywhere:
            shown["conversation"] = source.conversation_id
        if len(text) < len(source.content):
            shown["characters"] = f"{hit.start} to {hit.start + len(text)} of {len(source.content)}"
        yield {**shown, "text": text}
