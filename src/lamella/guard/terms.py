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

from lamella.guard.lexicon import Lexicon, Token, TokenKind, tokens

SENTENCE_ENDS = frozenset(".!?…。！？:：")
QUOTES = frozenset("\"'“”„‚‘’«»‹›「」『』《》〈〉()（）[]*")
_OPENING = frozenset('“„‚‘«‹「『《〈"')

STRONG = frozenset(
    {"代号", "名为", "名叫", "叫做", "コードネーム", "という名前", "code name", "codename", "кодовое имя"}
)
"""Announcements after which an ordinary word is a name too, in writing without capitals."""

ORDINARY = 4.0
"""Frequency (zipf) from which a capital after a determiner, or in a row of capitals, tells nothing of a word."""

_CALLED = frozenset({"为", "是", "叫", "は"})
"""Words between an announcement and the name: 代号为猎鹰."""

POLITE = frozenset({"様", "さん", "氏", "先生", "女士", "小姐"})
"""Forms of address: the word before one is a name, though it is an ordinary word elsewhere."""

LONGEST_SHORT_FORM = 4
"""Letters of an announcement that is cut short with a dot: Dr., Prof."""

LONGEST_NAME = 4
"""Words of a name, or characters of a Chinese one."""

COMMON_WORD = 5.0
"""Frequency (zipf) from which a Chinese word before a title is no name: 项目经理, but 黄河主任."""

MOST_WORDS = 12
"""Words of a line that may be a heading."""

SHORTEST_WRAPPED = 40
"""Characters of a line that may go on in the next one."""

_ITEM = re.compile(r"[-*+•|>]|\d{1,3}[.)]\s|[a-z][.)]\s")
"""The beginning of a list item, a table row or a quotation."""


@dataclass(frozen=True, slots=True)
class PlacedToken:
    """A word token and where it stands. `starts`: at the beginning of a sentence, line or cell; `cell`: of a line or
    cell, which may be no sentence (a bullet, a table).
    """

    token: Token
    starts: bool
    cell: bool


def placed(found: Iterable[Token], lexicon: Lexicon) -> Iterator[PlacedToken]:
    """The tokens of a text with their places; runs of characters are cut into words."""
    starts, cell = True, True
    for token in found:
        if token.kind is TokenKind.WORD:
            for word in lexicon.words_of(token):
                yield PlacedToken(word, starts, cell and starts)
                starts = False
            continue
        yield PlacedToken(token, starts, cell and starts)
        if token.kind is TokenKind.BREAK or token.text == "|":
            starts, cell = True, True
        elif token.text in SENTENCE_ENDS:
            starts, cell = True, False
        elif token.kind is not TokenKind.MARK:
            starts = False


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
    return len(letters) > 3 and "".join(letters).isupper() and "|" not in bare and len(bare.split()) <= MOST_WORDS


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


def named_places(line: Sequence[PlacedToken], lexicon: Lexicon) -> frozenset[int]:
    """The places of a line at which a name stands, by its capital or by what stands next to it."""
    found: set[int] = set()
    if lexicon.language.has_spaces:
        found.update(at for at, place in enumerate(line) if _has_telling_capital(place, lexicon))
    if lexicon.language.person_verbs:
        found.update(_acting(line, lexicon))
    found.update(_announced(line, lexicon))
    found.update(_persons(line, lexicon))
    return frozenset(found)


def _has_telling_capital(place: PlacedToken, lexicon: Lexicon) -> bool:
    token = place.token
    if token.kind is not TokenKind.WORD or not token.is_capital or place.starts or token.is_shouted:
        return False
    spoken = lexicon.language
    if token.key in spoken.function_words or token.key in spoken.written:
        return False
    return lexicon.code != "de" or _is_unlike_noun(token.key, lexicon)


def _is_unlike_noun(key: str, lexicon: Lexicon) -> bool:
    """Whether German has no reason to write a word with a capital: it is no noun, infinitive or adjective."""
    if lexicon.is_noun(key) or key.endswith(("e", "en", "er", "es", "em", "ern", "eln")):
        return False
    parts = lexicon.parts(key)
    return not (parts and lexicon.is_noun(parts[-1]))


def _acting(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """German nouns that act as persons do, without a determiner at the start of a clause: `Sommer hat Bedenken`."""
    spoken = lexicon.language
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD or not token.is_capital or at + 1 == len(line):
            continue
        begins = place.starts or line[at - 1].token.text == ","
        if begins and token.key in lexicon.nouns and not token.key.endswith(spoken.noun_suffixes):
            following = line[at + 1].token.key
            if following in spoken.person_verbs or (following == "," and line[at - 1].token.text == "," and at):
                yield at


def _announced(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """Names after an announcement (Project Falcon) and before a title or form (Stone Ltd, 王先生)."""
    spoken = lexicon.language
    between = " " if spoken.has_spaces else ""
    keys = [place.token.key for place in line]
    for at in range(len(line)):
        for length in range(1, min(3, len(line) - at) + 1):
            said = between.join(keys[at : at + length])
            if said in spoken.name_triggers:
                yield from _name_after(line, at + length, lexicon, strong=said in STRONG)
            if said in spoken.name_followers:
                yield from _name_before(line, at, lexicon, certain=said in POLITE)


def _name_after(line: Sequence[PlacedToken], at: int, lexicon: Lexicon, *, strong: bool) -> Iterator[int]:
    quoted = False
    between = QUOTES | {":", "："} | ({"."} if len(line[at - 1].token.key) <= LONGEST_SHORT_FORM else set())
    while at < len(line) and (line[at].token.text in between or line[at].token.key in _CALLED):
        quoted = quoted or line[at].token.text in _OPENING
        at += 1
    for place in range(at, min(at + LONGEST_NAME, len(line))):
        token = line[place].token
        if token.kind is not TokenKind.WORD or token.key in lexicon.language.function_words:
            break
        if lexicon.language.has_spaces and not token.is_capital:
            break
        if not lexicon.language.has_spaces and not (quoted or strong or lexicon.frequency(token.key) < ORDINARY):
            break
        yield place
        if strong and not quoted and not lexicon.language.has_spaces and place > at:
            break


def _name_before(line: Sequence[PlacedToken], at: int, lexicon: Lexicon, *, certain: bool) -> Iterator[int]:
    for place in range(at - 1, max(at - 1 - LONGEST_NAME, -1), -1):
        token = line[place].token
        if token.kind is not TokenKind.WORD or token.key in lexicon.language.function_words:
            break
        if lexicon.language.has_spaces and not token.is_capital:
            break
        if not lexicon.language.has_spaces and not (certain or _may_be_name(token.key, lexicon)):
            break
        certain = False
        yield place


def _may_be_name(key: str, lexicon: Lexicon) -> bool:
    """Whether characters before a title (先生, さん) are a name: a surname, or no listed word."""
    spoken = lexicon.language
    if key in lexicon.names or key in spoken.surnames or not lexicon.is_listed(key) or len(key) == 1:
        return True
    return key[0] in spoken.surnames and len(key) < LONGEST_NAME and lexicon.frequency(key) < COMMON_WORD


def _persons(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """Persons by their names: a first name or surname of the language, and the names next to it."""
    spoken = lexicon.language
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD:
            continue
        if spoken.has_spaces:
            if token.is_capital and token.key in lexicon.names and not token.is_shouted:
                yield at
                yield from _name_after(line, at + 1, lexicon, strong=False) if not _ends(line, at) else ()
        elif token.key in spoken.first_names or (
            token.key in spoken.surnames and (spoken.code == "ja" or _given(line, at, lexicon))
        ):
            yield at
            if token.key in spoken.surnames:
                yield from range(at + 1, at + 1 + _given(line, at, lexicon))


def _ends(line: Sequence[PlacedToken], at: int) -> bool:
    return at + 1 < len(line) and line[at + 1].token.kind is not TokenKind.WORD


def _given(line: Sequence[PlacedToken], at: int, lexicon: Lexicon) -> int:
    """How many words of a given name follow a surname: one or two characters, a first name, an unlisted word."""
    following = [place.token for place in line[at + 1 : at + 3]]
    if not following or following[0].kind is not TokenKind.WORD:
        return 0
    first = following[0]
    surname = line[at].token.key
    if first.key in lexicon.language.first_names or (len(first.key) <= 2 and not lexicon.is_listed(first.key)):
        lone = len(first.key) == 1 and len(following) > 1 and following[1].kind is TokenKind.WORD
        return 2 if lone and len(following[1].key) == 1 and not lexicon.is_listed(following[1].key) else 1
    if len(surname) > 1 and 1 <= len(first.key) <= 2 and first.key not in lexicon.language.function_words:
        return int(_is_han(first.key))
    return 0


def _is_han(key: str) -> bool:
    return all("\u4e00" <= character <= "\u9fff" for character in key)
