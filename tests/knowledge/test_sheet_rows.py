"""Gaps between the rows of a spreadsheet."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZipFile

import pytest

from lamella.knowledge.extraction_job import ExtractionLimits
from lamella.knowledge.office_text import close_row_gaps

from .conftest import Extract
from .office_writer import sheet_rows, write_xlsx, xlsx_of

LAST_ROW = 1_048_576


def sheet(data: bytes) -> str:
    with ZipFile(BytesIO(data)) as archive:
        return archive.read("xl/worksheets/sheet1.xml").decode()


def test_a_dense_workbook_is_left_alone() -> None:
    data = write_xlsx({"S": [["a", 1]] * 50})
    assert close_row_gaps(data) is data


def test_a_stray_row_moves_up() -> None:
    rows = sheet_rows({1: ["a"], 2: ["b", 2], LAST_ROW: ["far"]}) + '<row r="5"/><row r="6" ht="3"></row>'
    ranges = '<mergeCells count="1"><mergeCell ref="A9:B9"/></mergeCells>'
    data = xlsx_of(
        {"S": rows.replace(f'<row r="{LAST_ROW}"', f'<row ht="2" r="{LAST_ROW}"')}, "<dimension ref='A1'/>", ranges
    )
    # The last row stands for the sheet's extent, so the stray one has to be last.
    assert close_row_gaps(data) is data
    closed = sheet(close_row_gaps(xlsx_of({"S": rows[: rows.index('<row r="5"')]}, '<dimension ref="A1:B9"/>', ranges)))
    assert closed.endswith(f"<sheetData>{sheet_rows({1: ['a'], 2: ['b', 2], 3: ['far']})}</sheetData></worksheet>")


@pytest.mark.anyio
async def test_one_forgotten_cell_far_below_costs_no_row(extract: Extract) -> None:
    rows: dict[int, list[str | float]] = {number: [f"item {number}", number] for number in range(1, 301)}
    extraction = await extract(xlsx_of({"Ledger": sheet_rows(rows | {LAST_ROW: ["forgotten"]})}), "ledger.xlsx")
    assert extraction.status == "ready"
    assert "| item 1 | 1 |" in extraction.text
    assert "| item 300 | 300 |\n| forgotten |  |" in extraction.text


@pytest.mark.anyio
async def test_a_million_empty_rows_are_nothing(extract: Extract) -> None:
    empty = "".join(f'<row r="{number}"/>' for number in range(2, LAST_ROW))
    extraction = await extract(xlsx_of({"S": sheet_rows({1: ["a"]}) + empty}), "a.xlsx")
    assert extraction.text == "## S\n\n| a |\n| --- |"


@pytest.mark.anyio
async def test_cells_scattered_over_columns_too_are_refused_not_dropped(extract: Extract) -> None:
    rows = "".join(
        f'<row r="{number}"><c r="A{number}"><v>1</v></c><c r="XFD{number}"><v>2</v></c></row>'
        for number in range(1, 400)
    )
    extraction = await extract(xlsx_of({"S": rows}), "a.xlsx", ExtractionLimits(seconds=20))
    assert extraction.code == "too_large"
