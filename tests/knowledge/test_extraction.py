"""Real files of every supported type, read by real children."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from lamella.knowledge.extraction import Extraction, ExtractionLimits, ProcessExtractor

from .children import needs_proc, reading_children, wait_for_child
from .conftest import Extract
from .office_writer import write_docx, write_pptx, write_xlsx
from .pdf_writer import PdfPage, assemble, page_object, stream, write_pdf

pytestmark = pytest.mark.anyio

# Composing a letter with that many marks takes minutes: a small file that keeps its child busy.
ENDLESS = ("a" + "\u0301\u0323" * 400_000).encode()


async def test_a_text_keeps_its_words_and_gets_one_form(extract: Extract) -> None:
    extraction = await extract("Cafe\u0301\r\n\r\n\r\n\r\n\r\n\r\n\x00end\r\n".encode(), "notes.txt")
    assert extraction == Extraction("ready", "text/plain", "Café\n\n\n\nend", tokens=4)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.md", "text/markdown"), ("a.csv", "text/csv"), ("a.py", "text/plain"), ("../../etc/a.MD", "text/markdown")],
)
async def test_the_name_tells_only_kinds_of_text_apart(extract: Extract, name: str, media_type: str) -> None:
    extraction = await extract(b"one,two\n1,2\n", name)
    assert (extraction.media_type, extraction.text) == (media_type, "one,two\n1,2")


async def test_html_becomes_what_a_reader_sees(extract: Extract) -> None:
    page = b"""<!doctype html><html><head><title>Rates &amp; fees</title><script>steal()</script>
    <style>p { color: red }</style></head><body><h1>Rates</h1><!-- secret --><p style="display:none">hidden</p>
    <p onclick="run()">Pay <b>5</b> &lt; 6, see <a href="javascript:run()">here</a> or
    <a href="https://example.org/x">there</a>.</p><img src="data:image/png;base64,AAAA" alt="logo">
    <table><tr><th>Plan</th><th>Fee</th></tr><tr><td>A</td><td>1</td></tr></table></body></html>"""
    extraction = await extract(page, "rates.pdf")
    assert (extraction.media_type, extraction.title) == ("text/html", "Rates & fees")
    assert extraction.text == snapshot(
        """\
# Rates

Pay **5** < 6, see here or [there](https://example.org/x).

| Plan | Fee |
| --- | --- |
| A | 1 |\
"""
    )


async def test_a_pdf_keeps_its_pages(extract: Extract) -> None:
    pages = [
        PdfPage(f"Chapter {n}", [f"Sentence one of chapter {n}.", f"(Second) sentence {n}."]) for n in range(1, 21)
    ]
    extraction = await extract(write_pdf(pages, title="The manual"), "scan.txt")
    assert (extraction.status, extraction.media_type) == ("ready", "application/pdf")
    assert (extraction.pages, extraction.title) == (20, "The manual")
    assert extraction.text.split("\f")[6] == "Chapter 7\nSentence one of chapter 7.\n(Second) sentence 7."


async def test_an_empty_page_still_counts(extract: Extract) -> None:
    pages = [PdfPage("", []), PdfPage("Second", []), PdfPage("", []), PdfPage("Fourth", [])]
    assert (await extract(write_pdf(pages), "a.pdf")).text == "\fSecond\f\fFourth"


async def test_a_word_cut_by_a_hyphen_is_one_word_again(extract: Extract) -> None:
    page = PdfPage("Cut", ["An inter-", "national rule and a two-", "Way street"])
    extraction = await extract(write_pdf([page]), "a.pdf")
    assert extraction.text == "Cut\nAn international rule and a two-Way street"


async def test_what_was_filled_into_a_form_is_read(extract: Extract) -> None:
    field = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(who)/TU(Full name)/V(Ada Lovelace)/Rect[72 500 200 520]/P 4 0 R>>"
    page = page_object(5).replace(b"/Resources", b"/Annots[6 0 R]/Resources")
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R]>>>>",
        b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        page,
        stream(b"BT /F1 12 Tf 72 700 Td (Application) Tj ET"),
        field,
    ]
    extraction = await extract(assemble(objects), "form.pdf")
    assert extraction.text == "Application\n\nForm fields:\nFull name: Ada Lovelace"


async def test_a_word_file_becomes_markdown(extract: Extract) -> None:
    data = write_docx(["# Leave", "Employees get 25 days & more, never < 20."], title="Staff\nhandbook")
    extraction = await extract(data, "handbook.docx")
    assert (extraction.status, extraction.title, extraction.pages) == ("ready", "Staff handbook", None)
    assert extraction.text == "# Leave\n\nEmployees get 25 days & more, never < 20."


async def test_a_workbook_becomes_a_table_for_each_sheet(extract: Extract) -> None:
    sheets: dict[str, list[list[str | float]]] = {
        "Budget": [["Item", "Cost"], ["Rent", 1200.5]],
        "Notes": [["ask", "Ann"]],
    }
    extraction = await extract(write_xlsx(sheets), "budget.xlsx")
    assert extraction.text == snapshot(
        """\
## Budget

| Item | Cost |
| --- | --- |
| Rent | 1200.5 |

## Notes

| ask | Ann |
| --- | --- |\
"""
    )


async def test_slides_are_pages_and_keep_their_notes(extract: Extract) -> None:
    slides = [("Plan", "Grow slowly", "Do not mention the merger"), ("Numbers", "Up 4 %", "")]
    extraction = await extract(write_pptx(slides), "deck.pptx")
    assert extraction.pages == 2
    assert extraction.text == "## Plan\n\nGrow slowly\n\nNotes: Do not mention the merger\f## Numbers\n\nUp 4 %"


async def test_tokens_are_those_of_the_text(extract: Extract) -> None:
    assert (await extract(b"hello world <|endoftext|>" * 1000, "a.txt")).tokens == 9_000


async def test_a_child_that_takes_too_long_is_ended(extract: Extract) -> None:
    extraction = await extract(ENDLESS, "a.txt", ExtractionLimits(seconds=0.5))
    assert (extraction.code, extraction.text) == ("timeout", "")
    assert (
        extraction.reason == "Reading the file took too long. Split it, or save it in a simpler form, and upload that."
    )


@pytest.mark.parametrize(
    ("data", "memory_bytes"),
    [(b"a few words", 60_000_000), (write_docx(["words"]), 200_000_000)],
)
async def test_a_child_that_needs_too_much_memory_fails(extract: Extract, data: bytes, memory_bytes: int) -> None:
    extraction = await extract(data, "a", ExtractionLimits(memory_bytes=memory_bytes))
    assert extraction.code == "memory"
    assert extraction.reason is not None
    assert "too much memory" in extraction.reason


@needs_proc
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, "memory"), (signal.SIGSEGV, "corrupt")])
async def test_a_child_that_dies_is_a_failed_file(tmp_path: Path, sent: int, code: str) -> None:
    results: list[Extraction] = []

    async def read() -> None:
        results.append(await ProcessExtractor().extract(_stored(tmp_path, ENDLESS), "a.txt"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        os.kill(await wait_for_child(), sent)
    assert [result.code for result in results] == [code]


@needs_proc
async def test_a_cancelled_call_leaves_no_child_and_frees_its_place(tmp_path: Path) -> None:
    extractor = ProcessExtractor(children=1)
    path = _stored(tmp_path, ENDLESS)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(extractor.extract, path, "a.txt")
        await wait_for_child()
        tasks.cancel_scope.cancel()
    assert reading_children() == []
    with anyio.fail_after(10):
        assert (await extractor.extract(_stored(tmp_path, b"next"), "a.txt")).text == "next"


@needs_proc
@pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"]
)
async def test_cancelling_at_any_moment_leaves_no_child(tmp_path: Path) -> None:
    path = _stored(tmp_path, b"text")
    for step in range(12):
        with anyio.move_on_after(step * 0.008):
            await ProcessExtractor().extract(path, "a.txt")
        assert reading_children() == []
        task = asyncio.create_task(ProcessExtractor().extract(path, "a.txt"))
        await asyncio.wait([task], timeout=step * 0.008)
        task.cancel()
        await asyncio.wait([task])
        assert reading_children() == []


@needs_proc
async def test_many_files_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    extractor = ProcessExtractor(children=2)
    texts: dict[int, str] = {}
    seen = 0

    async def read(number: int) -> None:
        texts[number] = (await extractor.extract(_stored(tmp_path, b"file %d" % number, str(number)), "a.txt")).text

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(read, number)
        while len(texts) < 8:
            seen = max(seen, len(reading_children()))
            await anyio.sleep(0.01)
    assert texts == {number: f"file {number}" for number in range(8)}
    assert seen == 2


@needs_proc
async def test_the_child_gets_nothing_of_the_servers_environment(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ProcessExtractor().extract, _stored(tmp_path, ENDLESS), "a.txt")
        environment = (Path("/proc") / str(await wait_for_child()) / "environ").read_bytes()
        tasks.cancel_scope.cancel()
    names = set(re.findall(rb"(?:^|\0)([^=\0]+)=", environment))
    assert names == {b"PYTHONPATH", b"PYTHONUTF8", b"MALLOC_ARENA_MAX", b"TOKIO_WORKER_THREADS", b"RAYON_NUM_THREADS"}


def _stored(folder: Path, data: bytes, name: str = "upload") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
