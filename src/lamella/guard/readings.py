"""Other ways to read a text: base64, base32, hexadecimal, escapes, letters shifted by thirteen.

Also what two sequences share: maximal runs of equal items, in time that grows with the sequences.
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
from urllib.parse import unquote

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
