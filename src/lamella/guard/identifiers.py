"""Names that belong to one thing (codes, account numbers, addresses, file names), and dates, in forms that compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from lamella.guard.letters import Folded, fold

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


_MONTHS = """
january jan januar janvier enero
february feb februar fevrier febrero
march mar marz mars marzo
april apr avril abril
may mai mayo
june jun juni juin junio
july jul juli juillet julio
august aug aout agosto
september sep sept septembre septiembre
october oct oktober okt octobre octubre
november nov novembre noviembre
december dec dezember dez decembre diciembre
"""
_MONTH_OF = {
    fold(name).text: number for number, line in enumerate(_MONTHS.strip().splitlines(), 1) for name in line.split()
}
_NAME = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:19|20)\d\d"
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "erstes": 1, "zweites": 2, "drittes": 3, "viertes": 4}

_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?<!\d)(?P<y>{_YEAR})[-/.](?P<m>0?[1-9]|1[0-2])[-/.](?P<d>{_DAY})(?!\d)",
        rf"(?<!\d)(?P<a>{_DAY})[-/.] ?(?P<b>{_DAY})[-/.] ?(?P<y>{_YEAR}|\d\d)(?!\d)",
        rf"(?<!\d)(?P<y>{_YEAR})\s*年\s*(?:(?P<m>1[0-2]|0?[1-9])\s*月\s*)?(?:(?P<d>{_DAY})\s*日)?",
        rf"\b(?P<n>{_NAME})\b\.?\s+(?P<d>{_DAY})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y>{_YEAR}))?",
        rf"(?<!\d)(?P<d>{_DAY})(?:st|nd|rd|th|er)?\.?\s+(?:of\s+|de\s+)?(?P<n>{_NAME})\b\.?(?:,?\s+(?:de\s+)?(?P<y>{_YEAR}))?",
        rf"\b(?P<n>{_NAME})\b\.?,?\s+(?:of\s+|de\s+)?(?P<y>{_YEAR})(?!\d)",
        rf"\bq(?P<q>[1-4])\s*[/ -]?\s*(?P<y>{_YEAR})(?!\d)",
        rf"\b(?P<w>{'|'.join(_QUARTERS)})\s+(?:quarter|quartal)(?:\s+(?:of|in|von))?(?:\s+(?P<y>{_YEAR}))?",
        rf"(?<![\d.,])(?P<y>{_YEAR})(?![\d.,]*\d)",
    )
)


Reading = tuple[int | None, int | None, int | None, int | None]
"""Year, month, day and quarter."""


@dataclass(frozen=True, slots=True)
class Date:
    """What is said of a moment; None for what is not. A date in digits may have two readings."""

    readings: frozenset[Reading]
    start: int
    end: int


class KnownDates:
    """The dates of a source, to be asked whether they tell what a date says."""

    def __init__(self, known: Iterable[Date]) -> None:
        self._told = {
            tuple(part if keep else None for part, keep in zip(reading, kept, strict=True))
            for date in known
            for reading in date.readings
            for kept in product((True, False), repeat=len(reading))
        }

    def tell(self, said: Date) -> bool:
        """Whether a known date says all that is said, and perhaps more."""
        return any(reading in self._told for reading in said.readings)


def dates(folded: Folded) -> Iterator[Date]:
    """The dates of a text; a place is read in one form only, the fullest first."""
    taken = [False] * len(folded.text)
    for form in _FORMS:
        for match in form.finditer(folded.text):
            if any(taken[match.start() : match.end()]):
                continue
            taken[match.start() : match.end()] = [True] * (match.end() - match.start())
            yield Date(_readings(match), *folded.place(match.start(), match.end()))


def _readings(match: re.Match[str]) -> frozenset[Reading]:
    parts = match.groupdict()
    year = _number(parts.get("y"))
    if year is not None and year < 100:
        year += 2000
    if parts.get("a"):
        one, two = int(parts["a"]), int(parts["b"])
        return frozenset((year, m, d, (m + 2) // 3) for d, m in ((one, two), (two, one)) if m <= 12)
    month = _MONTH_OF[parts["n"]] if parts.get("n") else _number(parts.get("m"))
    quarter = _number(parts.get("q")) or _QUARTERS.get(parts.get("w") or "")
    if quarter is None and month is not None:
        quarter = (month + 2) // 3
    return frozenset({(year, month, _number(parts.get("d")), quarter)})


def _number(text: str | None) -> int | None:
    return int(text) if text else None
