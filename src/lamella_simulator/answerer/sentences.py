"""Splits documents into real sentences: wrapped PDF lines joined, headings, list items and table rows kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Literal

ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st no nos nr vs etc e.g i.e cf al fig figs eq sec ch vol pp p ed eds inc ltd co corp jr sr dept
    approx est excl incl gen col rev hon max min jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri
    u.s u.k a.m p.m ca bzw usw z.b d.h u.a vgl abs art bspw evtl ggf inkl exkl mio mrd str tel zzgl rd sog s.o m mme
    mm av env sra dra núm pág т.е т.д т.п г гг стр рис им см
    """.split()  # noqa: SIM905
)
TERMINAL = re.compile(
    r"(?P<stop>[.!?…؟।]+)(?P<close>[\"'”’»)\]]*)(?P<gap>\s+)(?=[\"'“‘«(\[¿¡]*[^\W_])|(?P<wide>[。！？]+[」』”’）]*)"
)
ORDINAL = re.compile(
    r"\b(?:am|ab|bis|das|dem|den|der|des|die|im|jede[mnrs]?|seit|vom|zum|zur)\s+\d{1,2}\Z", re.IGNORECASE
)
LAST_WORD = re.compile(r"[\w.]*\w\Z")
BULLET = re.compile(r"^\s*(?:[-*•–‣▪◦·]|\(?\d{1,3}[.)]|\(?[a-z][.)])\s+(?=\S)")
HEADING_MARK = re.compile(r"^\s*#{1,6}\s+")
TABLE_RULE = re.compile(r"^[\s|:+=_-]*$")
CELL_GAP = re.compile(r"\t+| {3,}|\s*\|\s*")
PAGE_NUMBER = re.compile(r"^\s*(?:page\s+)?[-–—]?\s*\d{1,4}\s*(?:/\s*\d{1,4}|of\s+\d{1,4})?\s*[-–—]?\s*$", re.I)
ENDS_SENTENCE = re.compile(r"[.!?…:;。！？؟।][\"'”’»)\]]*\s*$")
HYPHEN_END = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]$")

BULLET_SIGNS = ("- ", "* ", "• ", "– ", "· ")

Kind = Literal["sentence", "item", "row", "heading"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One quotable unit, white space made single, and the heading it stands under."""

    text: str
    kind: Kind
    heading: str


@lru_cache(maxsize=256)
def split(text: str) -> tuple[Sentence, ...]:
    """The sentences of a document. Linear in its length; remembered, as requests repeat their documents."""
    return tuple(Splitter(text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")).run())


class Splitter:
    """Walks the lines of a document; a paragraph gathers until something ends it."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._full = full_width(self._lines)
        self._heading = ""
        self._paragraph: list[str] = []

    def run(self) -> Iterator[Sentence]:
        for index, line in enumerate(self._lines):
            following = self._lines[index + 1].strip() if index + 1 < len(self._lines) else ""
            yield from self._take(line, line.strip(), following)
        yield from self._flush()

    def _take(self, line: str, stripped: str, following: str) -> Iterator[Sentence]:
        if not stripped:
            yield from self._flush()
        elif TABLE_RULE.match(stripped) or PAGE_NUMBER.match(stripped):
            return
        elif (cells := table_cells(stripped)) is not None:
            yield from self._flush()
            yield Sentence(" | ".join(cells), "row", self._heading)
        elif HEADING_MARK.match(line) or is_heading(stripped, following, self._full):
            if self._paragraph and continues(self._paragraph[-1], line, self._full):
                self._paragraph.append(line)
                return
            yield from self._flush()
            heading = HEADING_MARK.sub("", stripped).strip("# *_")
            yield Sentence(heading, "heading", self._heading)
            self._heading = heading
        else:
            if self._paragraph and (
                starts_item(line, self._paragraph) or not continues(self._paragraph[-1], line, self._full)
            ):
                yield from self._flush()
            self._paragraph.append(line)

    def _flush(self) -> Iterator[Sentence]:
        paragraph, self._paragraph = self._paragraph, []
        yield from sentences_of(paragraph, self._heading)


def full_width(lines: Sequence[str]) -> int:
    """The length of a full line: in text wrapped by a PDF most lines are full. 0 if lines are whole paragraphs."""
    lengths = [len(line.strip()) for line in lines if len(line.strip()) > 25]
    if len(lengths) < 4:
        return 0
    middle = int(median(lengths))
    return middle if middle <= 140 else 0


def table_cells(stripped: str) -> list[str] | None:
    """The cells of a table row: between pipes, tabs or wide gaps; None for other lines."""
    piped = stripped.count("|") >= 2 or (stripped.startswith("|") and stripped.endswith("|"))
    if not piped and "\t" not in stripped and "   " not in stripped:
        return None
    cells = [cell.strip(" *") for cell in CELL_GAP.split(stripped.strip("|")) if cell.strip(" *")]
    wide = len(cells) >= 3 or (len(cells) == 2 and max(map(len, cells)) <= 60)
    return cells if (piped and cells) or (wide and not ENDS_SENTENCE.search(stripped[:-1] + " ")) else None


def is_heading(line: str, following: str, full: int) -> bool:
    """A short line without a sentence's end that the next line does not continue."""
    if len(line) > 90 or ENDS_SENTENCE.search(line) or not any(sign.isalpha() for sign in line):
        return False
    if line.startswith(BULLET_SIGNS) or (BULLET.match(line) and BULLET.match(following)):
        return False
    if not following:
        return len(line.split()) <= 14
    short = len(line) < (full * 0.7 if full else 60)
    return short and not following[0].islower() and len(line.split()) <= 12 and len(following) > 1.5 * len(line)


def continues(previous: str, line: str, full: int) -> bool:
    """Whether the line break between two lines is only a wrap: the first was filled, or the second goes on."""
    before, after = previous.strip(), line.strip()
    if after[0].islower() or before.endswith((",", "-", "\u00ad", "(", "–")):
        return True
    return len(before) >= (full * 0.75 if full else 50)


def starts_item(line: str, paragraph: Sequence[str]) -> bool:
    """Whether a line begins a list item; a wrapped line that begins with a number does not."""
    if not BULLET.match(line):
        return False
    numbered = line.strip()[0].isdigit()
    return not numbered or bool(BULLET.match(paragraph[0])) or bool(ENDS_SENTENCE.search(paragraph[-1]))


def sentences_of(paragraph: Sequence[str], heading: str) -> Iterator[Sentence]:
    if not paragraph:
        return
    kind: Kind = "item" if BULLET.match(paragraph[0]) else "sentence"
    joined = BULLET.sub("", join_lines(paragraph)) if kind == "item" else join_lines(paragraph)
    for index, text in enumerate(split_sentences(joined)):
        yield Sentence(text, "heading" if index == 0 and is_run_in_heading(text) else kind, heading)


def is_run_in_heading(text: str) -> bool:
    """ "Grant of Patent License." opens a paragraph like a heading: a few words, the long ones all capital."""
    long_words = [word for word in text.split() if len(word) > 3 and word[0].isalpha()]
    return 2 <= len(text.split()) <= 8 and len(long_words) > 1 and all(word[0].isupper() for word in long_words)


def join_lines(lines: Sequence[str]) -> str:
    """One line of text; a word that was hyphenated at a line's end becomes whole again."""
    joined: list[str] = []
    for line in lines:
        stripped = " ".join(line.split())
        if joined and HYPHEN_END.search(joined[-1]) and stripped[:1].islower():
            joined[-1] = joined[-1][:-1] + stripped
        else:
            joined.append(stripped)
    return " ".join(joined)


def split_sentences(text: str) -> Iterator[str]:
    start = 0
    for found in TERMINAL.finditer(text):
        if found["stop"] == "." and is_abbreviation(text, found.start(), found.end()):
            continue
        end = found.start("gap") if found["gap"] else found.end()
        if sentence := text[start:end].strip():
            yield sentence
        start = found.end()
    if rest := text[start:].strip():
        yield rest


def is_abbreviation(text: str, stop: int, following: int) -> bool:
    """Whether the full stop at `stop` belongs to its word: Dr., z.B., an initial, or an ordinal such as "3. März"."""
    word = LAST_WORD.search(text, max(0, stop - 20), stop)
    if word is None:
        return False
    last = word.group().casefold()
    if last in ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or re.fullmatch(r"(?:\w\.)+\w", last):
        return True
    return text[following].islower() or bool(ORDINAL.search(text, max(0, stop - 20), stop))
