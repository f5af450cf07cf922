"""The guard: nothing that belongs to protected text leaves it, whatever form it is given (docs/explanation/guard.md).

said ──▶ words · letters · figures · dates · identifiers · titles ──▶ hits ──▶ the sentences without one, or none

Pure: it reads no clock, asks no model and writes nothing; a hit names a place, never the protected words.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from lamella.guard.identifiers import KnownDates, dates, identifiers
from lamella.guard.letters import FUNCTION_WORDS, PLAIN_WORDS, Folded, Word, fold, sentence_places, stream_of, words_of
from lamella.guard.numerals import KnownFigures, figures

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{10,}={0,2}")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[\s:,]?){6,}")
_CODES = re.compile(r"(?:\b\d{2,3}\b[\s,;]+){6,}\d{2,3}\b")
DEEPEST = 3
"""How often what was decoded is decoded again."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """What characters `start` to `end` of a text say to whoever decodes them."""

    text: str
    start: int
    end: int


def decoded(text: str, depth: int = DEEPEST) -> Iterator[DecodedText]:
    """The places of a text that are encoded, each as it reads, and what is encoded within them."""
    if depth == 0:
        return
    for reading in _once(text):
        yield reading
        for inner in decoded(reading.text, depth - 1):
            yield DecodedText(inner.text, reading.start, reading.end)


def _once(text: str) -> Iterator[DecodedText]:
    unescaped = html.unescape(unquote(text))
    if unescaped != text:
        yield DecodedText(unescaped, 0, len(text))
    for match in _BASE64.finditer(text):
        yield from _reading(match, _from_base64(match.group()))
    for match in _BASE32.finditer(text):
        yield from _reading(match, _from_base32(match.group()))
    for match in _HEX.finditer(text):
        yield from _reading(match, _from_hex(match.group()))
    for match in _CODES.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", match.group())]
        if all(32 <= number < 127 for number in numbers):
            yield DecodedText("".join(map(chr, numbers)), match.start(), match.end())


def _reading(match: re.Match[str], data: bytes | None) -> Iterator[DecodedText]:
    if data is None:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if text and sum(character.isprintable() or character.isspace() for character in text) == len(text):
        yield DecodedText(text, match.start(), match.end())


def _from_base64(text: str) -> bytes | None:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        return None


def _from_base32(text: str) -> bytes | None:
    bare = text.rstrip("=")
    try:
        return base64.b32decode(bare + "=" * (-len(bare) % 8))
    except binascii.Error:
        return None


def _from_hex(text: str) -> bytes | None:
    digits = re.sub(r"0x|\\x|[\s:,]", "", text)
    return bytes.fromhex(digits) if len(digits) % 2 == 0 else None


def shifted(text: str) -> str:
    """Each letter as the one thirteen places on."""
    return codecs.encode(text, "rot13")


MOST_PLACES = 64
"""Places of one piece that are looked at: a piece that stands in more tells nothing."""


@dataclass(frozen=True, slots=True)
class SharedRun:
    """Items `start` to `end` of what was said stand in a source too."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """In items."""
        return self.end - self.start


class RunIndex:
    """Sources, in pieces of `step` items: a run of at least `2 * step - 1` items holds a whole piece of its source."""

    def __init__(self, sources: Sequence[Sequence[Hashable]], step: int) -> None:
        self._sources = sources
        self._step = step
        places: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for number, source in enumerate(sources):
            for at in range(0, len(source) - step + 1, step):
                places[self._piece(source, at)].append((number, at))
        self._places = places

    def _piece(self, items: Sequence[Hashable], at: int) -> Hashable:
        piece = items[at : at + self._step]
        return piece if isinstance(piece, str) else tuple(piece)

    def runs(self, said: Sequence[Hashable]) -> Iterator[SharedRun]:
        """The maximal runs that `said` shares with any source; of those that overlap, all."""
        reached: dict[tuple[int, int], int] = {}
        for at in range(len(said) - self._step + 1):
            places = self._places.get(self._piece(said, at), ())
            for number, place in places[:MOST_PLACES]:
                diagonal = (number, place - at)
                if reached.get(diagonal, 0) > at:
                    continue
                run = self._grown(said, at, self._sources[number], place)
                reached[diagonal] = run.end
                yield run

    def _grown(self, said: Sequence[Hashable], at: int, source: Sequence[Hashable], place: int) -> SharedRun:
        back = 0
        while back < min(at, place) and said[at - back - 1] == source[place - back - 1]:
            back += 1
        on, most = self._step, min(len(said) - at, len(source) - place)
        while on < most and said[at + on] == source[place + on]:
            on += 1
        return SharedRun(at - back, at + on)


LONGEST_RUN = 7
"""Words in a row that may be shared: a run of eight is taken from the text."""

TELLING_WORDS = 3
"""Words with a content that such a run has at least."""

OWN_WORDS = 4
"""Words of a run that the user did not say: with fewer, the run is his."""

LONGEST_LETTERS = 35
"""Letters in a row that may be shared, whatever stands between them: about seven words."""

JOINED = 6
"""Letters of a word in writing that leaves out the spaces."""

LONGEST_DISGUISED = 23
"""The same where the letters are reversed or shifted, which nobody does by chance."""

PATCH = 4
"""Words in a row that count as a patch."""

MOST_PATCHED = 0.5
"""Share of a text that may consist of patches; more is a copy with changes."""

FEWEST_PATCHED = 12
"""Words in patches below which a text is too short to be judged by its patches."""

LEAST_LEFT = 0.4
"""Share of the words that must be left when sentences are taken out; with less the rest is refused too."""

_FILE_ENDING = re.compile(r"\.[A-Za-z]{2,5}$")
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}\s+|\d+(?:\.\d+)*\.?\s+(?=[^\W\d_]))(.{3,120}?)\s*#*\s*$", re.MULTILINE)


class FindingKind(Enum):
    """What of the protected text was said."""

    WORDS = "words"
    PATCHWORK = "patchwork"
    FIGURE = "figure"
    DATE = "date"
    IDENTIFIER = "identifier"
    TITLE = "title"
    DISGUISED = "disguised"


@dataclass(frozen=True, slots=True)
class Finding:
    """Characters `start` to `end` of what was said tell something protected."""

    kind: FindingKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What may be said: `text`, empty when all of it is refused; and what was found in what was said."""

    text: str
    hits: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Whether nothing may be said."""
        return not self.text


@dataclass(frozen=True, slots=True)
class ProtectedText:
    """Protected text. `titles` are those of its documents; headings are found in it."""

    text: str
    titles: tuple[str, ...] = ()


class _Facts:
    """What a number of texts tell, in the forms that compare."""

    def __init__(self, texts: Sequence[str]) -> None:
        folded = [fold(text) for text in texts]
        self.words = [words_of(one) for one in folded]
        self.figures = KnownFigures(figure for one in folded for figure in figures(one))
        self.dates = KnownDates(date for one in folded for date in dates(one))
        self.identifiers = {identifier.text for one in folded for identifier in identifiers(one)}
        sequences = [[word.text for word in words] for words in self.words]
        streams = [stream_of(words).text for words in self.words]
        self.runs = RunIndex(sequences, (LONGEST_RUN + 1) // 2)
        self.patches = RunIndex(sequences, PATCH // 2)
        self.letters = RunIndex(streams, (LONGEST_DISGUISED + 1) // 2)


class Guard:
    """Checks what is said against some protected sources, for one user; made once, asked for every field."""

    def __init__(self, sources: Sequence[ProtectedText], said_by_user: Sequence[str] = ()) -> None:
        self._protected = _Facts([source.text for source in sources])
        self._own = _Facts(said_by_user)
        self._titles = [title for source in sources for title in self._titles_of(source)]

    def check(self, text: str) -> GuardVerdict:
        """What of `text` may be said: all of it, its sentences that tell nothing, or nothing."""
        found: list[Finding] = []
        left = text
        # What is left is read again: two halves of a run may have come together.
        while left:
            hits = tuple(self._hits(left))
            found += hits if left is text else ()
            if not hits:
                return GuardVerdict(left, tuple(found))
            if any(hit.kind in (FindingKind.DISGUISED, FindingKind.PATCHWORK) for hit in hits):
                break
            shorter = _without(left, hits)
            if len(_plain_words(shorter)) < LEAST_LEFT * len(_plain_words(text)):
                break
            left = shorter
        return GuardVerdict("", tuple(found))

    def _titles_of(self, source: ProtectedText) -> Iterator[tuple[str, ...]]:
        for title in (*source.titles, *(match.group(1) for match in _HEADING.finditer(source.text))):
            words = tuple(word.text for word in words_of(fold(_FILE_ENDING.sub("", title))))
            # The year behind a title is a date by itself; the title is one without it too.
            while words and words[-1].isdecimal():
                words = words[:-1]
            telling = [word for word in words if word not in PLAIN_WORDS]
            if len(words) > 1 and telling:
                yield words

    def _hits(self, text: str) -> Iterator[Finding]:
        yield from self._plain_hits(text)
        for reading in decoded(text):
            if next(self._plain_hits(reading.text), None) is not None:
                yield Finding(FindingKind.DISGUISED, reading.start, reading.end)
        yield from self._disguised(text)

    def _plain_hits(self, text: str) -> Iterator[Finding]:
        folded = fold(text)
        words = words_of(folded)
        yield from self._words(words)
        yield from self._letters(words)
        yield from self._patchwork(words)
        yield from self._figures(folded)
        yield from self._dates(folded)
        yield from self._identifiers(folded)
        yield from self._named(words)

    def _words(self, words: Sequence[Word]) -> Iterator[Finding]:
        said = [word.text for word in words]
        own: list[bool] | None = None
        for run in self._protected.runs.runs(said):
            if run.length <= LONGEST_RUN:
                continue
            if sum(word not in FUNCTION_WORDS for word in said[run.start : run.end]) < TELLING_WORDS:
                continue
            own = own if own is not None else _covered(self._own.patches.runs(said), len(said), PATCH)
            if own[run.start : run.end].count(False) >= OWN_WORDS:
                yield Finding(FindingKind.WORDS, words[run.start].start, words[run.end - 1].end)

    def _letters(self, words: list[Word]) -> Iterator[Finding]:
        stream = stream_of(words)
        own: list[bool] | None = None
        for run in self._protected.letters.runs(stream.text):
            if run.length <= LONGEST_LETTERS:
                continue
            own = own if own is not None else _covered(self._own.letters.runs(stream.text), len(stream.text), 1)
            if own[run.start : run.end].count(False) > LONGEST_LETTERS // 2 and _is_telling(words, stream, run):
                yield Finding(FindingKind.WORDS, *stream.place(run.start, run.end))

    def _patchwork(self, words: Sequence[Word]) -> Iterator[Finding]:
        said = [word.text for word in words]
        patches = [
            run
            for run in self._protected.patches.runs(said)
            if run.length >= PATCH and any(word not in FUNCTION_WORDS for word in said[run.start : run.end])
        ]
        patched = _covered(iter(patches), len(said), PATCH)
        own = _covered(self._own.patches.runs(said), len(said), PATCH)
        count = sum(is_patched and not is_own for is_patched, is_own in zip(patched, own, strict=True))
        if count >= FEWEST_PATCHED and count > MOST_PATCHED * len(said):
            yield Finding(FindingKind.PATCHWORK, words[0].start, words[-1].end)

    def _figures(self, folded: Folded) -> Iterator[Finding]:
        for figure in figures(folded):
            if self._protected.figures.tell(figure) and not self._own.figures.tell(figure):
                yield Finding(FindingKind.FIGURE, figure.start, figure.end)

    def _dates(self, folded: Folded) -> Iterator[Finding]:
        for date in dates(folded):
            if self._protected.dates.tell(date) and not self._own.dates.tell(date):
                yield Finding(FindingKind.DATE, date.start, date.end)

    def _identifiers(self, folded: Folded) -> Iterator[Finding]:
        for identifier in identifiers(folded):
            if identifier.text in self._protected.identifiers and identifier.text not in self._own.identifiers:
                yield Finding(FindingKind.IDENTIFIER, identifier.start, identifier.end)

    def _named(self, words: Sequence[Word]) -> Iterator[Finding]:
        said = [word.text for word in words]
        for title in self._titles:
            own = any(_place(title, [word.text for word in one]) is not None for one in self._own.words)
            if not own and (at := _place(title, said)) is not None:
                yield Finding(FindingKind.TITLE, words[at].start, words[at + len(title) - 1].end)

    def _disguised(self, text: str) -> Iterator[Finding]:
        """Letters read backwards, words in reverse order, each word backwards, or letters shifted."""
        words = words_of(fold(text))
        ways = (
            stream_of(words).text[::-1],
            "".join(word.text for word in reversed(words)) if len(words) > TELLING_WORDS else "",
            "".join(word.text[::-1] for word in words),
            stream_of(words_of(fold(shifted(text)))).text,
        )
        if any(run.length > LONGEST_DISGUISED for way in ways for run in self._protected.letters.runs(way)):
            yield Finding(FindingKind.DISGUISED, 0, len(text))


def _covered(runs: Iterator[SharedRun], length: int, least: int) -> list[bool]:
    """Which items stand in a run of at least `least`."""
    covered = [False] * length
    for run in runs:
        if run.length >= least:
            covered[run.start : run.end] = [True] * run.length
    return covered


def _is_telling(words: Sequence[Word], stream: Folded, run: SharedRun) -> bool:
    """Whether the letters are more than words that everybody uses; letters written one by one are."""
    start, end = stream.place(run.start, run.end)
    said = [word.text for word in words if word.end > start and word.start < end]
    telling = sum(max(1, len(word) // JOINED) for word in said if word not in FUNCTION_WORDS)
    return telling >= TELLING_WORDS or all(len(word) == 1 for word in said)


def _place(title: Sequence[str], said: Sequence[str]) -> int | None:
    length = len(title)
    return next((at for at in range(len(said) - length + 1) if tuple(said[at : at + length]) == tuple(title)), None)


def _without(text: str, hits: Sequence[Finding]) -> str:
    """The sentences that no hit touches."""
    kept = [
        match.group()
        for match in sentence_places(text)
        if not any(hit.start < match.end() and hit.end > match.start() for hit in hits)
    ]
    return "".join(kept).strip()


def _plain_words(text: str) -> list[Word]:
    return words_of(fold(text))
