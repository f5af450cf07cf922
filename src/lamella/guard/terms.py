"""Which words of a base are names, found in all of its documents, and corrected by its owner.

Each document gives evidence: how often a listed word stands with a capital in the middle of a sentence, how often in
small letters, and what follows an announcement (Project, Dr, 代号). A word is a name of the base if it has a capital
more often than not:

    "… with Falcon …", "… of Falcon …", "a falcon …"     falcon: 2 capitals, 1 small → a name, in any case and position

Words that no list knows need no evidence: they are masked anyway. Evidence of documents is added, so that a document
that is removed takes its own away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lamella.guard.lexicon import Lexicon, TokenKind, tokens
from lamella.guard.names import ORDINARY, SENTENCE_ENDS, PlacedToken, named_places, placed

LONGEST_PHRASE = 5
"""Words of a name that is looked for."""

MOST_WORDS = 12
"""Words of a line that may be a heading."""

SHORTEST_WRAPPED = 40
"""Characters of a line that may go on in the next one."""

_ITEM = re.compile(r"[-*+•|>]|\d{1,3}[.)]\s|[a-z][.)]\s")
"""The beginning of a list item, a table row or a quotation."""


@dataclass(frozen=True, slots=True)
class NameEvidence:
    """What one document, or many, tell of words: in `capital` and `small` how often a word stands so; `phrases` are
    names of several words or characters.
    """

    capital: Counter[str] = field(default_factory=Counter)
    small: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)

    def add(self, other: NameEvidence) -> None:
        """Counts the evidence of another document too."""
        self.capital.update(other.capital)
        self.small.update(other.small)
        self.phrases.update(other.phrases)

    def names(self) -> Iterator[tuple[str, int]]:
        """Words with a capital more often than not, and how often."""
        for word, count in self.capital.items():
            if count > self.small[word]:
                yield word, count


@dataclass(frozen=True, slots=True)
class ProtectedTerms:
    """The names of a base in lower case: `words` of one word, `phrases` of several (or several characters).

    `small` are words that the base uses in small letters. `allowed` are terms of the owner that may be said.
    """

    words: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()
    phrases: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()

    def is_name(self, key: str, lexicon: Lexicon) -> bool:
        """Whether a word, or a form of it, is a name of the base."""
        if key in self.allowed:
            return False
        return key in self.words or (lexicon.language.has_spaces and lexicon.stem(key) in self.stems)

    def phrase_at(self, keys: Sequence[str], at: int, lexicon: Lexicon) -> int:
        """How many of the words from here on are a name of several words or characters; 0 if they are none."""
        spaced = lexicon.language.has_spaces
        if (keys[at] if spaced else keys[at][:1]) not in _openings(self.phrases, spaced=spaced):
            return 0
        between = " " if spaced else ""
        most = 0
        for length in range(1 if not between else 2, min(LONGEST_PHRASE, len(keys) - at) + 1):
            if between.join(keys[at : at + length]) in self.phrases:
                most = length
        return most


@lru_cache(maxsize=32)
def _openings(phrases: frozenset[str], *, spaced: bool) -> frozenset[str]:
    """The first word or character of each name of several."""
    return frozenset(phrase.partition(" ")[0] if spaced else phrase[:1] for phrase in phrases)


def terms_of(
    evidence: NameEvidence, lexicon: Lexicon, *, confirmed: Iterable[str] = (), allowed: Iterable[str] = ()
) -> ProtectedTerms:
    """The names that the evidence of a base gives and that its owner `confirmed`, without those that are `allowed`."""
    free = frozenset(term.lower() for term in allowed)
    named = {word for word, _ in evidence.names()} | {term.lower() for term in confirmed if " " not in term.strip()}
    phrases = set(evidence.phrases) | {term.lower() for term in confirmed if len(keys_of(term, lexicon)) > 1}
    words = frozenset(word for word in named if word not in free and word not in lexicon.language.function_words)
    return ProtectedTerms(
        words,
        frozenset(stem for word in words if len(stem := lexicon.stem(word)) > 3),
        frozenset(phrase for phrase in phrases if phrase not in free),
        frozenset(evidence.small),
        free,
    )


def merged(terms: Iterable[ProtectedTerms]) -> ProtectedTerms:
    """The names of a base in all of its languages."""
    given = tuple(terms)
    return ProtectedTerms(
        frozenset(word for one in given for word in one.words),
        frozenset(stem for one in given for stem in one.stems),
        frozenset(phrase for one in given for phrase in one.phrases),
        frozenset(word for one in given for word in one.small),
        frozenset(word for one in given for word in one.allowed),
    )


def keys_of(text: str, lexicon: Lexicon) -> tuple[str, ...]:
    """The words of a text in lower case."""
    found = tokens(text, lexicon.code)
    return tuple(word.key for token in found if token.kind is TokenKind.WORD for word in lexicon.words_of(token))


def evidence_of(text: str, lexicon: Lexicon, titles: Sequence[str] = ()) -> NameEvidence:
    """What a document tells of the words in it. Headings are left out: their capitals tell nothing."""
    evidence = NameEvidence()
    for line in lines_of(text):
        _read(list(placed(tokens(line, lexicon.code), lexicon)), lexicon, evidence)
    for title in titles:
        keys = keys_of(title, lexicon)
        if len(keys) == 1 and lexicon.is_content(keys[0]):
            evidence.capital[keys[0]] += 1
    return evidence


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text without its headings; a paragraph that is wrapped over several lines is one.

    A line goes on in the next one if it is as long as wrapped text and does not end a sentence.
    """
    waiting = ""
    for raw in text.splitlines():
        line = raw.strip()
        goes_on = len(waiting.rpartition("\n")[2]) >= SHORTEST_WRAPPED and waiting[-1] not in SENTENCE_ENDS
        if waiting and not (goes_on and line and not is_heading(line) and not _ITEM.match(line)):
            yield waiting.replace("\n", " ")
            waiting = ""
        if line and not is_heading(line):
            waiting = f"{waiting}\n{line}" if waiting else line
    if waiting:
        yield waiting.replace("\n", " ")


def is_heading(line: str) -> bool:
    """Whether a line is a heading: marked as one, or in capitals throughout."""
    bare = line.strip()
    if bare.startswith("#") and bare.lstrip("#").startswith(" "):
        return True
    letters = [character for character in bare if character.isalpha()]
    return len(letters) > 3 and all(map(str.isupper, letters)) and "|" not in bare and len(bare.split()) <= MOST_WORDS


def _read(line: Sequence[PlacedToken], lexicon: Lexicon, evidence: NameEvidence) -> None:
    named = named_places(line, lexicon)
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD or at in named or not lexicon.language.has_spaces:
            continue
        if not token.is_capital:
            evidence.small[token.key] += 1
        elif token.is_shouted and 0 < lexicon.frequency(token.key) < ORDINARY:
            evidence.capital[token.key] += 1
    for start, end in _runs(named):
        while end - start > 1 and line[start].token.key in lexicon.language.name_triggers:
            start += 1  # `Ms Lake` is the name Lake
        if end - start > 1:
            evidence.phrases[_joined(line[start:end], lexicon)] += 1
        before = line[start - 1].token.key if start else ""
        defined = end - start > 1 or before in lexicon.language.determiners
        for place in line[start:end]:
            # `the Client` is a term that a contract defines, `Stone` and `the Falcon team` are names.
            frequency = lexicon.frequency(place.token.key)
            if place.token.key in lexicon.language.glossary:
                continue
            if frequency and not (defined and frequency >= ORDINARY):
                evidence.capital[place.token.key] += 1


def _joined(words: Sequence[PlacedToken], lexicon: Lexicon) -> str:
    return (" " if lexicon.language.has_spaces else "").join(place.token.key for place in words)


def _runs(places: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Places in a row, as first and one after the last."""
    ordered = sorted(places)
    at = 0
    while at < len(ordered):
        end = at
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        yield ordered[at], ordered[end] + 1
        at = end + 1
