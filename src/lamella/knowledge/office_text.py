"""Reads Word, Excel, PowerPoint and HTML files as Markdown; the only place that loads xberg."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Protocol

import xberg

from lamella.knowledge.archive_check import check_archive
from lamella.knowledge.extraction_job import Document, ExtractionLimits, Unreadable, damaged
from lamella.knowledge.media_type import HTML, PPTX, XLSX
from lamella.knowledge.sheet_rows import close_row_gaps

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


def read_office(data: bytes, media_type: str, limits: ExtractionLimits) -> Document:
    """A .docx, .xlsx or .pptx. Slides are pages, with the speaker's notes below each; sheets have their name on top."""
    check_archive(data, limits)
    if media_type == XLSX:
        data = close_row_gaps(data)
    result = _extract(data, media_type, limits)
    title = result.metadata.title
    if media_type == PPTX and result.pages:
        return Document("\f".join(_slide(page) for page in result.pages), pages=len(result.pages), title=title)
    if media_type == XLSX:
        return Document(_plain(_EMPTY_ROW.sub("", result.content)), title=title)
    return Document(_plain(result.content), title=title)


def read_html(text: str, limits: ExtractionLimits) -> Document:
    """What a reader of the page sees: no scripts, styles, hidden elements or pictures."""
    result = _extract(text.encode("utf-8", "replace"), HTML, limits)
    title = _TITLE.search(text)
    content = _SCRIPT_LINK.sub(r"\1", result.content)
    return Document(content, title=html.unescape(title[1]) if title else None)


def _plain(markdown: str) -> str:
    """xberg writes `\\<` for `<` whatever it is told; searching for the words of the file should find them."""
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


def _refused(message: str) -> Unreadable:
    if _TOLD_LIMIT.search(message):
        return _too_large()
    return damaged()


def _too_large() -> Unreadable:
    return Unreadable(
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
