"""What the guard knows of a language: its numbers, dates and the signs of a name, read from languages/CODE.toml.

Seven languages are known at one level. A text in another language is refused: the guard can't tell its names from its
words (docs/explanation/guard.md).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

CODES = ("en", "de", "fr", "es", "ru", "zh", "ja")
"""English, German, French, Spanish, Russian, Chinese, Japanese."""

WITHOUT_SPACES = frozenset({"zh", "ja"})
"""Languages that write words one after the other without a space."""

SHORTEST_STEM = 4
"""Letters that are left of a word when its ending is taken off, at least."""


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language, by what they say. All are in lower case but for `nouns`, `capitalised`, `acronyms`."""

    code: str
    has_spaces: bool
    """Whether words stand apart."""

    function_words: frozenset[str]
    """Words without a content: articles, pronouns, prepositions, auxiliaries."""

    numerals: frozenset[str]
    numeral_root: re.Pattern[str]
    """A piece that makes a longer word a numeral: `hundert` in `zweihundertste`."""

    numeral_exceptions: frozenset[str]
    """Words that hold such a piece by chance: `accent` holds `cent`."""

    articles: frozenset[str]
    """Numerals only before a unit: `ein` in `ein Prozent`."""

    units: frozenset[str]
    amounts: frozenset[str]
    """Words that tell an amount without a number: half, double, percent."""

    dates: frozenset[str]
    """Months and weekdays."""

    ambiguous_dates: frozenset[str]
    """Those that are ordinary words too: `may`."""

    name_triggers: frozenset[str]
    """A name follows: Project, Dr, 代号."""

    name_followers: frozenset[str]
    """A name stands before: GmbH, 先生."""

    first_names: frozenset[str]
    surnames: frozenset[str]
    spelling_alphabet: frozenset[str]
    glossary: frozenset[str]
    """Ordinary technical terms, of one word."""

    endings: Mapping[int, frozenset[str]]
    """Endings that an inflected word may have, by their length, the longest first."""

    forms: tuple[str, ...]
    """Endings of the forms that a word list holds, the empty one too."""

    determiners: frozenset[str]
    """Words that stand before a thing more often than before a name."""

    person_verbs: frozenset[str]
    """What persons do; only of languages in which a capital tells no name: German, Chinese, Japanese."""

    ordinary_names: frozenset[str]
    """Names that are ordinary words too (Wolf, 高峰, 泉); what stands next to one decides. Of the same languages."""

    roles: frozenset[str]
    """Whom a name says more of, in writing without capitals: 护士, 担当."""

    before_dates: frozenset[str]
    """Words that stand before a month which is an ordinary word too."""

    there_is: str
    """That there is something about a question, and whom to ask: `{contact}`."""

    uncounted: frozenset[str] = frozenset()
    """Words that a text without spaces is cut into although their frequency is not known."""

    announcing: frozenset[str] = frozenset()
    """The first word, or character, of each name trigger and follower."""

    written: Mapping[str, str] = field(default_factory=dict)
    """Words with capitals in the list's case: `vpn` is VPN, `german` is German."""

    nouns: frozenset[str] = frozenset()
    noun_suffixes: tuple[str, ...] = ()

    def is_number(self, word: str) -> bool:
        """Whether a word in lower case is a numeral, an amount, a month or a weekday, whatever stands next to it.

        Articles and ambiguous dates are not: see `is_counted` and `is_dated`.
        """
        if word in self.numeral_exceptions:
            return False
        if word in self.articles or word in self.ambiguous_dates:
            return False
        if word in self.numerals or word in self.amounts or word in self.dates:
            return True
        return self.numeral_root.search(word) is not None

    def is_counted(self, word: str, following: str) -> bool:
        """Whether an article counts the word after it: `ein Prozent`."""
        return word in self.articles and (following in self.units or following in self.amounts)

    def is_added(self, before: str, previous: str, word: str) -> bool:
        """Whether an article adds to an amount: `hora y media`, `eine Stunde und eine halbe`."""
        return word in self.articles and previous in _AND and before in self.units

    def is_dated(self, previous: str, word: str) -> bool:
        """Whether a month that is an ordinary word too is meant as a month: `in may`, but not `they may`."""
        return word in self.ambiguous_dates and (previous in self.before_dates or previous[:1].isdigit())


_AND = frozenset({"and", "und", "et", "y", "и"})


def _words(value: object) -> frozenset[str]:
    """The entries of a list, or of a text of words with `_` between the parts of one entry."""
    entries = value.split() if isinstance(value, str) else list(value) if isinstance(value, list) else []
    return frozenset(str(entry).replace("_", " ").strip() for entry in entries)


def _by_length(words: frozenset[str]) -> Mapping[int, frozenset[str]]:
    lengths = sorted({len(word) for word in words}, reverse=True)
    return {length: frozenset(word for word in words if len(word) == length) for length in lengths}


def parsed(text: str) -> Language:
    """A language from its file; raises `tomllib.TOMLDecodeError` or KeyError for a damaged one."""
    told = tomllib.loads(text)
    code = told["language"]
    written = {word.casefold(): word for key in ("acronyms", "capitalised") for word in _words(told.get(key, []))}
    nouns = _words(told.get("nouns", []))
    has_spaces = code not in WITHOUT_SPACES
    glossary = frozenset(part for entry in _words(told["glossary"]) for part in entry.split())
    listed = frozenset(
        word for key in ("function_words", "numeral_exceptions", "numerals") for word in _words(told[key])
    )
    announcing = {entry.replace(".", "") for key in ("name_triggers", "name_followers") for entry in _words(told[key])}
    return Language(
        code=code,
        has_spaces=has_spaces,
        function_words=_words(told["function_words"]),
        numerals=_words(told["numerals"]),
        numeral_root=re.compile("|".join(map(re.escape, sorted(_words(told["numeral_roots"]))))),
        numeral_exceptions=_words(told["numeral_exceptions"]),
        articles=_words(told["articles"]),
        units=_words(told["units"]),
        amounts=_words(told["amounts"]),
        dates=_words(told["months"]) | _words(told["weekdays"]),
        ambiguous_dates=_words(told.get("ambiguous_dates", [])),
        name_triggers=frozenset(entry.replace(".", "") for entry in _words(told["name_triggers"])),
        name_followers=frozenset(entry.replace(".", "") for entry in _words(told["name_followers"])),
        first_names=_words(told["first_names"]),
        surnames=_words(told["surnames"]),
        spelling_alphabet=_words(told.get("spelling_alphabet", [])),
        glossary=glossary,
        endings=_by_length(_words(told["endings"])),
        forms=tuple(sorted(_words(told["forms"]))),
        determiners=_words(told["determiners"]),
        person_verbs=_words(told.get("person_verbs", [])),
        ordinary_names=_words(told.get("ordinary_names", [])),
        roles=_words(told.get("roles", [])),
        before_dates=_words(told["before_dates"]),
        there_is=told["there_is"],
        uncounted=frozenset() if has_spaces else listed | glossary,
        announcing=frozenset(entry.partition(" ")[0] if has_spaces else entry[:1] for entry in announcing),
        written=written,
        nouns=frozenset(noun.casefold() for noun in nouns),
        noun_suffixes=tuple(sorted(_words(told.get("noun_suffixes", [])))),
    )


def language(code: str) -> Language:
    """One of the seven, from its file in this package."""
    return parsed(files("lamella.guard").joinpath("languages", f"{code}.toml").read_text("utf-8"))
