"""What the answerer sees of a request: texts and calls in order, the documents in them, and the tools on offer.

A document is an entry of `{"documents": [...]}`, which may have one line before it or a project's instructions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

BEFORE = re.compile(r'\A\s*(?:Instructions of the project (?s:.)*?\n\n)?(?:[^\n{]*\n)?\s*(?=\{\s*"documents")')
DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the window. `contents` is None if it is only listed. `next_offset` is set if there is more to
    read.
    """

    number: int
    title: str
    metadata: str
    contents: str | None
    file_id: str | None
    group: int
    next_offset: int | None = None

    @property
    def name(self) -> str:
        return self.title or self.file_id or f"document {self.number}"


def find_documents(text: str, group: int = 0) -> tuple[Document, ...]:
    """The documents of one text, in order. Empty if the text has none."""
    if '"documents"' not in text or (start := BEFORE.match(text)) is None:
        return ()
    try:
        value, _ = DECODER.raw_decode(text, start.end())
    except ValueError:
        return ()
    if not isinstance(value, dict) or not isinstance(value.get("documents"), list):
        return ()
    shared = value.get("next_offset")
    entries = [entry for entry in value["documents"] if isinstance(entry, dict)]
    return tuple(document_of(entry, position, group, shared) for position, entry in enumerate(entries, start=1))


def document_of(entry: dict[str, Any], position: int, group: int, shared_offset: Any) -> Document:
    number, contents, file_id = entry.get("document"), entry.get("contents"), entry.get("file_id")
    offset = entry.get("next_offset", shared_offset)
    return Document(
        number=number if isinstance(number, int) else position,
        title=str(entry.get("title") or ""),
        metadata=shown_metadata(entry.get("metadata")),
        contents=contents if isinstance(contents, str) else None,
        file_id=file_id if isinstance(file_id, str) else None,
        group=group,
        next_offset=offset if isinstance(offset, int) else None,
    )


def shown_metadata(metadata: Any) -> str:
    if isinstance(metadata, dict):
        return " ".join(f"{key} {value}" for key, value in metadata.items())
    return str(metadata or "")


REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
SENT = re.compile(r"\s*\n?\[Sent: [^\]\n]*\]\s*\Z")


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A text in the window."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call the model made earlier."""

    name: str
    arguments: dict[str, Any]


Piece = PastMessage | Called


@dataclass(frozen=True, slots=True)
class Conversation:
    pieces: tuple[Piece, ...]
    tools: frozenset[str]

    @property
    def questions(self) -> tuple[str, ...]:
        """What people asked, oldest first: neither documents nor reminders, without the line that gives the time."""
        return tuple(asked for _, asked in self._asked())

    @property
    def last(self) -> str:
        """What people and tools said after whatever the model said or called last."""
        own = [i for i, p in enumerate(self.pieces) if isinstance(p, Called) or p.role == "assistant"]
        said = self.pieces[max(own, default=-1) + 1 :]
        return "\n".join(piece.text for piece in said if isinstance(piece, PastMessage) and piece.role != "system")

    @property
    def turn(self) -> tuple[Piece, ...]:
        """What came after the current question: the calls and results of this turn."""
        last = max((index for index, _ in self._asked()), default=-1)
        return self.pieces[last + 1 :]

    @property
    def reads(self) -> tuple[Called, ...]:
        """The calls of read_file in this turn."""
        return tuple(p for p in self.turn if isinstance(p, Called) and p.name == "read_file")

    def documents(self) -> tuple[Document, ...]:
        """Every document in the window, oldest first; `group` tells which text brought it."""
        return tuple(documents_in(self.pieces))

    def read_now(self) -> tuple[Document, ...]:
        """What the tool results of this turn brought."""
        return tuple(documents_in(self.turn))

    def _asked(self) -> list[tuple[int, str]]:
        """Where people's words tell when they were sent, a text that does not is context that came with them."""
        asked: list[tuple[int, str, bool]] = []
        for index, piece in enumerate(self.pieces):
            if isinstance(piece, PastMessage) and piece.role == "user" and not find_documents(piece.text):
                said = REMINDER.sub("", piece.text)
                text = SENT.sub("", said).strip()
                if text:
                    asked.append((index, text, SENT.search(said) is not None))
        dated = any(is_dated for _, _, is_dated in asked)
        return [(index, text) for index, text, is_dated in asked if is_dated or not dated]


def documents_in(pieces: Iterable[Piece]) -> Iterable[Document]:
    for group, piece in enumerate(pieces):
        if isinstance(piece, PastMessage) and piece.role != "assistant":
            yield from find_documents(piece.text, group)
