"""Cuts a document into passages to find, ready to be stored: counted, with their terms and lexical vectors. Pure.

It cuts at the joints of the text: headings, pages, paragraphs, lines, sentences. Passages follow one another without
gaps, so joined they are the text again, and each knows its headings. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import regex

from lamella.core.counting import ApproximateCounter
from lamella.core.knowledge import NewPassage
from lamella.search.lexical import LexicalEmbedder
from lamella.search.terms import terms_of

PASSAGE = 1_600
"""Characters of a passage, at most: about 400 tokens."""

LEAST = 400
"""A passage has at least so many characters before a heading, page or paragraph ends it; shorter sections are combined.
"""

LONGEST_CHARACTER = 64
"""The most code points of one visible character; longer sequences are cut."""

_CHARACTER = regex.compile(r"\X")

LONGEST_HEADING = 120
"""Characters of a heading that are kept."""

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_PAGE = "\f"
_BREAKS = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "; ", ", ", " ")
"""Where a block that is too long is cut, best places first."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Characters `start` to `end` of a text. `headings` are those above it, outermost first; `page` counts from 1 by
    form feeds.
    """

    start: int
    end: int
    headings: tuple[str, ...] = ()
    page: int = 1


@dataclass(frozen=True, slots=True)
class _Block:
    """A heading, a paragraph, a fenced code block, or blank lines, with its position."""

    start: int
    end: int
    headings: tuple[str, ...]
    page: int
    is_heading: bool = False
    begins_page: bool = False


def split(text: str, most: int = PASSAGE, least: int = LEAST) -> Iterator[Cut]:
    """The passages of a text, of at most `most` characters each; none for a text without a letter or digit.

    Blank lines belong to the passage before them, at the beginning to the first.
    """
    held: list[Cut] = []
    for cut in _packed(text, most, least):
        if text[cut.start : cut.end].strip():
            if len(held) == 1 and not text[held[0].start : held[0].end].strip():
                joined = cut.end - held[0].start <= most
                yield Cut(held[0].start, cut.end, cut.headings, cut.page) if joined else held[0]
                held = [] if joined else [cut]
                continue
            yield from held
            held = [cut]
        elif held and cut.end - held[0].start <= most:
            held = [Cut(held[0].start, cut.end, held[0].headings, held[0].page)]
        else:
            yield from held
            held = [cut]
    yield from held if text.strip() else ()


def _packed(text: str, most: int, least: int) -> Iterator[Cut]:
    """Blocks combined while they fit. A heading stays with the text below it."""
    group: list[_Block] = []
    for block in _blocks(text):
        if group and _ends(group, block, most, least):
            kept = _trailing_headings(group)
            if 0 < kept < len(group):
                yield from _cut(text, group[:kept], most, least)
                group = group[kept:]
            elif kept:
                yield from _cut(text, group, most, least)
                group = []
        group.append(block)
        if group[-1].end - group[0].start > most:
            yield from _cut(text, group, most, least)
            group = []
    if group:
        yield from _cut(text, group, most, least)


def _ends(group: list[_Block], block: _Block, most: int, least: int) -> bool:
    """Whether a group ends before this block."""
    size = group[-1].end - group[0].start
    if block.end - group[0].start > most:
        return True
    return size >= least and (block.is_heading or block.begins_page)


def _trailing_headings(group: list[_Block]) -> int:
    """The number of blocks in a group before its trailing headings."""
    count = len(group)
    while count and group[count - 1].is_heading:
        count -= 1
    return count


def _cut(text: str, group: list[_Block], most: int, least: int) -> Iterator[Cut]:
    """A group as one passage, or as several if too long."""
    end, first, index = group[-1].end, group[0], 0
    start = first.start
    while start < end:
        stop = min(start + most, end)
        if stop < end:
            found = next((at + len(mark) for mark in _BREAKS if (at := text.rfind(mark, start + least, stop)) >= 0), 0)
            stop = last_boundary(text, found or stop, start)
        while index + 1 < len(group) and group[index + 1].start <= start:
            index += 1
        block = first if start == first.start else group[index]
        yield Cut(start, stop, block.headings, block.page)
        start = stop


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of a text, in order and without gaps."""
    return _Reader(text).blocks()


class _Reader:
    """Reads a text line by line, and tracks headings and page."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._path: list[tuple[int, str]] = []
        self._page = 1
        self._begins_page = False
        self._start = 0
        self._lines = 0
        self._fence = ""
        self._blank = False

    def blocks(self) -> Iterator[_Block]:
        """Every block."""
        text, at = self._text, 0
        while at < len(text):
            end = text.find("\n", at) + 1 or len(text)
            feed = text.find(_PAGE, at + 1, end)
            if feed > 0:
                end = feed
            yield from self._line(at, end)
            at = end
        yield from self._flush(len(text))

    def _line(self, at: int, end: int) -> Iterator[_Block]:
        text = self._text
        if text[at] == _PAGE:
            yield from self._flush(at)
            self._page, self._begins_page, self._fence = self._page + 1, True, ""
        # What is longer than a heading can be is looked at by its beginning alone.
        line = text[at : min(end, at + 1_000)].strip("\f\r\n")
        if self._fence:
            self._lines += 1
            if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
                yield from self._flush(end)
            return
        if not line.strip():
            self._blank = True
            return
        if self._blank:
            yield from self._flush(at)
        yield from self._said(line, at, end)

    def _said(self, line: str, at: int, end: int) -> Iterator[_Block]:
        """A line that is not blank and not in code."""
        if fence := _FENCE.match(line):
            yield from self._flush(at)
            self._fence, self._lines = fence[1], 1
        elif heading := _HEADING.match(line):
            yield from self._flush(at)
            self._under(len(heading[1]), heading[2] or "")
            yield from self._flush(end, is_heading=True)
        elif self._lines == 1 and (underline := _UNDERLINE.match(line)):
            above = self._text[self._start : at].strip()
            if len(above) <= LONGEST_HEADING:
                self._under(1 if underline[1][0] == "=" else 2, above)
                yield from self._flush(end, is_heading=True)
            else:
                self._lines += 1
        else:
            self._lines += 1

    def _under(self, level: int, title: str) -> None:
        self._path = [(depth, name) for depth, name in self._path if depth < level]
        if title.strip():
            self._path.append((level, title.strip()[:LONGEST_HEADING]))

    def _flush(self, end: int, *, is_heading: bool = False) -> Iterator[_Block]:
        """The text read up to `end` becomes a block."""
        if end > self._start:
            headings = tuple(name for _, name in self._path)
            yield _Block(self._start, end, headings, self._page, is_heading, self._begins_page)
            self._begins_page = False
        self._start, self._lines, self._blank = end, 0, False


_COUNTER = ApproximateCounter()


def embedded_text(text: str, headings: tuple[str, ...]) -> str:
    """The text of a passage's vector: its headings, then its text."""
    above = [heading for heading in headings if heading not in text]
    return "\n".join([*above, text])


def passages_of(text: str, name: str, *, paged: bool, lexical: LexicalEmbedder | None) -> Iterator[NewPassage]:
    """The passages of a text, in order.

    A passage is also found by the words of its document's `name` and its headings. With `lexical` it has that
    embedder's vector.
    """
    named = terms_of(name.rpartition(".")[0] or name)
    for cut in split(text):
        piece = text[cut.start : cut.end]
        above = [heading for heading in cut.headings if heading not in piece]
        terms = [*terms_of(piece), *named, *(term for heading in above for term in terms_of(heading))]
        [vector] = lexical.vectors([embedded_text(piece, cut.headings)]) if lexical is not None else [None]
        yield NewPassage(
            start=cut.start,
            end=cut.end,
            text=piece,
            headings=cut.headings,
            page=cut.page if paged else None,
            terms=" ".join(terms),
            length=len(terms),
            tokens=_COUNTER.count(piece),
            vector=vector,
        )


def last_boundary(text: str, at: int, least: int) -> int:
    """The last place at or before `at`, and after `least`, that tears nothing a reader sees as one character."""
    begin = max(at - LONGEST_CHARACTER, least)
    if at >= len(text):
        return at
    places = [begin + found.start() for found in _CHARACTER.finditer(text[begin : at + 1])]
    torn = "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"
    whole = [place for place in places if begin < place and not (torn and place == at)]
    return whole[-1] if whole else at - (torn and at - 1 > least)
