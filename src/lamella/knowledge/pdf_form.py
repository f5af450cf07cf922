"""Reads what was filled into a PDF form, which is no part of the page's own text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pypdfium2 as pdfium
from pypdfium2 import raw as pdfium_c

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
