"""Reads a PDF page by page, in reading order, with the values of its forms; the only module that loads PDFium."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import pypdfium2 as pdfium
from pypdfium2 import raw as pdfium_c

from lamella.knowledge import pdf_text as pdf_form
from lamella.knowledge.extraction_job import (
    ExtractedDocument,
    ExtractionLimits,
    UnreadableFile,
    damaged,
    too_many_characters,
)

# PDFium puts this mark where a hyphen ended a line, and joins the two lines.
_LINE_HYPHEN = re.compile("\ufffe(.?)")
_PASSWORD_ERRORS = (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY)


def read(data: bytes, limits: ExtractionLimits) -> ExtractedDocument:
    """The text of all pages, a form feed between two; a page without text is empty, so that page numbers hold.

    PDFium rather than the Office reader: on the same files that one moved lines to other places of a page, and was
    ten times slower.
    """
    document = _open(data)
    document.init_forms()
    count = len(document)
    if count > limits.max_pages:
        raise UnreadableFile(
            "too_large",
            f"The PDF has {count:,} pages; {limits.max_pages:,} can be read. Split it and upload the parts you need.",
        )
    pages = _read_pages(document, count, limits)
    if not any(pages):
        raise UnreadableFile(
            "empty",
            "The PDF holds no text: it looks like a scan. Run text recognition (OCR) on it and upload the result.",
        )
    return ExtractedDocument("\f".join(pages), pages=count, title=document.get_metadata_value("Title"))


def _open(data: bytes) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code in _PASSWORD_ERRORS:
            raise UnreadableFile(
                "encrypted", "The PDF is protected with a password. Remove it and upload the file again."
            ) from error
        raise damaged() from error


def _read_pages(document: pdfium.PdfDocument, count: int, limits: ExtractionLimits) -> list[str]:
    pages: list[str] = []
    characters = broken = 0
    for index in range(count):
        try:
            text = _page_text(document, index)
        except pdfium.PdfiumError:
            broken += 1
            text = ""
        characters += len(text)
        if characters > limits.max_characters:
            raise too_many_characters(limits)
        pages.append(text)
    if broken == count:
        raise damaged()
    return pages


def _page_text(document: pdfium.PdfDocument, index: int) -> str:
    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            text: str = text_page.get_text_range()
        finally:
            text_page.close()
        fields = pdf_form.filled_fields(document, page)
    finally:
        page.close()
    text = _LINE_HYPHEN.sub(_joined, text).strip()
    if fields:
        text = "\n".join([text, "", "Form fields:", *fields])
    return text.replace("\f", "\n").strip()


def _joined(hyphen: re.Match[str]) -> str:
    """Before a small letter the hyphen was the typesetter's, otherwise it may be the author's."""
    following = hyphen[1]
    return following if following.islower() else f"-{following}"


MAX_FIELDS = 2_000
MAX_VALUE_CHARACTERS = 20_000

_WITHOUT_TEXT = (pdfium_c.FPDF_FORMFIELD_PUSHBUTTON, pdfium_c.FPDF_FORMFIELD_SIGNATURE)
_TICKED = (pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON)


def filled_fields(document: pdfium.PdfDocument, page: pdfium.PdfPage) -> list[str]:
    """Lines of `label: value` for the page's fields that hold something; needs `document.init_forms()` before."""
    if document.formenv is None:
        return []
    lines: list[str] = []
    for index in range(min(pdfium_c.FPDFPage_GetAnnotCount(page), MAX_FIELDS)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            line = _line(document.formenv, annotation)
        finally:
            pdfium_c.FPDFPage_CloseAnnot(annotation)
        if line is not None and line not in lines[-1:]:
            lines.append(line)
    return lines


def _line(form: pdfium.PdfFormEnv, annotation: pdfium_c.FPDF_ANNOTATION) -> str | None:
    kind = pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind <= pdfium_c.FPDF_FORMFIELD_UNKNOWN or kind in _WITHOUT_TEXT:
        return None
    if kind in _TICKED and not pdfium_c.FPDFAnnot_IsChecked(form, annotation):
        return None
    value = _string(pdfium_c.FPDFAnnot_GetFormFieldValue, form, annotation)
    if not value:
        return None
    label = _string(pdfium_c.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    label = label or _string(pdfium_c.FPDFAnnot_GetFormFieldName, form, annotation)
    return f"{label}: {value}" if label else value


def _string(get: Callable[..., int], form: pdfium.PdfFormEnv, annotation: pdfium_c.FPDF_ANNOTATION) -> str:
    """The result of a PDFium call that first tells how many bytes of UTF-16 it has, a closing NUL among them."""
    size = min(get(form, annotation, None, 0), 2 * MAX_VALUE_CHARACTERS)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    get(form, annotation, ctypes.cast(buffer, ctypes.POINTER(pdfium_c.FPDF_WCHAR)), size)
    return buffer.raw[: size - 2].decode("utf-16-le", "ignore").strip()
