"""Numbers in digits and words, with what is counted: `1.2 million euros`, `zwölf Prozent`, `十二%`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from lamella.guard.letters import FUNCTION_WORDS, Folded, fold

_UNITS = """
0 zero null cero
1 one ein eins une uno una
2 two zwei deux dos
3 three drei trois tres
4 four vier quatre cuatro
5 five funf cinq cinco
6 six sechs seis
7 seven sieben sept siete
8 eight acht huit ocho
9 nine neun neuf nueve
10 ten zehn dix diez
11 eleven elf onze once
12 twelve zwolf douze doce
13 thirteen dreizehn treize trece
14 fourteen vierzehn quatorze catorce
15 fifteen funfzehn quinze quince
16 sixteen sechzehn seize dieciseis
17 seventeen siebzehn diecisiete
18 eighteen achtzehn dieciocho
19 nineteen neunzehn diecinueve
20 twenty zwanzig vingt vingts veinte
30 thirty dreissig trente treinta
40 forty vierzig quarante cuarenta
50 fifty funfzig cinquante cincuenta
60 sixty sechzig soixante sesenta
70 seventy siebzig septante setenta
80 eighty achtzig octante ochenta
90 ninety neunzig nonante noventa
"""
_SCALES = """
100 hundred hundert cent ciento cien hundreds
1000 thousand tausend mille mil tsd k thousands
1000000 million millions millionen millones mio mn m
1000000000 billion billions milliarde milliarden milliard milliards bn mrd
1000000000000 trillion trillions billionen
"""
_JOINING = frozenset({"and", "und", "et", "y"})
_POINT = frozenset({"point", "komma", "virgule", "coma"})
_PERCENT = frozenset({"%", "percent", "percents", "prozent", "pct", "pc", "percentage"})
_CURRENCY = {
    "$": "dollar", "usd": "dollar", "dollar": "dollar", "dollars": "dollar", "us$": "dollar",
    "€": "euro", "eur": "euro", "euro": "euro", "euros": "euro",
    "£": "pound", "gbp": "pound", "pound": "pound", "pounds": "pound",
    "¥": "yen", "yen": "yen", "yuan": "yuan", "rmb": "yuan", "chf": "franc", "francs": "franc",
}  # fmt: skip
_IDEOGRAPHS = {
    "〇": 0,
    "零": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
}
_IDEOGRAPH_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}


def _table(text: str) -> dict[str, int]:
    return {fold(word).text: int(line.split()[0]) for line in text.strip().splitlines() for word in line.split()[1:]}


_UNIT_OF = _table(_UNITS)
_SCALE_OF = _table(_SCALES)

_TOKEN = re.compile(
    r"\d+(?:[.,'\u2019 \u00a0]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,]\d+)?|[$€£¥%‰]"
    r"|[〇零一二两三四五六七八九十百千万亿]+|[^\W\d_]+"
)
_COMPOUND = re.compile(
    rf"({'|'.join(sorted((w for w, v in _UNIT_OF.items() if v < 10), key=len, reverse=True))})und(\w+)"
)

MOST_DIGITS = 6
"""Digits of a known figure that rounding is tried for."""

SMALL = 12
"""Whole numbers up to this tell nothing by themselves: they count what everybody counts."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and what it counts; `values` are the readings that its separators leave open."""

    values: frozenset[Decimal]
    unit: str
    start: int
    end: int

    @property
    def is_telling(self) -> bool:
        """Whether it says something without knowing what is counted."""
        return self.unit in ("%", *_CURRENCY.values()) or any(v > SMALL or v != v.to_integral() for v in self.values)


class KnownFigures:
    """The figures of a source, to be asked whether they tell what a figure says."""

    def __init__(self, known: Iterable[Figure]) -> None:
        self._values: set[Decimal] = set()
        self._counted: set[tuple[str, Decimal]] = set()
        self._rounded: set[tuple[str, Decimal]] = set()
        for figure in known:
            self._values |= figure.values
            for value in figure.values:
                self._counted.add((figure.unit, value))
                self._rounded |= {(figure.unit, rounded) for rounded in _roundings(value)}

    def tell(self, said: Figure) -> bool:
        """Equal, or what is known rounded to what is said; a small whole number only where the same is counted."""
        if said.is_telling:
            return not said.values.isdisjoint(self._values) or any(
                (said.unit, value) in self._rounded for value in said.values
            )
        return bool(said.unit) and any((said.unit, value) in self._counted for value in said.values)


def _roundings(value: Decimal) -> Iterator[Decimal]:
    """What is left of a figure in fewer digits, at least two: rounded, and cut off."""
    for digits in range(2, min(len(value.normalize().as_tuple().digits), MOST_DIGITS + 1)):
        last = Decimal(1).scaleb(value.adjusted() - digits + 1)
        yield from {value.quantize(last, mode).normalize() for mode in (ROUND_HALF_UP, ROUND_DOWN)}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int


def figures(folded: Folded) -> Iterator[Figure]:
    """The figures of a text, in order."""
    tokens = [_Token(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(folded.text)]
    at = 0
    while at < len(tokens):
        values, after = _number(tokens, at)
        if not values:
            at += 1
            continue
        unit, after = _unit(tokens, at, after)
        yield Figure(values, unit, *folded.place(tokens[at].start, tokens[after - 1].end))
        at = after


def _number(tokens: Sequence[_Token], at: int) -> tuple[frozenset[Decimal], int]:
    """The values of the number that begins here and the place behind it; no value where none begins."""
    first = tokens[at].text
    if first[0].isdecimal():
        values, at = _readings(first), at + 1
        while at < len(tokens) and (scale := _SCALE_OF.get(tokens[at].text)) is not None:
            values, at = frozenset(value * scale for value in values), at + 1
        return values, at
    if first[0] in _IDEOGRAPHS or first[0] in _IDEOGRAPH_SCALES:
        return frozenset({_ideographs(first)}), at + 1
    return _spelled(tokens, at)


def _readings(digits: str) -> frozenset[Decimal]:
    """`1.234` is 1234 or 1.234; `1.234,5` and `1 234` are read one way."""
    plain = re.sub(r"[ \u00a0'\u2019]", "", digits)
    marks = [mark for mark in plain if mark in ".,"]
    if not marks:
        return frozenset({Decimal(plain)})
    whole = Decimal(re.sub(r"[.,]", "", plain))
    decimals = Decimal(re.sub(r"[.,]", "", plain[: plain.rfind(marks[-1])]) + "." + plain[plain.rfind(marks[-1]) + 1 :])
    behind = len(plain) - plain.rfind(marks[-1]) - 1
    if len(set(marks)) > 1:
        return frozenset({decimals})
    if len(marks) > 1:
        return frozenset({whole})
    return frozenset({whole, decimals}) if behind == 3 else frozenset({decimals})


def _spelled(tokens: Sequence[_Token], at: int) -> tuple[frozenset[Decimal], int]:
    """A number in words: what a scale stands behind is multiplied, the rest is added."""
    total = group = Decimal(0)
    begun = False
    last = after = at
    while at < len(tokens):
        word = tokens[at].text
        unit, scale = _one(word), _SCALE_OF.get(word)
        if unit is not None:
            # Four-twenties of the French: a twenty behind a smaller unit is multiplied.
            is_twenties = unit == 20 and group == 4 and word.startswith("vingt")
            group = group * unit if is_twenties else group + unit
        elif scale == 100 and begun:
            group = (group or Decimal(1)) * scale
        elif scale is not None and begun and len(word) > 1:
            total, group = total + (group or Decimal(1)) * scale, Decimal(0)
        elif word in _JOINING and begun and at + 1 < len(tokens) and _one(tokens[at + 1].text) is not None:
            at += 1
            continue
        else:
            break
        begun, at = True, at + 1
        last = after = at
    if not begun:
        return frozenset(), after
    value = total + group
    if last < len(tokens) and tokens[last].text in _POINT:
        digits, after = _spelled_digits(tokens, last + 1)
        if digits:
            return frozenset({Decimal(f"{value}.{digits}")}), after
    return frozenset({value}), last


def _spelled_digits(tokens: Sequence[_Token], at: int) -> tuple[str, int]:
    digits = ""
    while at < len(tokens) and (unit := _one(tokens[at].text)) is not None and unit < 10:
        digits, at = digits + str(unit), at + 1
    return digits, at


def _one(word: str) -> int | None:
    """A word that is one number below 100; also `fünfundzwanzig`."""
    if word in _UNIT_OF:
        return _UNIT_OF[word]
    if match := _COMPOUND.fullmatch(word):
        tens = _UNIT_OF.get(match.group(2))
        return tens + _UNIT_OF[match.group(1)] if tens is not None and tens >= 20 else None
    return None


def _ideographs(text: str) -> Decimal:
    """`三百二十` is 320, `二〇二六` is 2026."""
    if all(character in _IDEOGRAPHS for character in text):
        return Decimal("".join(str(_IDEOGRAPHS[character]) for character in text))
    total = section = digit = 0
    for character in text:
        if character in _IDEOGRAPHS:
            digit = _IDEOGRAPHS[character]
            continue
        scale = _IDEOGRAPH_SCALES[character]
        if scale >= 10_000:
            total, section, digit = total + (section + digit or 1) * scale, 0, 0
        else:
            section, digit = section + (digit or 1) * scale, 0
    return Decimal(total + section + digit)


def _unit(tokens: Sequence[_Token], at: int, after: int) -> tuple[str, int]:
    """What is counted, as far as it is said beside the number, and the place behind it."""
    if at > 0 and (before := _CURRENCY.get(tokens[at - 1].text)) is not None:
        return before, after
    if after == len(tokens):
        return "", after
    word = tokens[after].text
    if word in FUNCTION_WORDS:
        return "", after
    following = tokens[after + 1].text if after + 1 < len(tokens) else ""
    if word in _PERCENT:
        return "%", after + 1
    if (word, following) in (("per", "cent"), ("pour", "cent"), ("por", "ciento"), ("v", "h")):
        return "%", after + 2
    if word in _CURRENCY:
        return _CURRENCY[word], after + 1
    return word.removesuffix("s") if not word[0].isdecimal() else "", after
