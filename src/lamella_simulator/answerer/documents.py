"""Finds the documents of a text: {"documents": [...]} after at most one line, and a project's instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

BEFORE = re.compile(r'\A\s*(?:Instructions of the project (?s:.)*?\n\n)?(?:[^\n{]*\n)?\s*(?=\{\s*"documents")')
DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Document:
    """One entry; `contents` is None where it is only listed. `next_offset` tells that more can be read."""

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
    """The documents of one text, in order; none where the text is anything else."""
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
