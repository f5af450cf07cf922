"""Names that belong to one thing: codes, part and account numbers, addresses of mail and web, file names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lamella.guard.letters import Folded

_CODE = re.compile(r"[^\W_]+(?:[-_./:#@+][^\W_]+)*")
_LONG_NUMBER = re.compile(r"\+?\d(?:[ \-./()]{0,2}\d){5,}")
_ADDRESS = re.compile(
    r"(?<![\w.+-])[^\W_][\w.+-]{0,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|\b(?:https?://|www\.)[^\s<>\")]+"
)
_FILE = re.compile(r"(?<![\w.-])[^\W_][\w.-]{0,200}\.(?:pdf|docx?|xlsx?|pptx?|csv|txt|md|html?|json|zip|png|jpe?g)\b")
_MEASURE = re.compile(r"\d+(?:[.,]\d+)?(?:st|nd|rd|th|s|k|m|bn|kg|g|km|cm|mm|gb|mb|kb|tb|ms|min|h|eur|usd|mio|mrd)")

SHORTEST = 4
"""Letters and digits that an identifier has at least."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """Its letters and digits alone, and its place."""

    text: str
    start: int
    end: int


def identifiers(folded: Folded) -> Iterator[Identifier]:
    """The identifiers of a text."""
    for form in (_ADDRESS, _FILE, _LONG_NUMBER):
        for match in form.finditer(folded.text):
            yield Identifier(_bare(match.group()), *folded.place(match.start(), match.end()))
    for match in _CODE.finditer(folded.text):
        bare = _bare(match.group())
        mixed = any(c.isdecimal() for c in bare) and any(not c.isdecimal() for c in bare)
        if mixed and len(bare) >= SHORTEST and not _is_measure(match.group()):
            yield Identifier(bare, *folded.place(match.start(), match.end()))


def _bare(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def _is_measure(text: str) -> bool:
    """`12kg` and `1990s` are figures, `3rd` is a place."""
    return _MEASURE.fullmatch(text) is not None
