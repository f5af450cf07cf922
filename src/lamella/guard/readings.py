"""Other ways to read a text: base64, base32, hexadecimal, escapes, letters shifted by thirteen."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{10,}={0,2}")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[\s:,]?){6,}")
_CODES = re.compile(r"(?:\b\d{2,3}\b[\s,;]+){6,}\d{2,3}\b")
DEEPEST = 3
"""How often what was decoded is decoded again."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What characters `start` to `end` of a text say to whoever decodes them."""

    text: str
    start: int
    end: int


def decoded(text: str, depth: int = DEEPEST) -> Iterator[Reading]:
    """The places of a text that are encoded, each as it reads, and what is encoded within them."""
    if depth == 0:
        return
    for reading in _once(text):
        yield reading
        for inner in decoded(reading.text, depth - 1):
            yield Reading(inner.text, reading.start, reading.end)


def _once(text: str) -> Iterator[Reading]:
    unescaped = html.unescape(unquote(text))
    if unescaped != text:
        yield Reading(unescaped, 0, len(text))
    for match in _BASE64.finditer(text):
        yield from _reading(match, _from_base64(match.group()))
    for match in _BASE32.finditer(text):
        yield from _reading(match, _from_base32(match.group()))
    for match in _HEX.finditer(text):
        yield from _reading(match, _from_hex(match.group()))
    for match in _CODES.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", match.group())]
        if all(32 <= number < 127 for number in numbers):
            yield Reading("".join(map(chr, numbers)), match.start(), match.end())


def _reading(match: re.Match[str], data: bytes | None) -> Iterator[Reading]:
    if data is None:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if text and sum(character.isprintable() or character.isspace() for character in text) == len(text):
        yield Reading(text, match.start(), match.end())


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
