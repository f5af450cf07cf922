"""Bytes to text, and text to the one form in which every document is stored."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

# Legacy encodings that an HTML or XML head may name. A closed list: Python also knows codecs that unpack or loop.
_DECLARABLE = re.compile(
    r"(iso-8859-\d{1,2}|windows-125\d|koi8-[ru]|shift_jis|euc-jp|euc-kr|gb2312|gbk|gb18030|big5)", re.IGNORECASE
)
_DECLARATION = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_-]{3,20})""", re.IGNORECASE)

# The commonest letters of Russian, Ukrainian and Bulgarian. They are two thirds of real text in windows-1251, and
# a third at most when the bytes are Greek or Western.
_COMMON_CYRILLIC = frozenset("оеаинтсрвл".encode("cp1251"))

_REMOVED = {
    code: None
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF)
    if chr(code) not in "\n\t\f\x85"
} | {0x85: "\n"}
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){4,}")


def has_controls(data: bytes) -> bool:
    """Whether bytes that no text in UTF-8 or a legacy encoding has are among these."""
    return _CONTROLS.search(data.decode("latin-1")) is not None


def decode(data: bytes) -> str | None:
    """The text of `data`, or None if it is not text. Tries UTF-8, UTF-16, the encoding that it declares, windows-1251
    and -1252.
    """
    text = _decode_unicode(data)
    if text is not None:
        return None if _has_controls(text, tolerated=1 + len(text) // 200) else text
    for encoding in _legacy_candidates(data):
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        return None if _has_controls(text, tolerated=0) else text
    return None


def normalise(text: str) -> str:
    """NFC, `\\n` at line ends, no control characters but `\\n`, `\\t`, `\\f`, at most three blank lines in a row."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_REMOVED)
    return _BLANK_LINES.sub("\n\n\n\n", unicodedata.normalize("NFC", text))


def one_line(text: str | None, max_characters: int = 300) -> str | None:
    """A title as one line; None if nothing remains."""
    words = " ".join(normalise((text or "")[: 10 * max_characters]).split())
    return words[:max_characters] or None


def _decode_unicode(data: bytes) -> str | None:
    encoding = _utf_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _utf_encoding(data: bytes) -> str:
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    head = data[:4096]
    # UTF-16 without a mark: Western text has a NUL in nearly every other place and none between.
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if len(data) >= 4 and len(data) % 2 == 0 and even + odd > len(head) // 4:
        if even == 0:
            return "utf-16-le"
        if odd == 0:
            return "utf-16-be"
    return "utf-8-sig"


def _legacy_candidates(data: bytes) -> list[str]:
    declared = _DECLARATION.search(data[:1024])
    if declared and _DECLARABLE.fullmatch(name := declared[1].decode("ascii")):
        return [name]
    head = data[:100_000]
    high = [byte for byte in head if byte >= 0xC0]
    ascii_letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in head)
    if len(high) <= ascii_letters:
        return ["cp1252"]
    # No Western language is mostly accents. Rather refuse a text than store it garbled.
    return ["cp1251"] if 2 * sum(byte in _COMMON_CYRILLIC for byte in high) > len(high) else []


def _has_controls(text: str, tolerated: int) -> bool:
    return next(islice(_CONTROLS.finditer(text), tolerated, None), None) is not None
