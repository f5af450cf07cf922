"""Reads a document's text: an upload in a sandboxed child process, a project's file from its stored text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from lamella.core.counting import count_tokens
from lamella.core.knowledge import Document
from lamella.core.records import Caller, File
from lamella.knowledge.extract_worker import plain
from lamella.knowledge.extraction import Extraction, ExtractionLimits, Extractor
from lamella.storage.file_store import FileStore

PICTURE = "This is a picture; a document to search needs text. Save its text as a document."


SHORT = 32_000
"""Texts up to so many bytes are decoded in this process, since a child would take far longer."""


class Files(Protocol):
    """The files that projects hold."""

    async def file(self, caller: Caller, file_id: str) -> File:
        """One file; raises `NotFound`."""
        ...

    async def file_text(self, caller: Caller, file_id: str) -> str | None:
        """Its text."""
        ...


class DocumentReader:
    """Reads documents of every kind of shelf."""

    def __init__(self, files: Files, uploads: FileStore, extractor: Extractor) -> None:
        self._files = files
        self._uploads = uploads
        self._extractor = extractor

    async def read(self, caller: Caller, document: Document) -> Extraction:
        """The text of a document, or why there is none: a picture has none."""
        read = await self._extracted(caller, document)
        return Extraction("failed", read.media_type, code="not_text", reason=PICTURE) if read.picture else read

    async def _extracted(self, caller: Caller, document: Document) -> Extraction:
        if not document.is_file:
            async with self._uploads.local(document.upload) as path:
                short = await asyncio.to_thread(_short_text, path, document) if document.size <= SHORT else None
                return short or await self._extractor.extract(path, document.name)
        file = await self._files.file(caller, document.id)
        text = await self._files.file_text(caller, document.id)
        if not text or not text.strip():
            return Extraction("failed", file.media_type, code="empty", reason="There is no text in it.")
        return Extraction("ready", file.media_type, text, file.tokens, file.pages)


def _short_text(path: Path, document: Document) -> Extraction | None:
    """The content of a short plain text; None for any other type, which a child determines."""
    try:
        read = plain(path.read_bytes(), document.name, ExtractionLimits())
    except OSError:
        return None
    if read is None or read.document is None:
        return None
    return Extraction("ready", read.media_type, read.document.text, count_tokens(read.document.text))
