"""One form for what looks or reads the same: case, accents, widths, look-alike letters, invisible characters."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_LOOK_ALIKES = dict(
    zip(
        "абвгдеезіјклмнорѕтухԁһԛԝԍցոսզаαβγδεηικνορτυχωıɑɡǀ∣ⅰ",
        "abvrdee3ljklmhopstuxdhqwgqnuqaaßydenlkvoptuxwlaglll",
        strict=False,
    )
)
_LOOK_ALIKES.update({"а": "a", "в": "b", "с": "c", "у": "y", "β": "b", "δ": "d", "ß": "b", "α": "a"})

_SKELETON = str.maketrans({"0": "o", "1": "l", "3": "e", "4": "a", "5": "s", "7": "t", "i": "l", "$": "s", "@": "a"})

_IDEOGRAPHS = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in its one form; `origin[i]` is the place in the text that its character `i` comes from."""

    text: str
    origin: tuple[int, ...]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The place in the text of characters `start` to `end`; not empty."""
        return self.origin[start], self.origin[end - 1] + 1


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it compares, or one character where words are written without spaces; its place in the text."""

    text: str
    start: int
    end: int


@lru_cache(maxsize=8192)
def _fold_one(character: str) -> str:
    """No mark, no width, no case; a digit of any script as 0 to 9; nothing for what can't be seen."""
    out = []
    for part in unicodedata.normalize("NFKD", character).casefold():
        category = unicodedata.category(part)
        if category in ("Mn", "Me", "Cf"):
            continue
        digit = unicodedata.digit(part, None) if category == "Nd" else None
        out.append(str(digit) if digit is not None else _LOOK_ALIKES.get(part, part))
    return "".join(out)


def fold(text: str) -> Folded:
    """The text in its one form."""
    pieces, origin = [], []
    for at, character in enumerate(text):
        folded = _fold_one(character)
        pieces.append(folded)
        origin += [at] * len(folded)
    return Folded("".join(pieces), tuple(origin))


def words_of(folded: Folded) -> list[Word]:
    """The words in order; letters that digits stand for are letters again (`l3ase`)."""
    found = []
    for match in _WORD.finditer(folded.text):
        word = match.group()
        skeleton = word if word.isdecimal() else word.translate(_SKELETON)
        found.append(Word(skeleton, *folded.place(match.start(), match.end())))
    return found


def is_ideograph(character: str) -> bool:
    """Whether it is a word by itself."""
    return _IDEOGRAPH.match(character) is not None


def stream_of(words: list[Word]) -> Folded:
    """All letters and digits without what stands between them, as `f o r   e x a m p l e` or `forexample` reads."""
    text = "".join(word.text for word in words)
    origin: list[int] = []
    for word in words:
        # A word that folding made longer or shorter is one place.
        exact = word.end - word.start == len(word.text)
        origin += range(word.start, word.end) if exact else [word.start] * len(word.text)
    return Folded(text, tuple(origin))
