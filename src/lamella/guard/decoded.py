"""Finds rows of letters in a text as it comes, whichever code the text writes them in.

Readers stand one after the other. The first ones read the characters of a text. Those that decode hand what they
decoded to readers of their own, so that a code in a code is read too:

    text ──▶ Letters
         ──▶ Blocks (base64) ──▶ Letters
                             ──▶ Blocks (hex) ──▶ Letters      from `LONG_ENOUGH` decoded characters on

A reader says where the characters begin that it waits for: so much of a text is held back, and no more.
"""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

from lamella.guard.letters import fold, letters_of

LONGEST_GAP = 200
"""Characters between two letters of a row: after more, the second begins a new one."""

LONG_ENOUGH = 12
"""Decoded characters in a row from which they may be a code themselves: fewer are decoded from ordinary text."""

FEWEST_TOLD = 3
"""Decoded characters from which a text waits: fewer are decoded from any text."""

DEEPEST = 2
"""Codes in one another."""

Place = tuple[int, int]
"""First character of a text, and one after the last."""


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
        following = self._next[state].get(letter)
        while following is None and state:
            state = self._fail[state]
            following = self._next[state].get(letter)
        return following or 0


class SearchedTexts:
    """What is searched for: `letters` as they compare, and `steps` from one Latin letter to the next.

    Steps are the same for each alphabet that was moved on by some letters: `bc` and `op` are one step apart.
    """

    def __init__(self, rows: Collection[str], latin: Iterable[str]) -> None:
        self.letters = Automaton(rows)
        self.is_ascii = all(map(str.isascii, rows))
        """Whether no letter has several bytes in UTF-8."""
        steps = {steps_of(row) for row in latin if len(row) >= SHORTEST_STEPS}
        # Written from z to a, each step goes the other way.
        self.steps = Automaton(steps | {"".join(chr(-ord(step) % 26) for step in one) for one in steps})


SHORTEST_STEPS = 12
"""Latin letters of a row whose steps are searched for: fewer are found by chance."""


def steps_of(letters: str) -> str:
    """From each Latin letter to the next, in letters of the alphabet, as characters 0 to 25."""
    return "".join(chr((ord(after) - ord(before)) % 26) for before, after in pairwise(letters))


@lru_cache(maxsize=8192)
def latin_of(character: str) -> str:
    """Its letters from a to z; none for other scripts, digits and signs."""
    return "".join(letter for letter in fold(character).text if "a" <= letter <= "z")


class LetterReader(Protocol):
    """Reads a text character by character."""

    def read(self, character: str, start: int, end: int) -> Place | None:
        """One more character, at `start` to `end` of the text; gives the place of a row that ends there."""

    def waits_from(self) -> int | None:
        """Where the characters begin that may still become a row; None if nothing waits."""

    def forget(self) -> None:
        """What was read becomes no row any more."""


class Letters:
    """The letters of a text as they compare, without what stands between them."""

    def __init__(self, words: Automaton) -> None:
        self._words = words
        self._state = self._gap = 0
        self._places: deque[int] = deque()

    def waits_from(self) -> int | None:
        """As the protocol says."""
        return self._places[0] if self._places else None

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says."""
        letters = letters_of(character)
        if not letters:
            self._gap += 1
            if self._gap > LONGEST_GAP:
                self.forget()
            return None
        self._gap = 0
        found = None
        words, places = self._words, self._places
        for letter in letters:
            self._state = words.step(self._state, letter)
            places.append(start)
            while len(places) > words.depth[self._state]:
                places.popleft()
            if length := words.found[self._state]:
                found = places[-length], end
        return found

    def forget(self) -> None:
        """As the protocol says."""
        if self._state:
            self._state = 0
            self._places.clear()
        self._gap = 0


class Shifted:
    """The Latin letters of a text by the steps between them: every alphabet that was moved on, or turned round."""

    def __init__(self, words: Automaton) -> None:
        self._words = words
        self._state = self._gap = 0
        self._before = 0
        self._at = -1
        self._places: deque[int] = deque()

    def waits_from(self) -> int | None:
        """As the protocol says; a step or two are found in any text."""
        return self._places[0] if len(self._places) > 2 else None

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says."""
        latin = latin_of(character)
        if not latin:
            self._gap += 1
            if self._gap > LONGEST_GAP:
                self.forget()
            return None
        self._gap = 0
        found = None
        for letter in latin:
            code, before = ord(letter), self._at
            step, self._before, self._at = (code - self._before) % 26, code, start
            if before < 0:
                continue
            self._state = self._words.step(self._state, chr(step))
            self._places.append(before)
            while len(self._places) > self._words.depth[self._state]:
                self._places.popleft()
            if length := self._words.found[self._state]:
                found = self._places[-length], end
        return found

    def forget(self) -> None:
        """As the protocol says."""
        self._state = self._gap = 0
        self._at = -1
        self._places.clear()


class Many:
    """Several readers of one text."""

    def __init__(self, readers: Iterable[LetterReader]) -> None:
        self._readers = tuple(readers)

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says; of two rows the one that begins first."""
        found = None
        for reader in self._readers:
            if (place := reader.read(character, start, end)) and (found is None or place < found):
                found = place
        return found

    def waits_from(self) -> int | None:
        """As the protocol says."""
        first = None
        for reader in self._readers:
            waits = reader.waits_from()
            if waits is not None and (first is None or waits < first):
                first = waits
        return first

    def forget(self) -> None:
        """As the protocol says."""
        for reader in self._readers:
            reader.forget()


class DecodedText:
    """What a code says: letters, and from `LONG_ENOUGH` characters on a code again."""

    def __init__(self, searched: SearchedTexts, depth: int) -> None:
        self._searched = searched
        self._depth = depth
        self._letters = Many([Letters(searched.letters), Shifted(searched.steps)])
        self._codes: Many | None = None
        self._begun: list[tuple[str, int, int]] = []
        self.count = 0
        """Characters since it began anew."""

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says."""
        self.count += 1
        found = self._letters.read(character, start, end)
        if self._codes is not None:
            return self._codes.read(character, start, end) or found
        if self._depth < DEEPEST:
            self._begun.append((character, start, end))
            if len(self._begun) == LONG_ENOUGH:
                self._codes = Many(codes(self._searched, self._depth + 1))
                for one in self._begun:
                    self._codes.read(*one)
        return found

    def waits_from(self) -> int | None:
        """As the protocol says."""
        if self.count < FEWEST_TOLD:
            return None
        waits = self._letters.waits_from()
        deeper = self._codes.waits_from() if self._codes is not None else None
        return min((one for one in (waits, deeper) if one is not None), default=None)

    def forget(self) -> None:
        """As the protocol says."""
        if self.count:
            self._letters.forget()
            self._codes = None
            self._begun.clear()
            self.count = 0


_TEXT = frozenset(range(32, 127)) | frozenset(b"\0\t\n\r")


class EncodedBlocks:
    """Characters that write bits, `width` each, in blocks of whole bytes: base64, base32, hex and ones and zeros.

    Where the first block begins is not known, so blocks are read from each of their places. `between` may stand
    anywhere. `backwards`: the characters are those of a code that was turned round.
    """

    def __init__(
        self,
        searched: SearchedTexts,
        depth: int,
        alphabet: Mapping[str, int],
        width: int,
        size: int,
        between: str,
        *,
        backwards: bool = False,
        restart: str = "",
    ) -> None:
        self._alphabet = alphabet
        self._width = width
        self._size = size
        self._bytes = size * width // 8
        self._full = (1 << size * width) - 1
        self._between = frozenset(between)
        self._restart = frozenset(restart)
        self._backwards = backwards
        self._told = [DecodedText(searched, depth) for _ in range(size)]
        self._is_ascii = searched.is_ascii or backwards
        self._rest = [b""] * size
        self._bits = self._count = 0
        self._is_telling = False
        self._starts: deque[int] = deque(maxlen=size)
        self._ends: deque[int] = deque(maxlen=size)

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says."""
        value = self._alphabet.get(character)
        if value is None:
            return self._end(character)
        self._starts.append(start)
        self._ends.append(end)
        if self._backwards:
            self._bits = self._bits >> self._width | value << self._width * (self._size - 1)
        else:
            self._bits = (self._bits << self._width | value) & self._full
        self._count += 1
        if self._count < self._size:
            return None
        return self._block(self._count % self._size, self._bits.to_bytes(self._bytes, "big"), self._size)

    def _end(self, character: str) -> Place | None:
        """What stands between characters of the code, or after its last one, which may have ended within a block."""
        if not self._count or (character in self._between and character not in self._restart):
            return None
        found = None
        if not self._backwards:
            for length in range(1, min(self._count + 1, self._size)):
                whole = length * self._width // 8
                bits = (self._bits & ((1 << length * self._width) - 1)) >> length * self._width - whole * 8
                phase = (self._count - length) % self._size
                if whole and self._told[phase].count:
                    found = self._block(phase, bits.to_bytes(whole, "big"), length) or found
        self._count = 0
        self._starts.clear()
        self._ends.clear()
        if character not in self._restart:
            self.forget()
        return found

    def _block(self, phase: int, block: bytes, length: int) -> Place | None:
        """The bytes of the last `length` characters, up to the first that is no text."""
        told, rest = self._told[phase], self._rest[phase]
        if rest or not (self._is_ascii or block.isascii()):
            return self._letters(phase, rest + block, length)
        found = None
        for at, byte in enumerate(block[::-1] if self._backwards else block):
            if byte not in _TEXT:
                told.forget()
                return found
            first, last = at * 8 // self._width - length, -(-(at + 1) * 8 // self._width) - 1 - length
            found = told.read(chr(byte), self._starts[first], self._ends[last]) or found
        self._is_telling = self._is_telling or told.count >= FEWEST_TOLD
        return found

    def _letters(self, phase: int, block: bytes, length: int) -> Place | None:
        """The letters of a block of which some have several bytes."""
        told, self._is_telling = self._told[phase], True
        try:
            said, self._rest[phase] = block.decode(), b""
        except UnicodeDecodeError as cut:
            said, rest = block[: cut.start].decode(), block[cut.start :]
            if "unexpected end" not in cut.reason or len(rest) > LONGEST_LETTER:
                self._rest[phase] = b""
                told.forget()
                return None
            self._rest[phase] = rest
        found = None
        for character in said:
            if character < " " and character not in "\0\t\n\r":
                told.forget()
            else:
                found = told.read(character, self._starts[-length], self._ends[-1]) or found
        return found

    def waits_from(self) -> int | None:
        """As the protocol says."""
        if not self._is_telling:
            return None
        telling = [told for told in self._told if told.count >= FEWEST_TOLD]
        self._is_telling = bool(telling)
        return min((waits for told in telling if (waits := told.waits_from()) is not None), default=None)

    def forget(self) -> None:
        """As the protocol says."""
        self._count = 0
        self._starts.clear()
        self._ends.clear()
        for phase, told in enumerate(self._told):
            told.forget()
            self._rest[phase] = b""


LONGEST_LETTER = 3
"""Bytes of a letter of which the last is not there yet."""


class EncodedNumbers:
    """Numbers that are characters: `65 115 107`, `&#65;&#115;`, `\\101\\163`, or ones and zeros in groups."""

    def __init__(self, told: DecodedText, base: int) -> None:
        self._told = told
        self._base = base
        self._digits = frozenset(string.digits[:base])
        self._number = self._start = self._gap = 0
        self._count = 0

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says. A number has ended when something else stands after it."""
        if character in self._digits:
            self._start = self._start if self._count else start
            self._number = self._number * self._base + int(character)
            self._count += 1
            if self._number > LAST_CHARACTER:
                self.forget()
            return None
        if not self._count:
            self._gap += 1
            if self._gap > MOST_BETWEEN:
                self._told.forget()
            return None
        number, self._number, self._count, self._gap = self._number, 0, 0, 0
        if number < FIRST_CHARACTER or 0xD800 <= number < 0xE000:
            self._told.forget()
            return None
        return self._told.read(chr(number), self._start, start)

    def waits_from(self) -> int | None:
        """As the protocol says; the digits of a number wait for its end."""
        waits = self._told.waits_from()
        began = self._count and self._told.count >= FEWEST_TOLD
        return waits if waits is not None else self._start if began else None

    def forget(self) -> None:
        """As the protocol says."""
        self._number = self._count = self._gap = 0
        self._told.forget()


FIRST_CHARACTER, LAST_CHARACTER = 32, 0x10FFFF

MOST_BETWEEN = 12
"""Characters between two numbers that are one text: `&#65; &#115;` has four."""


class Morse:
    """Letters in long and short signs, with a blank or a bar after each: `.- ... -.-`."""

    def __init__(self, told: DecodedText) -> None:
        self._told = told
        self._signs = ""
        self._start = 0

    def read(self, character: str, start: int, end: int) -> Place | None:
        """As the protocol says. A letter has ended when something else stands after it."""
        sign = _SIGNS.get(character)
        if sign is not None:
            self._start = self._start if self._signs else start
            self._signs += sign
            if len(self._signs) > LONGEST_SIGN:
                self.forget()
            return None
        signs, self._signs = self._signs, ""
        letter = _MORSE.get(signs, "")
        found = self._told.read(letter, self._start, start) if letter else None
        if (signs and not letter) or (not signs and character not in _BETWEEN_MORSE):
            self._told.forget()
        return found

    def waits_from(self) -> int | None:
        """As the protocol says."""
        waits = self._told.waits_from()
        began = self._signs and self._told.count >= FEWEST_TOLD
        return waits if waits is not None else self._start if began else None

    def forget(self) -> None:
        """As the protocol says."""
        self._signs = ""
        self._told.forget()


LONGEST_SIGN = 6
_SIGNS = {"-": "-", "–": "-", "—": "-", "−": "-", "_": "-", ".": ".", "·": ".", "•": ".", "∙": "."}
_BETWEEN_MORSE = frozenset(" \t\r\n/|\\,;")
_CODES = """
.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..
----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----.
"""
_MORSE = dict(zip(_CODES.split(), string.ascii_lowercase + string.digits, strict=True))

_BASE64 = {
    letter: at for at, letter in enumerate(string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/")
} | {"-": 62, "_": 63}
_BASE32 = {letter: at for at, letter in enumerate(string.ascii_uppercase + "234567")} | {
    letter: at for at, letter in enumerate(string.ascii_lowercase)
}
_HEX = {letter: int(letter, 16) for letter in "0123456789abcdefABCDEF"}
_BITS = {"0": 0, "1": 1}
_BLANKS = " \t\r\n\"'"
_BETWEEN_HEX = _BLANKS + "=,;:.%\\-{}&#+()[]"


def codes(searched: SearchedTexts, depth: int = 1) -> Iterator[LetterReader]:
    """Readers of all codes."""

    yield EncodedBlocks(searched, depth, _BASE64, 6, 4, _BLANKS, restart="=")
    yield EncodedBlocks(searched, depth, _BASE64, 6, 4, _BLANKS, restart="=", backwards=True)
    yield EncodedBlocks(searched, depth, _BASE32, 5, 8, _BLANKS, restart="=")
    yield EncodedBlocks(searched, depth, _HEX, 4, 2, _BETWEEN_HEX, restart="xXuU=")
    yield EncodedBlocks(searched, depth, _HEX, 4, 2, _BETWEEN_HEX, backwards=True)
    yield EncodedBlocks(searched, depth, _BITS, 1, 8, _BLANKS + ",;.")
    yield EncodedNumbers(DecodedText(searched, depth), 10)
    yield EncodedNumbers(DecodedText(searched, depth), 8)
    yield EncodedNumbers(DecodedText(searched, depth), 2)
    yield Morse(DecodedText(searched, depth))


def readers(searched: SearchedTexts) -> Sequence[LetterReader]:
    """Readers of a text: of its letters as they are written, and of all codes."""
    return (Letters(searched.letters), Shifted(searched.steps), *codes(searched))
