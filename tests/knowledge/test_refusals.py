"""Every way in which a file can be bad, through a real child: always a failed file with a reason, and in time."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from time import monotonic

import pytest

from lamella.knowledge.extraction import Extraction, ExtractionLimits, ProcessExtractor

from .conftest import Extract
from .office_writer import docx_of, pack, write_docx, write_encrypted_office, xlsx_of
from .pdf_writer import FONT, PdfPage, assemble, page_object, stream, write_pdf

pytestmark = pytest.mark.anyio

CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
MANUAL = write_pdf([PdfPage(f"Chapter {number}", ["Words."] * 5) for number in range(6)])
SHOWN = stream(b"BT /F1 12 Tf 72 700 Td (Hello) Tj ET")
LOCKED = b"/ID[(0123456789abcdef)(0123456789abcdef)]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O(%b)/U(%b)>>" % (
    b"o" * 32,
    b"u" * 32,
)
ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))


def pdf_of(kids: bytes, count: int, *more: bytes, trailer: bytes = b"") -> bytes:
    pages = b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, count)
    return assemble([CATALOG, pages, FONT, page_object(5), SHOWN, *more], trailer)


SCANNED = assemble([CATALOG, b"<</Type/Pages/Kids[4 0 R]/Count 1>>", FONT, page_object(5), stream(b"0 0 9 9 re f")])
# A form that shows itself ten times over.
RECURSIVE = assemble(
    [
        CATALOG,
        b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
        FONT,
        page_object(5, b"/XObject<</X 6 0 R>>"),
        stream(b"/X Do"),
        stream(b"/X Do " * 10, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>"),
    ]
)


@pytest.mark.parametrize(
    ("data", "name", "code", "media_type"),
    [
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(50), "letter.txt", "corrupt", "image/png", id="png"),
        pytest.param(b"\0\0\0\x18ftypheic" + bytes(9), "a.txt", "unsupported_type", "image/heic", id="heic"),
        pytest.param(os.urandom(4000), "a.txt", "not_text", "application/octet-stream", id="binary"),
        pytest.param(b"", "a.txt", "empty", "application/octet-stream", id="no bytes"),
        pytest.param(b" \n\t\r\n ", "a.txt", "empty", "application/octet-stream", id="blank"),
        pytest.param(
            "\u00a0\u200b\n\u2003".replace("\u200b", "").encode(), "a.md", "empty", "text/markdown", id="spaces"
        ),
        pytest.param(b"<html><script>x()</script></html>", "a", "empty", "text/html", id="html without text"),
        pytest.param(SCANNED, "a.pdf", "empty", "application/pdf", id="scan"),
        pytest.param(MANUAL[:900], "a.pdf", "corrupt", "application/pdf", id="cut pdf"),
        pytest.param(b"%PDF-1.7\nnothing", "a.pdf", "corrupt", "application/pdf", id="bare pdf head"),
        pytest.param(pdf_of(b"2 0 R 2 0 R", 1000), "a.pdf", "corrupt", "application/pdf", id="cyclic page tree"),
        pytest.param(pdf_of(b"4 0 R", 1, trailer=LOCKED), "a.pdf", "encrypted", "application/pdf", id="locked pdf"),
        pytest.param(write_docx(["words"])[:-50], "a.docx", "corrupt", "application/octet-stream", id="cut docx"),
        pytest.param(
            pack({"word/document.xml": "<w:document"}),
            "a.docx",
            "corrupt",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            id="broken xml",
        ),
        pytest.param(
            write_encrypted_office(), "a.docx", "encrypted", "application/x-encrypted-office", id="locked docx"
        ),
        pytest.param(
            pack({"word/document.xml": bytes(60_000_000)}),
            "a.docx",
            "archive_bomb",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            id="zip bomb",
        ),
    ],
)
async def test_a_bad_file_fails_with_a_reason(
    extract: Extract, data: bytes, name: str, code: str, media_type: str
) -> None:
    extraction = await extract(data, name)
    assert (extraction.status, extraction.code, extraction.media_type) == ("failed", code, media_type)
    assert (extraction.text, extraction.tokens, extraction.pages, extraction.title) == ("", 0, None, None)
    assert extraction.reason is not None
    assert extraction.reason.endswith(".")


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        pytest.param(MANUAL, ExtractionLimits(max_bytes=1000), id="bytes"),
        pytest.param(MANUAL, ExtractionLimits(max_pages=5), id="pages"),
        pytest.param(MANUAL, ExtractionLimits(max_characters=100), id="characters of a pdf"),
        pytest.param(b"word " * 30, ExtractionLimits(max_characters=100), id="characters of a text"),
        pytest.param(write_docx(["word " * 900]), ExtractionLimits(max_characters=100), id="characters of a docx"),
        pytest.param(b"word " * 9_900_000, ExtractionLimits(), id="one line of 50 MB"),
    ],
)
async def test_a_file_over_a_limit_is_too_large(extract: Extract, data: bytes, limits: ExtractionLimits) -> None:
    extraction = await extract(data, "a", limits)
    assert extraction.code == "too_large"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(docx_of("<w:tbl><w:tr><w:tc>" * 100_000), id="deep docx"),
        pytest.param(
            docx_of("<w:p><w:r><w:t>&e11;</w:t></w:r></w:p>", prolog=f"<!DOCTYPE x [{ENTITIES}]>"), id="entities"
        ),
        pytest.param(
            xlsx_of({"S": '<row r="1"><c r="A1"><v>1</v></c></row>'}, '<dimension ref="A1:XFD1048576"/>'), id="extent"
        ),
        pytest.param(b"<html>" + b"<div>" * 200_000, id="deep html"),
        pytest.param(b"<html>" + b"<!--<table><td rowspan=99999 colspan=99999>" * 20_000, id="odd html"),
        pytest.param(pdf_of(b"4 0 R", 2_000_000_000), id="page count"),
        pytest.param(pdf_of(b"4 0 R " * 1500, 1500), id="one page many times"),
        pytest.param(RECURSIVE, id="recursive form"),
        pytest.param(
            assemble(
                [
                    CATALOG,
                    b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
                    FONT,
                    page_object(5),
                    stream(zlib.compress(b"q Q " * 10_000_000), b"/Filter/FlateDecode"),
                ]
            ),
            id="packed content",
        ),
    ],
)
async def test_a_hostile_file_ends_in_time(extract: Extract, data: bytes) -> None:
    limits = ExtractionLimits(seconds=10, memory_bytes=500_000_000)
    started = monotonic()
    extraction = await extract(data, "a", limits)
    assert monotonic() - started < 10
    assert len(extraction.text) <= limits.max_characters
    assert (extraction.status == "ready") == (extraction.reason is None)


@pytest.mark.parametrize("name", ["missing", ".", "pipe"])
async def test_what_is_no_file_is_refused_unopened(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    extraction = await ProcessExtractor().extract(tmp_path / name, "a.txt")
    assert extraction.code == "corrupt"


async def test_a_strange_path_and_name_are_just_data(tmp_path: Path) -> None:
    path = tmp_path / 'sp ace"\n\u00e9\udcff'
    path.write_bytes(b"words")
    extraction = await ProcessExtractor().extract(path, "\ud800\0/../x\n.md")
    assert extraction == Extraction("ready", "text/markdown", "words", tokens=1)
