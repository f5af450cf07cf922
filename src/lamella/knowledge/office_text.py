"""Reads Word, Excel, PowerPoint and HTML files as Markdown; the only module that loads xberg.

Before a reader opens a zip file, its unpacked size is checked. Gaps between the rows of a spreadsheet are closed first:
one stray cell far below would otherwise cost a million rows.
"""

from __future__ import annotations

import asyncio
import html
import re
import zlib
from io import BytesIO
from typing import Protocol
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import xberg

from lamella.knowledge.extraction_job import ExtractedDocument, ExtractionLimits, UnreadableFile, damaged
from lamella.knowledge.media_type import HTML, PPTX, XLSX

_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_NO_CELLS = re.compile(rb"<row\b[^<>]*(?:/>|>\s*</row>)")
_ROW_NUMBER = re.compile(rb'<row\b[^<>]{0,500}?\sr="(\d{1,7})"')
_NUMBERED = re.compile(rb'<(row|c)\b([^<>]{0,500}?)\sr="([A-Z]{0,3})\d{1,7}"')
_DIMENSION = re.compile(rb"<dimension\b[^<>]*/>")

# A sheet may name this many rows more than it holds, and this many times as many.
_SPARE_ROWS = 1_000
_SPREAD = 4


def close_row_gaps(data: bytes) -> bytes:
    """The same .xlsx with the rows of a sparse sheet renumbered without gaps.

    xberg lays a sheet out as a full table and skips one that is nearly empty: a ledger with one forgotten cell in the
    last row has no text. Row numbers are not part of the text.
    """
    with ZipFile(BytesIO(data)) as archive:
        scattered = {
            name for name in archive.namelist() if _SHEET.fullmatch(name) and _is_scattered(archive.read(name))
        }
        if not scattered:
            return data
        closed = BytesIO()
        with ZipFile(closed, "w", ZIP_STORED) as copy:
            for name in dict.fromkeys(archive.namelist()):
                content = archive.read(name)
                copy.writestr(name, _renumbered(content) if name in scattered else content)
    return closed.getvalue()


def _is_scattered(sheet: bytes) -> bool:
    last = sheet.rfind(b"<row")
    number = _ROW_NUMBER.match(sheet, last) if last >= 0 else None
    return number is not None and int(number[1]) > _SPREAD * sheet.count(b"<row") + _SPARE_ROWS


def _renumbered(sheet: bytes) -> bytes:
    row = 0

    def renumber(tag: re.Match[bytes]) -> bytes:
        nonlocal row
        row += tag[1] == b"row"
        return b'<%b%b r="%b%d"' % (tag[1], tag[2], tag[3], row)

    return _NUMBERED.sub(renumber, _NO_CELLS.sub(b"", _without_ranges(sheet)))


def _without_ranges(sheet: bytes) -> bytes:
    """Without the sheet's extent and its merged cells, which name rows by their old numbers."""
    start, end = sheet.find(b"<mergeCells"), sheet.find(b"</mergeCells>")
    if 0 <= start < end:
        sheet = sheet[:start] + sheet[end + len(b"</mergeCells>") :]
    return _DIMENSION.sub(b"", sheet)


_ENCRYPTED_FLAG = 0x1
_LOCAL_HEADER_SIZE = 30
_PIECE = 64 * 1024
_BOMB = "The file unpacks to far more than its size, so it was not opened. Save it again, or as PDF, and upload that."


def check_archive(data: bytes, limits: ExtractionLimits) -> None:
    """Raise `Unreadable` unless all members together are within the limits and each has its declared size.

    Readers size their buffers by the declared size, or read until the data ends, so both must be equal and small. Costs
    one decompression without storing it, about 0.3 GB/s.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
    except (BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise damaged() from error
    _check_declarations(members, len(data), limits)
    for member in members:
        unpacked = _unpacked_size(data, member)
        if unpacked > member.file_size:
            raise UnreadableFile("archive_bomb", _BOMB)
        if unpacked < member.file_size:
            raise damaged()


def _check_declarations(members: list[ZipInfo], packed: int, limits: ExtractionLimits) -> None:
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise UnreadableFile("encrypted", "The file is protected with a password. Remove it and upload the file again.")
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise damaged()
    unpacked = sum(member.file_size for member in members)
    too_dense = unpacked > limits.ratio_free_bytes and unpacked > limits.max_ratio * packed
    if too_dense or unpacked > limits.max_unpacked_bytes or len(members) > limits.max_members:
        raise UnreadableFile("archive_bomb", _BOMB)


def _unpacked_size(data: bytes, member: ZipInfo) -> int:
    """The real unpacked size of a member; stops soon after the declared size."""
    start = member.header_offset + _LOCAL_HEADER_SIZE
    if data[member.header_offset : member.header_offset + 4] != b"PK\x03\x04" or start > len(data):
        raise damaged()
    name_size = int.from_bytes(data[start - 4 : start - 2], "little")
    extra_size = int.from_bytes(data[start - 2 : start], "little")
    start += name_size + extra_size
    packed = memoryview(data)[start : start + member.compress_size]
    if len(packed) != member.compress_size:
        raise damaged()
    if member.compress_type == ZIP_STORED:
        return len(packed)
    return _inflated_size(packed, member.file_size)


def _inflated_size(packed: memoryview, declared: int) -> int:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    size = 0
    try:
        for offset in range(0, len(packed), _PIECE):
            piece = bytes(packed[offset : offset + _PIECE])
            while piece and size <= declared:
                size += len(inflater.decompress(piece, 16 * _PIECE))
                piece = inflater.unconsumed_tail
            if inflater.eof or size > declared:
                return size
    except zlib.error as error:
        raise damaged() from error
    return size + len(inflater.flush())


MAX_TABLE_CELLS = 5_000_000

_EMPTY_ROW = re.compile(r"^\|[ |]*\|\n", re.MULTILINE)
_TITLE = re.compile(r"<title\b[^>]{0,200}>([^<]{1,2000})", re.IGNORECASE)
# How xberg tells that a limit was reached, and that it left something out, which must never go unnoticed.
_TOLD_LIMIT = re.compile("[Ss]ecurity|limit")
_TOLD_LOSS = re.compile("content was skipped|truncated")
_SCRIPT_LINK = re.compile(
    r"\[([^\[\]]{0,500})\]\(<?(?:javascript|data|vbscript):(?:[^()\n]|\([^()\n]*\))*\)", re.IGNORECASE
)


class _Page(Protocol):
    """The part of xberg's page that is used; its own type is not exported."""

    content: str
    speaker_notes: str | None


def read_office(data: bytes, media_type: str, limits: ExtractionLimits) -> ExtractedDocument:
    """A .docx, .xlsx or .pptx. Slides are pages, with the speaker's notes below each; sheets have their name on top."""
    check_archive(data, limits)
    if media_type == XLSX:
        data = close_row_gaps(data)
    result = _extract(data, media_type, limits)
    title = result.metadata.title
    if media_type == PPTX and result.pages:
        return ExtractedDocument("\f".join(_slide(page) for page in result.pages), pages=len(result.pages), title=title)
    if media_type == XLSX:
        return ExtractedDocument(_plain(_EMPTY_ROW.sub("", result.content)), title=title)
    return ExtractedDocument(_plain(result.content), title=title)


def read_html(text: str, limits: ExtractionLimits) -> ExtractedDocument:
    """The visible text of a page: no scripts, styles, hidden elements or pictures."""
    result = _extract(text.encode("utf-8", "replace"), HTML, limits)
    title = _TITLE.search(text)
    content = _SCRIPT_LINK.sub(r"\1", result.content)
    return ExtractedDocument(content, title=html.unescape(title[1]) if title else None)


def _plain(markdown: str) -> str:
    r"""xberg always writes `\<` for `<`; searches should find the words of the file."""
    return markdown.replace("\\<", "<")


def _slide(page: _Page) -> str:
    content = _plain(page.content).strip()
    notes = (page.speaker_notes or "").strip()
    return f"{content}\n\nNotes: {notes}" if notes else content


def _extract(data: bytes, media_type: str, limits: ExtractionLimits) -> xberg.ExtractedDocument:
    source = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=media_type)
    try:
        result = asyncio.run(_run(source, _config(limits)))
    except (RuntimeError, ValueError, xberg.XbergError) as error:
        raise _refused(str(error)) from error
    if result.errors or not result.results:
        raise _refused(" ".join(item.message for item in result.errors))
    document = result.results[0]
    if any(_TOLD_LOSS.search(warning.message) for warning in document.processing_warnings):
        raise _too_large()
    return document


async def _run(source: xberg.ExtractInput, config: xberg.ExtractionConfig) -> xberg.ExtractionResult:
    return await xberg.extract(source, config)


def _refused(message: str) -> UnreadableFile:
    if _TOLD_LIMIT.search(message):
        return _too_large()
    return damaged()


def _too_large() -> UnreadableFile:
    return UnreadableFile(
        "too_large",
        "The file holds more text, cells or parts than can be read. Save only the part you need and upload that.",
    )


def _config(limits: ExtractionLimits) -> xberg.ExtractionConfig:
    """Text only: no OCR, no models, no pictures, no embedded files, no cache on disk, two threads."""
    return xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        ocr_embedded_images=False,
        output_format="markdown",
        escape_markdown=False,
        enable_quality_processing=False,
        extraction_timeout_secs=None,
        max_archive_depth=0,
        max_embedded_file_bytes=0,
        pages=xberg.PageConfig(extract_pages=True),
        images=xberg.ImageExtractionConfig(extract_images=False, inject_placeholders=False, run_ocr_on_images=False),
        content_filter=xberg.ContentFilterConfig(include_footnotes=True, strip_repeating_text=False),
        postprocessor=xberg.PostProcessorConfig(enabled=False),
        html_options=xberg.ConversionOptions(
            extract_metadata=False,
            skip_images=True,
            inline_data_media="drop_element",
            compact_tables=True,
            autolinks=False,
            br_in_tables=True,
            preprocessing=xberg.PreprocessingOptions(preset="minimal", remove_navigation=False, remove_forms=False),
        ),
        concurrency=xberg.ConcurrencyConfig(max_threads=2),
        security_limits=xberg.SecurityLimits(
            max_archive_size=limits.max_unpacked_bytes,
            max_compression_ratio=2_000,
            max_files_in_archive=limits.max_members,
            max_content_size=4 * limits.max_characters,
            max_table_cells=MAX_TABLE_CELLS,
            max_pages=limits.max_pages,
        ),
    )
