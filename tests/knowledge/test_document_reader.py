"""Short texts are decoded in this process, exactly as a child decodes them; all else goes to a child."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lamella.core.errors import NotFound
from lamella.core.knowledge import Document, Shelf
from lamella.core.records import Caller, File
from lamella.knowledge.document_reader import SHORT, DocumentReader
from lamella.knowledge.extraction import Extraction, ProcessExtractor
from lamella.storage.file_store import FolderFiles

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ANN = Caller("user_ann")
CHILD = Extraction("ready", "by/child", "read by a child")


class Nothing:
    """No project holds any file."""

    async def file(self, caller: Caller, file_id: str) -> File:
        raise NotFound(f"There is no file {file_id}.")

    async def file_text(self, caller: Caller, file_id: str) -> str | None:
        return None


class Children:
    """Notes what it is asked to read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def extract(self, path: Path, name: str) -> Extraction:
        self.asked.append(name)
        return CHILD


async def read(folder: Path, extractor: Children | ProcessExtractor, name: str, data: bytes) -> Extraction:
    uploads = FolderFiles(folder)
    async with uploads.receive("doc_1") as path:
        path.write_bytes(data)
    document = Document("doc_1", Shelf(ANN.user_id, "kb_1"), name, len(data), "", NOW, NOW, upload="doc_1")
    return await DocumentReader(Nothing(), uploads, extractor).read(ANN, document)


TEXTS = {
    "notes.txt": "Cafe\u0301\r\n\r\n\r\n\r\n\r\n\r\nend\r\n".encode(),
    "a.md": b"# Geese\n\nThey keep out of the yard.\n",
    "b.csv": "Größe;Preis\n1;2".encode("cp1252"),
    "c.py": "print('Gänse')".encode("utf-8-sig"),
}


@pytest.mark.parametrize(("name", "data"), TEXTS.items(), ids=TEXTS.keys())
async def test_a_short_text_is_what_a_child_makes_of_it(tmp_path: Path, name: str, data: bytes) -> None:
    children = Children()
    short = await read(tmp_path, children, name, data)
    (tmp_path / "same").write_bytes(data)
    by_child = await ProcessExtractor().extract(tmp_path / "same", name)
    assert children.asked == []
    assert replace(short, tokens=0) == replace(by_child, tokens=0)
    assert short.tokens > 0


OTHERS = {
    "page.html": b"<!doctype html><html><body>Geese</body></html>",
    "fake.txt": b"%PDF-1.4 and what not",
    "archive.txt": b"PK\x03\x04 broken",
    "wide.txt": "Geese".encode("utf-16"),
    "nothing.txt": b" \n ",
    "bytes.txt": bytes(range(256)),
    "long.txt": b"goose " * (SHORT // 6 + 1),
}


@pytest.mark.parametrize(("name", "data"), OTHERS.items(), ids=OTHERS.keys())
async def test_whatever_else_it_is_a_child_finds_out(tmp_path: Path, name: str, data: bytes) -> None:
    children = Children()
    assert await read(tmp_path, children, name, data) == CHILD
    assert children.asked == [name]
