"""`read_file`: a file of the conversation that is too large for the window, piece by piece."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Protocol

import msgspec

from lamella.context.documents import PromptDocument, documents_json
from lamella.core.errors import NotFound, ToolFailed
from lamella.core.json import Json, encode_text
from lamella.core.knowledge import quoting
from lamella.core.messages import Attachment
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller
from lamella.core.word_split import words_of
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope

PIECE = 12_000
"""Characters of one piece."""

WINDOW = 2_000
"""Characters of one passage that a query is matched with."""

_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "file_id": {"type": "string", "description": "The file_id of a listed document."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to begin, in characters. Default 0."},
        "query": {"type": "string", "description": "Words to look for: the passages that hold most of them come back."},
    },
    "required": ["file_id"],
    "additionalProperties": False,
}

_DESCRIPTION = (
    "Read a document whose text is not in the window. It is listed with a file_id instead of contents. Give a query to "
    "get the passages that match it best, or an offset to read on from there. When next_offset is in the result, there "
    "is more. Cite what you use by the document's number. If one reading does not answer the question, read again."
)


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    file_id: str
    offset: int = 0
    query: str = ""


class EarlierFiles(Protocol):
    """Finds files of a conversation that are no longer in its window."""

    async def attached(self, caller: Caller, conversation_id: str, file_id: str) -> Attachment:
        """A file of any message of the conversation; raises `NotFound`."""
        ...


class ReadFile:
    """Reads the attachments of the conversation, with `earlier` also those from before its window begins.

    Other files do not exist for it.
    """

    spec = ToolSpec("read_file", _DESCRIPTION, encode_text(_SCHEMA))
    kind = ToolKind.SEARCH
    timeout = 20.0

    def __init__(self, earlier: EarlierFiles | None = None) -> None:
        self._earlier = earlier

    async def run(self, scope: ToolScope, call: Invocation) -> ToolOutput:
        """See `Tool.run`. The result is documents as JSON, with the number that the file has in the conversation."""
        wanted = msgspec.convert(call.arguments, _Arguments)
        attachment = next((a for a in scope.attachments if a.file_id == wanted.file_id), None)
        attachment = attachment or await self._before_the_window(scope, wanted.file_id)
        if attachment.found and scope.documents is not None:
            attachment = replace(attachment, text=await scope.documents.text(attachment.file_id))
        if attachment.image is not None:
            raise ToolFailed(f"“{attachment.title}” is a picture: it has no text to read.")
        if attachment.text is None:
            raise ToolFailed(
                f"“{attachment.title}” could not be read: {attachment.reason or 'there is no text in it'}."
            )
        if not 0 <= wanted.offset <= len(attachment.text):
            raise ToolFailed(f"offset must be between 0 and {len(attachment.text)}.")
        pieces = [piece_of(attachment, attachment.text, wanted.offset)]
        if wanted.query.strip():
            pieces = await asyncio.to_thread(_matching, attachment, attachment.text, wanted.query)
        return ToolOutput(documents_json(pieces), rich=quoting(attachment.made_from))

    async def _before_the_window(self, scope: ToolScope, file_id: str) -> Attachment:
        try:
            if self._earlier is not None:
                return await self._earlier.attached(scope.caller, scope.conversation_id, file_id)
        except NotFound:
            pass
        raise ToolFailed(
            f"This conversation has no file {file_id[:80]}.", hint="Take a file_id from what you were shown."
        )


def piece_of(attachment: Attachment, text: str, offset: int) -> PromptDocument:
    """One piece of a document's text, from `offset` to the end of a sentence."""
    end = min(offset + PIECE, len(text))
    if end < len(text):
        end = max(text.rfind("\n", offset + PIECE // 2, end), text.rfind(". ", offset + PIECE // 2, end), -1) + 1 or end
    metadata = f"characters {offset} to {end} of {len(text)}"
    following = end if end < len(text) else None
    return PromptDocument(
        attachment.document, attachment.title, metadata, text[offset:end], attachment.file_id, following, attachment.url
    )


def _matching(attachment: Attachment, text: str, query: str) -> list[PromptDocument]:
    """The passages with the rarest and most words of the query, in the file's order."""
    words = set(words_of(query))
    starts = range(0, max(len(text), 1), WINDOW)
    found = [words.intersection(words_of(text[start : start + WINDOW])) for start in starts]
    spread = Counter(word for held in found for word in held)
    scores = [sum(1 / spread[word] for word in held) for held in found]
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[: PIECE // WINDOW]
    chosen = sorted(index for index in best if scores[index] > 0)
    if not chosen:
        raise ToolFailed(f"No word of the query is in “{attachment.title}”. Read it from an offset instead.")
    return [
        PromptDocument(
            attachment.document,
            attachment.title,
            f"characters {start} to {min(start + WINDOW, len(text))} of {len(text)}",
            text[start : start + WINDOW],
            attachment.file_id,
            url=attachment.url,
        )
        for start in (starts[index] for index in chosen)
    ]
