"""`[n]` in a streamed answer: found however it was chunked, and only where a reader sees a citation."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamella.agent.citation_scanner import CitationScanner, FoundCitation
from lamella.agent.citations import CitationWatch
from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from measures import MOST_GROWTH, growth

MARKS = ["[1]", "[2,3]", "[", "]", "1", "23", ",", "`", "``", "```", "````", "~~~", "~", "(", ")", ":", "\\", "a"]
MATHS = ["$", "$$", "$5", "$x", "\\(", "\\)", "\\[", "\\]", "\\$", "\\\\", "_"]
LINKS = ["](x)", "[[1]](u)", "【1】", "【", "é", "🦎", "][1]"]
FORMS = ["[1-3]", "-", "–", "［1］", "［", "］", "【1†", "†", "，", "[1, 99]", "１", "~"]
SPACES = [" ", "\n", "\n\n", "\n \t\n", "    ", "\t", "```py\n", "\n```\n", "\n~~~\n", "\n[1]: u", "\f"]
TOKENS = st.sampled_from(MARKS + MATHS + LINKS + FORMS + SPACES)
TEXTS = st.one_of(st.lists(TOKENS, max_size=40).map("".join), st.text(max_size=60))


def scan(*pieces: str) -> list[FoundCitation]:
    scanner = CitationScanner()
    found = [hit for piece in pieces for hit in scanner.feed(piece)]
    return [*found, *scanner.end()]


def scan_in_pieces(text: str) -> list[FoundCitation]:
    return scan(*(text[start : start + 40] for start in range(0, len(text), 40)))


def cited(text: str) -> list[str]:
    return [text[hit.start : hit.end] for hit in scan(text)]


@given(TEXTS, st.data())
@example("`[1]\n\n[2]", None)
@example("```\n[1]\n``` [2]\n```\n[3]", None)
def test_chunks_make_no_difference(text: str, data: st.DataObject | None) -> None:
    whole = scan(text)
    assert scan(*text) == whole
    if data is not None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert scan(*pieces) == whole


@given(TEXTS)
def test_what_is_found_is_there(text: str) -> None:
    end = 0
    for hit in scan(text):
        assert end <= hit.start < hit.end <= len(text)
        assert text[hit.start] + text[hit.end - 1] in ("[]", "【】", "［］")
        assert hit.items
        place = hit.start
        for item in hit.items:
            assert place < item.start < item.end < hit.end
            written = re.findall(r"\d+", text[item.start : item.end])
            assert (int(written[0]), int(written[-1])) == (item.first, item.last)
            place = item.end
        assert text[: hit.start].endswith(hit.before)
        end = hit.end


@given(TEXTS, st.integers(0, 3))
def test_what_was_long_ago_makes_no_difference(text: str, lines: int) -> None:
    """Lines are forgotten on the way, and places are still those in the whole text."""
    before = "word " * 300 + "\n\n" + "A line.\n\n" * (lines * 400)
    moved = [shifted(hit, len(before)) for hit in scan(before + text)]
    scanner = CitationScanner()
    pieces = [before[start : start + 7] for start in range(0, len(before), 7)]
    found = [hit for piece in (*pieces, *text) for hit in scanner.feed(piece)] + list(scanner.end())
    assert [shifted(hit, len(before)) for hit in found] == moved
    assert [shifted(hit, 0) for hit in scan(text)] == moved


def shifted(hit: FoundCitation, by: int) -> tuple[int, int, tuple[tuple[int, ...], ...]]:
    items = tuple((item.start - by, item.end - by, item.first, item.last) for item in hit.items)
    return hit.start - by, hit.end - by, items


@given(TEXTS)
def test_nothing_is_found_in_a_fence(text: str) -> None:
    assert cited(f"~~~~~~~~\n{text.replace('~', '')}\n~~~~~~~~\n[7]")[-1:] == ["[7]"]
    assert len(cited(f"~~~~~~~~\n{text.replace('~', '')}\n~~~~~~~~\n[7]")) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("True [1].", ["[1]"]),
        ("True[1][2].", ["[1]", "[2]"]),
        ("True [ 1 , 2,3 ]", ["[ 1 , 2,3 ]"]),
        ("As [1]: it is true", ["[1]"]),
        ("[1]: https://example.com\nTrue [1]", ["[1]"]),
        ("  [1]: https://example.com", []),
        ("A list:\n- true [1]\n- false [2]:\n", ["[1]", "[2]"]),
        ("[1](https://example.com) and [2]", ["[2]"]),
        ("[[1]](https://example.com) and [[2]]", ["[2]"]),
        ("![1](image.png)", []),
        ("[1] (see above)", ["[1]"]),
        ("`a[1]` and [1]", ["[1]"]),
        ("``a`[1]`` and [1]", ["[1]"]),
        ("A lone ` tick [1]", ["[1]"]),
        ("A lone ` tick [1]\n\nand `code [2]`", ["[1]"]),
        ("A span `over\nlines [1]` ends", []),
        ("```\na[1]\n```\n[2]", ["[2]"]),
        ("```python\na[1]\n```\n[2]", ["[2]"]),
        ("   ```\na[1]\n  ```  \n[2]", ["[2]"]),
        ("- ```\n  a[1]\n  ```", []),
        ("````\n```\n[1]\n```\n````\n[2]", ["[2]"]),
        ("~~~\n[1]\n```\n[2]\n~~~\n[3]", ["[3]"]),
        ("```\nnever closed [1]", []),
        ("```one line [1]``` [2]", ["[2]"]),
        ("~~gone [1]~~", ["[1]"]),
        ("\\[1] and \\[1\\]", []),
        ("arr[0] = x[i] [a] [] [,] [1,] [-1] [1.5] [1-] [1--2]", ["[0]"]),
        ("True [1-3], [2–4], [1, 3-5] and [ 7 - 9 ].", ["[1-3]", "[2–4]", "[1, 3-5]", "[ 7 - 9 ]"]),
        ("正しい［1］、［１，２］と［1～3］。", ["［1］", "［１，２］", "［1～3］"]),
        ("So it is【1†source】【12†L3-L9】 and [3†page 4].", ["【1†source】", "【12†L3-L9】", "[3†page 4]"]),
        ("No【4:0†source】, no 【†1】, no 【1†a\nb】, no ［1] and no [1］.", []),
        ("`［1］` $x［2］$ [1-3](u) [[1-3]](u) \\[1-3] \\(a【1†b】\\)", []),
        ("```\n【1†source】 [1-3]\n```", []),
        ("See [the manual][1] and [1][2].", ["[1]", "[2]"]),
        ("\\[sic\\][1], x[i][2] and [[3]].", ["[1]", "[3]"]),
        ("[" + "1," * 150 + "1]", []),
        ("[123456]", []),
        ("[\n1\n]", ["[\n1\n]"]),
        ("x [1", []),
        ("[[[[[1]]]]]", ["[1]"]),
        ("It opens at nine【1】【2, 3】.", ["【1】", "【2, 3】"]),
        ("【1] and [1】 and 【a】 and `【1】` and 【", []),
        ("A note[^1], a formula \\[1\\] and x\\[2].", []),
        ("Ответ [1]。漢字[2]", ["[1]", "[2]"]),
        ("So $a[1] + b[2]$ holds [3]", ["[3]"]),
        ("For $x \\in [0]$, $y[1]$ and ($z[2]$) [3].", ["[3]"]),
        ("$$\na[1]\n= b[2]\n$$ [3]", ["[3]"]),
        ("So \\(a[1]\\) and \\[b[2]\n+ c[3]\\] hold [4]", ["[4]"]),
        ("It costs $5 [1] or $6 [2], never $7[3].", ["[1]", "[2]", "[3]"]),
        ("It costs $5[1], in Canada C$7[2].", ["[1]", "[2]"]),
        ("Between $5 million [1] and $6 million (US$) [2]", ["[1]", "[2]"]),
        ("$20,000[1] and $30,000[2]", ["[1]", "[2]"]),
        ("$2 x_1 = a[1]$ and [2]", ["[2]"]),
        ("$HOME [1] and $PATH [2]", ["[1]", "[2]"]),
        ("\\$a [1] and b$ [2]", ["[1]", "[2]"]),
        ("$a\\$ [1] b$ [2]", ["[2]"]),
        ("$a [1]\nb$ [2]", ["[1]", "[2]"]),
        ("$$ a [1]\n\nb $$ [2]", ["[1]", "[2]"]),
        ("\\[ a [1]\n\nb \\] [2]", ["[1]", "[2]"]),
        ("\\\\(a [1]\\\\) \\\\[2]", ["[1]"]),
        ("\\(a \\\\) [1] \\) [2]", ["[2]"]),
        ("Prices: $, $$, $$$ [1]", ["[1]"]),
        ("`$` [1] and `$` [2]", ["[1]", "[2]"]),
        ("$a `b [1]$` [2]", ["[2]"]),
        ("$" + "a" * 400 + " [1]$ [2]", ["[1]", "[2]"]),
    ],
)
def test_what_a_reader_takes_for_a_citation(text: str, found: list[str]) -> None:
    assert cited(text) == found


class Marked(msgspec.Struct):
    """A text, its maths as the page shows it, and the numbers that are cited in it."""

    text: str
    maths: list[str]
    cited: list[int]


MARKED = msgspec.json.decode(Path(__file__).with_name("maths.json").read_bytes(), type=list[Marked])


@pytest.mark.parametrize("case", MARKED, ids=lambda case: case.text[:24])
def test_maths_holds_no_citations_and_money_no_maths(case: Marked) -> None:
    assert sorted(item.first for hit in scan(case.text) for item in hit.items) == case.cited


LONG = {
    "brackets": "[" * 20_000,
    "open": "[1" * 10_000,
    "wide": "[ " * 10_000,
    "spaces": "[" + " " * 30_000,
    "numbers": "[" + "1," * 15_000,
    "ticks": "`" * 30_001,
    "lone ticks": "` " * 15_000,
    "odd ticks": "".join("`" * n + " " for n in range(1, 200)),
    "fences": "```\n" * 8_000,
    "tildes": "~~~\n`" * 6_000,
    "lines": "\n" * 30_000,
    "paragraphs": "`\n \n" * 8_000,
    "cited ticks": "a `b [1] " * 4_000,
    "escapes": "\\[" * 15_000,
    "maths": "\\(a \\[b $$c " * 3_000,
    "dollars": "$" * 30_001,
    "lone dollars": "$a " * 10_000,
    "many dollars": "$$ $ " * 6_000,
    "backslashes": "\\" * 30_001,
    "daggers": "[1†" * 10_000,
    "dagger words": "【1†" + "a b " * 8_000,
    "full width": "［１，" * 10_000,
    "ranges": "[1-" * 10_000,
    "dashes": "[" + "1-" * 15_000,
    "links": "[a][1]" * 5_000,
    "open maths": "\\(" + "\\a$" * 10_000,
    "paragraphs of maths": "\\[\n \n" * 8_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_the_work_grows_with_the_text_and_no_faster(text: str) -> None:
    assert growth(scan, text) < MOST_GROWTH
    assert growth(scan_in_pieces, text) < MOST_GROWTH


def attachment(document: int, text: str | None = "The lease ends in May. The rent is due in June.") -> Attachment:
    return Attachment(f"file_{document}", document, f"{document}.txt", "text/plain", 10, 10, text)


@pytest.mark.anyio
async def test_a_citation_names_its_document_once_and_opens_its_passage() -> None:
    watch = CitationWatch([attachment(1), attachment(7, None)])
    packets = [
        p
        for piece in ("The rent is due in June [1", "]. ", "So they say [7], [1].")
        for p in await watch.text(3, piece)
    ]
    packets += [packet for _, packet in await watch.end()]
    assert [type(packet) for packet in packets] == [
        *(SourcePacket, CitationPacket, SourcePacket, CitationPacket, CitationPacket)
    ]
    first, unread = packets[1], packets[3]
    assert isinstance(first, CitationPacket)
    assert isinstance(unread, CitationPacket)
    assert (first.document, first.start, first.end, first.file_id) == (1, 24, 27, "file_1")
    assert (first.passage_start, first.passage_end, first.page) == (23, 46, None)
    assert (unread.document, unread.passage_start) == (7, None)


async def cited_in(text: str, *documents: int) -> list[tuple[int, str]]:
    """What of a text is replaced, by the document that is cited there; the same for every way it arrives."""
    found = []
    for pieces in ([text], list(text)):
        watch = CitationWatch([attachment(number) for number in documents])
        packets = [packet for piece in pieces for packet in await watch.text(0, piece)]
        packets += [packet for _, packet in await watch.end()]
        found.append([(p.document, text[p.start : p.end]) for p in packets if isinstance(p, CitationPacket)])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text", ["[2]", "arr[0]", "【2†source】", "[9-11]", "[1-2]", "[0-9]", "[3-1]", "[2, 1-9]", "[0, 1, 3]", "[1, 4, 9]"]
)
async def test_a_number_without_a_document_is_left_alone(text: str) -> None:
    assert await cited_in(f"True {text}.", 1, 3) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("[1, 99]", [(1, "1")]),
        ("[99,1]", [(1, "1")]),
        ("[1, 99, 3]", [(1, "1"), (3, "3")]),
        ("[1-3]", [(1, "[1-3]"), (2, "[1-3]"), (3, "[1-3]")]),
        ("[2 – 4, 7]", [(2, "[2 – 4, 7]"), (3, "[2 – 4, 7]"), (7, "[2 – 4, 7]")]),
        ("[2-2, 99]", [(2, "2-2")]),
        ("[1-3, 99]", [(1, "1-3"), (2, "1-3"), (3, "1-3")]),
        ("[1, 1-99]", [(1, "1")]),
        ("［１、2］", [(1, "［１、2］"), (2, "［１、2］")]),
        ("【3†source】", [(3, "【3†source】")]),
        ("[1, 1]", [(1, "[1, 1]")]),
    ],
)
async def test_what_is_known_of_a_list_is_cited_and_the_rest_stays_text(
    text: str, cited: list[tuple[int, str]]
) -> None:
    if "4" in text:
        assert await cited_in(f"True {text}.", 1, 2, 3, 4, 7) == [*cited[:2], (4, text), *cited[2:]]
    else:
        assert await cited_in(f"True {text}.", 1, 2, 3, 7) == cited


@pytest.mark.anyio
async def test_a_range_costs_what_is_there_and_two_figures_are_none() -> None:
    assert await cited_in("[1-101]", *range(1, 300)) == [(number, "[1-101]") for number in range(1, 102)]
    assert await cited_in("[1-250]", *range(1, 300)) == []


@pytest.mark.anyio
async def test_blocks_are_scanned_apart() -> None:
    watch = CitationWatch([attachment(1)])
    assert await watch.text(0, "A ` tick [1") == []
    assert [p.start for p in await watch.text(1, "True [1].") if isinstance(p, CitationPacket)] == [5]
    assert [(block, type(packet)) for block, packet in await watch.end()] == []
