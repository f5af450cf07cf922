"""Keeps texts that a model was shown, and nobody is to read, out of what it says while it says it.

An answer is read as several rows of letters at once, and a run of such a text is left out whichever row has it:

    as written      c l a u s e s, CLAUSES, сlauses, c.l.a.u.s.e.s, in any Latin alphabet that was moved on (rot13)
    in another order    reversed letters, words or letters of words; every second letter, then the others
    in a code       base64, base32, hex, ones and zeros, numbers of characters, Morse; a code in a code (`decoded`)

Pieces in, pieces out: of each row the letters wait that may still become a run, and all else is let through at once.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lamella.guard.decoded import Place, SearchedTexts, latin_of, readers
from lamella.guard.letters import FUNCTION_WORDS, fold, is_ideograph, letters_of, words_of

RUN = 6
"""Words in a row of such a text that are left out; of a shorter text, all of it."""

SHORTEST = 4
"""Words of a text that is kept back at all: fewer are names of things."""

CONTENT = 3
"""Words in a run that carry a content."""

LEFT_OUT = "[left out]"


class KeptBack:
    """The runs of texts that are kept back. What the reader `said` may be said again."""

    def __init__(self, texts: Iterable[str], said: Iterable[str] = ()) -> None:
        spoken = {run.keys for text in said for run in _runs(text)}
        found = {run.keys: run for text in texts for run in _runs(text) if _tells(run.keys) and run.keys not in spoken}
        self.runs = frozenset(found)
        orders = [order for run in found.values() for order in _orders(run)]
        self.searched = SearchedTexts(
            {_letters(order) for order in orders}, {"".join(map(latin_of, order)) for order in orders}
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """Words of a text in a row: as they compare, as they are written, and with what stands between them."""

    keys: tuple[str, ...]
    words: tuple[str, ...]
    text: str


def _runs(text: str) -> Iterator[_Run]:
    words = words_of(fold(text))
    length = min(RUN, len(words))
    if length >= SHORTEST:
        for at in range(len(words) - length + 1):
            run = words[at : at + length]
            written = tuple(text[word.start : word.end] for word in run)
            yield _Run(tuple(word.text for word in run), written, text[run[0].start : run[-1].end])


def _tells(run: Sequence[str]) -> bool:
    return len({word for word in run if word not in FUNCTION_WORDS}) >= CONTENT


def _orders(run: _Run) -> Iterator[str]:
    """The words of a run in each order in which its letters may be written."""
    joined = "".join(run.words)
    yield joined
    yield joined[::-1]
    yield "".join(word[::-1] for word in run.words)
    yield "".join(reversed(run.words))
    for half in (run.text[::2], run.text[1::2]):
        if len(half) >= SHORTEST_HALF:
            yield half


SHORTEST_HALF = 12
"""Characters of every second letter of a run (`Akfr` of `Ask for`), at least: fewer are found by chance."""


def _letters(text: str) -> str:
    return "".join(map(letters_of, text))


AFTER_LAST = "\0"
"""A character that is in no code: a code ends before it."""


class Sieve:
    """One text that passes, in pieces of any size: the same comes out, however it was cut."""

    def __init__(self, kept: KeptBack) -> None:
        self._readers = readers(kept.searched) if kept.runs else ()
        self._invisible = Invisible()
        self._waiting: deque[str] = deque()
        self._marks: deque[bool] = deque()
        self._first = 0
        self._leaving = False
        self.left_out = 0
        """Runs that were left out, overlapping ones as one."""

    def feed(self, text: str) -> str:
        """What may be shown by now."""
        if not self._readers:
            return text
        return "".join(self._shown(character) for written in text for character in self._invisible.kept(written))

    def _shown(self, character: str) -> str:
        at = self._first + len(self._waiting)
        self._waiting.append(character)
        self._marks.append(False)
        first = at + 1
        for reader in self._readers:
            self._mark(reader.read(character, at, at + 1))
            waits = reader.waits_from()
            if waits is not None and waits < first:
                first = waits
        return "".join(self._released(max(0, first - self._first)))

    def _mark(self, found: Place | None) -> None:
        if found:
            for place in range(max(0, found[0] - self._first), found[1] - self._first):
                self._marks[place] = True

    def end(self) -> str:
        """The rest."""
        at = self._first + len(self._waiting)
        for reader in self._readers:
            self._mark(reader.read(AFTER_LAST, at, at))
        return "".join(self._released(len(self._waiting)))

    def _released(self, count: int) -> Iterator[str]:
        for _ in range(count):
            character, is_left_out = self._waiting.popleft(), self._marks.popleft()
            self._first += 1
            if not is_left_out:
                yield character
            elif not self._leaving:
                self.left_out += 1
                yield LEFT_OUT
            self._leaving = is_left_out


_BLACK_FLAG, _CANCEL_TAG = "\U0001f3f4", "\U000e007f"
_FLAGS = frozenset(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + _CANCEL_TAG for region in ("gbeng", "gbsct", "gbwls")
)
"""England, Scotland and Wales: what tags are there for."""

MOST_INVISIBLE = 2
"""Invisible characters in a row that pass: two direction marks are usual."""


class Invisible:
    """Takes out of a text the characters in which a whole text can be hidden: tags, and variants in a row."""

    def __init__(self) -> None:
        self._before = ""
        self._count = 0
        self._flag: str | None = None

    def kept(self, character: str) -> str:
        """The character, or nothing, or the tags of a flag with the last of them."""
        if character < "\u00ad":
            self._before, self._count, self._flag = character, 0, None
            return character
        if "\U000e0000" <= character <= _CANCEL_TAG:
            return self._tag(character)
        before, self._before, self._flag = self._before, character, "" if character == _BLACK_FLAG else None
        if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
            self._before = ""  # a second one changes nothing that is shown
            return character if before and (character < "\U000e0100" or is_ideograph(before)) else ""
        self._count = self._count + 1 if unicodedata.category(character) == "Cf" else 0
        return character if self._count <= MOST_INVISIBLE else ""

    def _tag(self, character: str) -> str:
        if self._flag is None:
            return ""
        self._flag += character
        if character != _CANCEL_TAG:
            return ""
        flag, self._flag = self._flag, None
        return flag if flag in _FLAGS else ""
