"""Closes the gaps between the rows of a spreadsheet, so that one stray cell far below does not cost a million rows."""

from __future__ import annotations

import re
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_EMPTY_ROW = re.compile(rb"<row\b[^<>]*(?:/>|>\s*</row>)")
_ROW_NUMBER = re.compile(rb'<row\b[^<>]{0,500}?\sr="(\d{1,7})"')
_NUMBERED = re.compile(rb'<(row|c)\b([^<>]{0,500}?)\sr="([A-Z]{0,3})\d{1,7}"')
_DIMENSION = re.compile(rb"<dimension\b[^<>]*/>")

# A sheet may name this many rows beside those it holds, and this many times as many.
_SPARE_ROWS = 1_000
_SPREAD = 4


def close_row_gaps(data: bytes) -> bytes:
    """The same .xlsx, but the rows of a widely scattered sheet numbered one after the other.

    xberg lays a sheet out as a full table and skips one that is nearly empty: in a ledger with one forgotten cell in
    the last row it finds nothing. The row numbers are not part of the text that comes out.
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

    return _NUMBERED.sub(renumber, _EMPTY_ROW.sub(b"", _without_ranges(sheet)))


def _without_ranges(sheet: bytes) -> bytes:
    """Without the sheet's extent and its merged cells, which name rows by their old numbers."""
    start, end = sheet.find(b"<mergeCells"), sheet.find(b"</mergeCells>")
    if 0 <= start < end:
        sheet = sheet[:start] + sheet[end + len(b"</mergeCells>") :]
    return _DIMENSION.sub(b"", sheet)
