"""Where a text may be cut without tearing what a reader sees as one character (Unicode Annex 29, by the tables of
Python's `unicodedata`). Pure.
"""

from __future__ import annotations

import unicodedata

LONGEST = 64
"""Characters that are looked back over: what is longer is no character that anybody reads, and is cut anyway."""

_JOINER = "\u200d"
_PREPENDED = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_VIRAMA = 9
"""The combining class of the signs that join two consonants."""


def is_boundary(text: str, at: int) -> bool:
    """Whether a text can be cut before its character `at`."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    if _is_control(before) or _is_control(after):
        return True
    return not (
        _extends(after)
        or before in _PREPENDED
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or _joins(text, at)
        or _is_flag(text, at)
        or _is_syllable(before, after)
    )


def last_boundary(text: str, at: int, least: int) -> int:
    """The last place at or before `at`, and behind `least`, where a text can be cut."""
    for place in range(at, max(at - LONGEST, least), -1):
        if is_boundary(text, place):
            return place
    torn = at < len(text) and "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff"
    return at - 1 if torn and at - 1 > least else at


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Zl", "Zp")


def _extends(character: str) -> bool:
    """Marks, joiners, variation selectors, skin tones and tags: what belongs to the character before it."""
    return (
        unicodedata.category(character) in ("Mn", "Me", "Mc")
        or character in ("\u200c", _JOINER)
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _joins(text: str, at: int) -> bool:
    """Pictures that a joiner joins, and consonants that a virama does."""
    before, after = text[at - 1], unicodedata.category(text[at])
    if before == _JOINER and after == "So":
        return True
    sign = text[at - 2] if before == _JOINER and at > 1 else before
    return after == "Lo" and unicodedata.combining(sign) == _VIRAMA


def _is_flag(text: str, at: int) -> bool:
    """Whether the place lies between the two letters of a flag: an odd number of such letters stands before it."""
    if not _is_flag_letter(text[at]):
        return False
    count = 0
    while count < min(at, LONGEST) and _is_flag_letter(text[at - 1 - count]):
        count += 1
    return count % 2 == 1


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_syllable(before: str, after: str) -> bool:
    """Whether two characters are parts of one Hangul syllable."""
    first, second = _hangul(before), _hangul(after)
    return (
        (first == "L" and second in ("L", "V", "LV", "LVT"))
        or (first in ("LV", "V") and second in ("V", "T"))
        or (first in ("LVT", "T") and second == "T")
    )


def _hangul(character: str) -> str:
    if "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c":
        return "L"
    if "\u1160" <= character <= "\u11a7" or "\ud7b0" <= character <= "\ud7c6":
        return "V"
    if "\u11a8" <= character <= "\u11ff" or "\ud7cb" <= character <= "\ud7fb":
        return "T"
    if "\uac00" <= character <= "\ud7a3":
        return "LV" if (ord(character) - 0xAC00) % 28 == 0 else "LVT"
    return ""
