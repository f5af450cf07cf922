"""Keeps texts that a model was shown, and nobody is to read, out of what it says while it says it.

An answer is read as several rows of letters at once, and a run of such a text is left out whichever row has it:

    as written      c l a u s e s, CLAUSES, сlauses, c.l.a.u.s.e.s, and the same reversed or in rot13
    base64          Y2xhdXNlcw==, from any of its four places
    hex             63 6c 61, \\x63\\x6c, \\u0063, %63%6c

Pieces in, pieces out: of each row the letters wait that may still become a run, and all else is let through at once.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from lamella.guard.letters import FUNCTION_WORDS, fold, is_ideograph, letters_of, words_of

RUN = 6
"""Words in a row of such a text that are left out; of a shorter text, all of it."""

SHORTEST = 4
"""Words of a text that is kept back at all: fewer are names of things."""

CONTENT = 3
"""Words in a run that carry a content."""

LEFT_OUT = "[left out]"

LONGEST_GAP = 200
"""Characters between two letters of a run: after more, the second begins a new one."""


class KeptBack:
    """The runs of texts that are kept back. What the reader `said` may be said again."""

    def __init__(self, texts: Iterable[str], said: Iterable[str] = ()) -> None:
        spoken = {keys for text in said for keys, _ in _runs(text)}
        found = {keys: words for text in texts for keys, words in _runs(text) if _tells(keys) and keys not in spoken}
        self.runs = frozenset(found)
        self.rows = Automaton({row for words in found.values() for row in _rows(words)})


def _runs(text: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The runs of a text: their words as they compare, and as they are written."""
    words = words_of(fold(text))
    length = min(RUN, len(words))
    if length >= SHORTEST:
        for at in range(len(words) - length + 1):
            run = words[at : at + length]
            yield tuple(word.text for word in run), tuple(text[word.start : word.end] for word in run)


def _tells(run: Sequence[str]) -> bool:
    return len({word for word in run if word not in FUNCTION_WORDS}) >= CONTENT


def _rows(words: Sequence[str]) -> Iterator[str]:
    """The letters of a run, in each way that it may be written with letters."""
    for written in (words, [codecs.encode(word, "rot13") for word in words]):
        yield _letters("".join(written))
        yield _letters("".join(written)[::-1])
        yield _letters("".join(word[::-1] for word in written))


def _letters(text: str) -> str:
    return "".join(map(letters_of, text))


class Automaton:
    """Finds words in letters that come one by one (Aho and Corasick, 1975)."""

    def __init__(self, words: Iterable[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._fail = [0]
        self.depth = [0]
        """Letters of a state: so many may still become a word."""
        self.found = [0]
        """Letters of the longest word that a state ends; 0 if it ends none."""
        for word in words:
            self._add(word)
        self._link()

    def _add(self, word: str) -> None:
        state = 0
        for letter in word:
            if letter not in self._next[state]:
                self._next[state][letter] = len(self._next)
                self._next.append({})
                self._fail.append(0)
                self.depth.append(self.depth[state] + 1)
                self.found.append(0)
            state = self._next[state][letter]
        self.found[state] = len(word)

    def _link(self) -> None:
        waiting = deque(self._next[0].values())
        while waiting:
            state = waiting.popleft()
            self.found[state] = self.found[state] or self.found[self._fail[state]]
            for letter, following in self._next[state].items():
                self._fail[following] = self.step(self._fail[state], letter)
                waiting.append(following)

    def step(self, state: int, letter: str) -> int:
        """The state after one more letter."""
        while state and letter not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(letter, 0)


class _Row:
    """A text read as one row of letters. `marked` is called with the place of each run that is found."""

    def __init__(self, words: Automaton) -> None:
        self._words = words
        self._state = 0
        self._gap = 0
        self.places: deque[int] = deque()
        """Where the letters begin that may still become a run."""

    def read(self, character: str, start: int, end: int) -> tuple[int, int] | None:
        """One more character, which stands at `start` to `end`; gives the place of a run that ends there."""
        letters = letters_of(character)
        if not letters:
            self._gap += 1
            if self._gap > LONGEST_GAP:
                self.forget()
            return None
        self._gap = 0
        found = None
        for letter in letters:
            self._state = self._words.step(self._state, letter)
            self.places.append(start)
            while len(self.places) > self._words.depth[self._state]:
                self.places.popleft()
            if length := self._words.found[self._state]:
                found = self.places[-length], end
        return found

    def forget(self) -> None:
        """What was read becomes no run any more."""
        self._state = self._gap = 0
        self.places.clear()


class _Coded:
    """A text read as the characters that it encodes: `width` bits each of its characters in `alphabet`.

    The first `skipped` characters are left out: where the code begins is not known. `between` may stand anywhere.
    """

    def __init__(self, words: Automaton, alphabet: dict[str, int], width: int, skipped: int, between: str) -> None:
        self._row = _Row(words)
        self._alphabet = alphabet
        self._width = width
        self._skipped = self._left = skipped
        self._between = frozenset(between)
        self._bits = self._count = 0
        self._start = 0
        self._bytes = bytearray()
        self._began = 0

    @property
    def places(self) -> deque[int]:
        """As those of a row."""
        return self._row.places

    def read(self, character: str, start: int, end: int) -> tuple[int, int] | None:
        """As that of a row."""
        value = self._alphabet.get(character)
        if value is None:
            if character not in self._between:
                self._forget()
            elif character in "xXuU":
                self._bits = self._count = 0
            return None
        if self._left:
            self._left -= 1
            return None
        self._start = self._start if self._count else start
        self._bits = (self._bits << self._width | value) & 0xFFF
        self._count += self._width
        if self._count < 8:
            return None
        self._count -= 8
        began, self._start = self._start, start
        return self._byte(self._bits >> self._count & 0xFF, began, end)

    def _byte(self, byte: int, start: int, end: int) -> tuple[int, int] | None:
        """One more byte of UTF-8; what is no text begins anew."""
        if not self._bytes:
            self._began = start
        self._bytes.append(byte)
        first = self._bytes[0]
        if len(self._bytes) < (1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4):
            return None
        told = self._bytes.decode("utf-8", "replace")
        self._bytes.clear()
        if len(told) > 1 or told == "\ufffd" or (told < " " and told not in "\0\t\n\r"):
            self._row.forget()
            return None
        return self._row.read(told, self._began, end)

    def _forget(self) -> None:
        self._row.forget()
        self._left = self._skipped
        self._bits = self._count = 0
        self._bytes.clear()


_BASE64 = {
    letter: at for at, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
} | {"-": 62, "_": 63}
_HEX = {letter: int(letter, 16) for letter in "0123456789abcdefABCDEF"}
_BETWEEN_HEX = " \t\r\n,;:\"'.%\\-{}&#xXuU()[]"


class Sieve:
    """One text that passes, in pieces of any size: the same comes out, however it was cut."""

    def __init__(self, kept: KeptBack) -> None:
        words = kept.rows
        self._rows: list[_Row | _Coded] = (
            []
            if not kept.runs
            else [
                _Row(words),
                *(_Coded(words, _BASE64, 6, skipped, " \t\r\n\"'=") for skipped in range(4)),
                *(_Coded(words, _HEX, 4, skipped, _BETWEEN_HEX) for skipped in range(2)),
            ]
        )
        self._invisible = Invisible()
        self._waiting: deque[str] = deque()
        self._marks: deque[bool] = deque()
        self._first = 0
        self._leaving = False
        self.left_out = 0
        """Runs that were left out, overlapping ones as one."""

    def feed(self, text: str) -> str:
        """What may be shown by now."""
        if not self._rows:
            return text
        return "".join(self._shown(character) for written in text for character in self._invisible.kept(written))

    def _shown(self, character: str) -> str:
        at = self._first + len(self._waiting)
        self._waiting.append(character)
        self._marks.append(False)
        first = at + 1
        for row in self._rows:
            if found := row.read(character, at, at + 1):
                for place in range(found[0] - self._first, found[1] - self._first):
                    self._marks[place] = True
            if row.places and row.places[0] < first:
                first = row.places[0]
        return "".join(self._released(first - self._first))

    def end(self) -> str:
        """The rest."""
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
