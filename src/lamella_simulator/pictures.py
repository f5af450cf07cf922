"""Pictures in a request: how large they are, by their first bytes, and what each vendor bills for that size."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from math import ceil, floor, sqrt

FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG segments that give the size."""
ALONE = frozenset({0x01, *range(0xD0, 0xDA)})
"""JPEG markers without a length."""


@dataclass(frozen=True, slots=True)
class Picture:
    """`kind` is the media type that its bytes show, whatever the request calls it; sizes in pixels."""

    kind: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class PictureRule:
    """What a model is billed for a picture: squares of `patch` pixels, times `factor`.

    Larger ones are scaled down to `edge` pixels and `most` squares. `whole`: the squares are made to fit exactly
    (OpenAI); else the largest size is taken that they cover (Anthropic).
    """

    patch: int
    edge: int
    most: int
    factor: float = 1.0
    whole: bool = False

    def tokens(self, picture: Picture) -> int:
        return billed(self, picture.width, picture.height)


@cache
def billed(rule: PictureRule, width: int, height: int) -> int:
    """Tokens of a picture of this size."""
    scale = min(1.0, rule.edge / max(width, height))
    width, height = max(1, round(width * scale)), max(1, round(height * scale))
    if squares(rule, width, height) > rule.most:
        width, height = shrunk(rule, width, height) if rule.whole else largest(rule, width, height)
    return ceil(squares(rule, width, height) * rule.factor)


def squares(rule: PictureRule, width: int, height: int) -> int:
    return ceil(width / rule.patch) * ceil(height / rule.patch)


def shrunk(rule: PictureRule, width: int, height: int) -> tuple[int, int]:
    """OpenAI: by the root of the excess, then down to where one edge is a whole number of squares."""
    ratio = sqrt(rule.most * rule.patch**2 / (width * height))
    across, down = width * ratio / rule.patch, height * ratio / rule.patch
    ratio *= min(max(1, floor(across)) / across, max(1, floor(down)) / down)
    return max(1, floor(width * ratio + 1e-6)), max(1, floor(height * ratio + 1e-6))


def largest(rule: PictureRule, width: int, height: int) -> tuple[int, int]:
    """Anthropic: pixel by pixel along the longer edge, until the squares suffice."""
    longer = max(width, height)
    for edge in range(longer, 0, -1):
        size = (max(1, round(width * edge / longer)), max(1, round(height * edge / longer)))
        if squares(rule, *size) <= rule.most:
            return size
    return 1, 1


class Pictures:
    """What the pictures of earlier requests were: a conversation sends the same ones every time."""

    def __init__(self, capacity: int = 10_000) -> None:
        self._known: OrderedDict[bytes, Picture | None] = OrderedDict()
        self._capacity = capacity

    def of(self, encoded: str) -> Picture | None:
        """The picture in base64; None for what is neither base64 nor a picture."""
        key = blake2b(encoded.encode("utf-8", "replace"), digest_size=16).digest()
        if key not in self._known:
            self._known[key] = decoded(encoded)
            if len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return self._known[key]


def decoded(encoded: str) -> Picture | None:
    try:
        return read(b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return None


def read(data: bytes) -> Picture | None:
    """Kind and size by the header. None if it is not one of the four kinds that both vendors take."""
    found: Picture | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        found = Picture("image/png", int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))
    elif data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        found = Picture("image/gif", int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    elif data.startswith(b"\xff\xd8\xff"):
        found = read_jpeg(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        found = read_webp(data)
    return found if found is not None and found.width and found.height else None


def read_jpeg(data: bytes) -> Picture | None:
    """From segment to segment until one gives the size."""
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker in FRAMES:
            height, width = int.from_bytes(data[place + 5 : place + 7]), int.from_bytes(data[place + 7 : place + 9])
            return Picture("image/jpeg", width, height)
        place += 1 if marker == 0xFF else 2 if marker in ALONE else 2 + int.from_bytes(data[place + 2 : place + 4])
    return None


def read_webp(data: bytes) -> Picture | None:
    """Its three forms: extended, lossless, lossy."""
    match data[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L" if data[20] == 0x2F:
            bits = int.from_bytes(data[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width = int.from_bytes(data[26:28], "little") & 0x3FFF
            height = int.from_bytes(data[28:30], "little") & 0x3FFF
        case _:
            return None
    return Picture("image/webp", width, height)
