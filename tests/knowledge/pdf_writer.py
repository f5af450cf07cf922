"""Writes small real PDF files: pages of selectable text with headings, and odd ones from bare objects."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
LINE_CHARACTERS = 92
LINES_PER_PAGE = 45


@dataclass(frozen=True, slots=True)
class PdfPage:
    """One page: a heading, then each sentence from a new line, broken where the line is full. Western letters only."""

    heading: str
    sentences: Sequence[str]


def write_pdf(pages: Iterable[PdfPage], title: str | None = None) -> bytes:
    """A PDF with one page of paper for each page given. Raises ValueError when the sentences of one do not fit."""
    page_contents = [_content(page) for page in pages]
    count = len(page_contents)
    page_ids = [4 + 2 * index for index in range(count)]
    kids = " ".join(f"{page_id} 0 R" for page_id in page_ids)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>".encode(),
        FONT,
    ]
    for page_id, content in zip(page_ids, page_contents, strict=True):
        objects += [page_object(page_id + 1), stream(content)]
    if title is None:
        return assemble(objects)
    objects.append(b"<</Title %b>>" % _literal(title))
    return assemble(objects, trailer=f"/Info {len(objects)} 0 R".encode())


def assemble(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of numbered objects; the first is the catalog. `trailer` is added to the trailer's dictionary."""
    file = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"trailer<</Size %d/Root 1 0 R%b>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    return bytes(file)


def page_object(contents: int, resources: bytes = b"", parent: int = 2, font: int = 3) -> bytes:
    """A page whose content is object `contents`."""
    return b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]/Contents %d 0 R/Resources<</Font<</F1 %d 0 R>>%b>>>>" % (
        parent,
        contents,
        font,
        resources,
    )


def stream(content: bytes, dictionary: bytes = b"") -> bytes:
    """A stream object."""
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (dictionary, len(content), content)


def _content(page: PdfPage) -> bytes:
    lines = [line for sentence in page.sentences for line in textwrap.wrap(sentence, LINE_CHARACTERS)]
    if len(lines) > LINES_PER_PAGE:
        raise ValueError(f"{len(lines)} lines do not fit on the page {page.heading!r}")
    shown = b"".join(b"%b Tj T*\n" % _literal(line) for line in lines)
    return b"BT\n/F1 16 Tf 72 720 Td %b Tj\n/F1 10 Tf 14 TL 0 -28 Td\n%bET" % (_literal(page.heading), shown)


def _literal(text: str) -> bytes:
    encoded = text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"(%b)" % encoded
