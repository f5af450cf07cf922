"""Which words of a language may be said: those that everybody uses.

A word is listed if it is at least as frequent as the word list that the lexicon was made of, or a form of such a word
(`terminations` of `termination`), or a German compound of listed parts, or a technical term of the glossary. Names,
code words and misspellings are not listed; frequent names are, which is why masking looks for the signs of a name too.

Texts without spaces are cut into listed words by the most probable way, as a path of least cost:

    供应商 应 提前 通知    costs 4.1 + 3.0 + 4.2 + 3.9 orders of magnitude; a character that no word covers costs 12

Pure: word lists are arguments (`knowledge.restricted.wordlists` reads them).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from lamella.guard.language import SHORTEST_STEM, WITHOUT_SPACES, Language

_LINKS = ("", "s", "es", "n", "en", "er", "e")
"""What German puts between the parts of a compound."""

SHORTEST_PART = 4
"""Letters of a part of a compound, at least: shorter ones are found in any string."""

MOST_PARTS = 4

EVERYWHERE = 5.6
"""Frequency (zipf) from which a word says nothing of what a sentence is about: people, time."""

_EVERYWHERE = {"zh": 5.1}
"""The same in Chinese, which is cut into smaller words: 公司, 需要. Like elsewhere, 0.44 of an answer's words count."""

UNKNOWN_COST = 12.0
"""What a character costs that stands in no listed word: more than any path of listed words."""

UNLISTED_COST = 5.0
"""What a word of the language file costs whose frequency is not known."""

LONGEST_WORD = 8
"""Characters of a Chinese or Japanese word."""

FREQUENT = 4.6
"""Frequency (zipf) from which a word of two letters is listed: rarer ones are pieces of code."""

FREQUENT_CHARACTER = 3.5
"""The same for a single character that stands alone in Chinese or Japanese; two in a row are one unknown word."""

_LETTERS = {
    "en": "a-z",
    "de": "a-zäöüß",
    "fr": "a-zàâæçéèêëîïôœùûüÿ",
    "es": "a-záéíóúüñ",
    "ru": "а-яё",
    "zh": "\u3007\u4e00-\u9fff",
    "ja": "\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3007\u4e00-\u9fff",
}

COMMON = 4.8
"""Frequency (zipf) from which a word is what it spells, and not an acronym."""


class TokenKind(Enum):
    """What a token of a text is, by its characters alone."""

    WORD = "word"
    """Letters of the language."""

    MARK = "mark"
    """Plain punctuation."""

    PLACEHOLDER = "placeholder"
    BREAK = "break"
    """The end of a line."""

    DIGITS = "digits"
    """Digits, with what belongs to a number or a date: `1.234,50 €`, `12/2026`."""

    CODE = "code"
    """Letters mixed with digits or signs, addresses, and characters that the language does not have."""


class Token(NamedTuple):
    """Characters `start` to `end` of a text. `text` is as it stands, `key` in lower case.

    A tuple is made in less than half the time of a frozen dataclass, and a passage has a thousand of them.
    """

    kind: TokenKind
    text: str
    key: str
    start: int
    end: int

    @property
    def is_capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[:1] != self.key[:1]

    @property
    def is_shouted(self) -> bool:
        """Whether all letters are capitals: case tells nothing then."""
        return len(self.text) > 1 and self.text == self.text.upper() != self.text.lower()


_MARKS = ".,;:?!…。，、；：？！¿¡\"'“”„‚‘’«»‹›「」『』《》〈〉（）()\\[\\]–—―・*-"
_LATIN = "A-Za-z"
ELISIONS = frozenset(["l'", "d'", "j'", "m'", "t'", "s'", "n'", "c'", "qu'", "jusqu'", "lorsqu'", "puisqu'", "quoiqu'"])
"""What French writes together with the word after it."""


@lru_cache(maxsize=16)
def _pattern(code: str) -> re.Pattern[str]:
    letters = _LETTERS[code]
    has_spaces = code not in WITHOUT_SPACES
    own = f"[{letters}{letters.upper() if has_spaces else ''}]"
    inner = r"(?:['’]{own}++)*+".replace("{own}", own) if has_spaces else ""
    # A digit or sign makes a code of the letters next to it; between Chinese characters it stands alone.
    sign = r"[^\W_]" if has_spaces else r"[A-Za-z0-9]"
    ends = rf"(?!{sign})"
    foreign = rf"(?![^\W\d_{_LATIN if not has_spaces else ''}])"
    # Words in Latin letters are words too: `VPN` in a Russian sentence. Letters of two scripts in one word are code.
    latin = rf"|(?P<latin>[{_LATIN}]++(?![^\W\d_{letters if not has_spaces else ''}]))" if code in _OTHER_SCRIPT else ""
    return re.compile(
        r"(?P<placeholder>\[(?:figure|name|term)\])"
        r"|(?P<code>(?:https?://|www\.)\S+|[^\s@<>(),;\"«»“”]{1,64}@[^\s@<>(),;\"«»“”]+(?<![.:!?])"
        rf"|{sign}+(?:[./\\]{sign}+)+(?<!\d){ends}|{sign}*_(?:{sign}|_)*)"
        rf"|(?P<digits>[+−]?[$€£¥#№§]?\d+(?:[.,:/\-–'’ \u00a0]?\d+)*+\s?(?:[%‰$€£¥°])?{ends})"
        rf"|(?P<mixed>{sign}*\d{sign}*)"
        rf"|(?P<word>{own}++{inner}{foreign})"
        rf"{latin}"
        r"|(?P<break>[ \t]*\n\s*)"
        r"|(?P<space>[ \t\u00a0\u202f\u3000]+)"
        rf"|(?P<mark>[{_MARKS}])"
        r"|(?P<other>[^\W\d_]+|.)",
        re.DOTALL,
    )


_KATAKANA = re.compile("[\u30a1-\u30fc]")

_OTHER_SCRIPT = frozenset({"ru", "zh", "ja"})


def tokens(text: str, code: str) -> Iterator[Token]:
    """The tokens of a text, spaces left out; letters of another script, signs and control characters are code.

    In Chinese and Japanese a word token is a run of characters: `Lexicon.words_of` cuts it.
    """
    for match in _pattern(code).finditer(text):
        group = match.lastgroup
        if group == "space":
            continue
        said, start = match.group(), match.start()
        key = said.lower().replace("’", "'")
        if group == "word" and "'" in key:
            # `l'accord` is two words, and so is `Stone's`.
            cut = key.index("'") + 1 if key[: key.index("'") + 1] in ELISIONS else len(key) - 2 * key.endswith("'s")
            if cut < len(key):
                yield Token(TokenKind.WORD, said[:cut], key[:cut], start, start + cut)
                said, key, start = said[cut:], key[cut:], start + cut
            if key == "'s":
                yield Token(TokenKind.MARK, said, key, start, match.end())
                continue
        yield Token(_KINDS[group or "other"], said, key, start, match.end())


_KINDS = {
    "placeholder": TokenKind.PLACEHOLDER,
    "code": TokenKind.CODE,
    "digits": TokenKind.DIGITS,
    "mixed": TokenKind.CODE,
    "word": TokenKind.WORD,
    "latin": TokenKind.WORD,
    "break": TokenKind.BREAK,
    "mark": TokenKind.MARK,
    "other": TokenKind.CODE,
}


def _plain(key: str) -> str:
    """As the frequencies spell it."""
    return key.replace("ß", "ss") if "ß" in key else key


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of a language: `zipf` is how frequent each is (log10 per billion words), in lower case.

    `names` are words that are names if they have a capital, whatever their frequency. German writes `nouns` with a
    capital, and never `small`.
    """

    language: Language
    zipf: Mapping[str, float]
    names: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    small: frozenset[str] = frozenset()

    @property
    def code(self) -> str:
        """The language: `en`."""
        return self.language.code

    def is_listed(self, key: str) -> bool:
        """Whether everybody uses the word (lower case); a form of a listed word is one, a compound is not."""
        spoken = self.language
        if key in spoken.function_words or key in spoken.glossary or key in spoken.written:
            return True
        if self.code in _OTHER_SCRIPT and key.isascii():
            return False  # pinyin and other words in Latin letters, but for acronyms and terms
        if spoken.has_spaces and len(key) < 3:
            return self.zipf.get(key, 0.0) >= FREQUENT
        if not spoken.has_spaces and len(key) == 1:
            return self.zipf.get(key, 0.0) >= FREQUENT_CHARACTER
        return self._is_known(key) or self._is_form(key)

    def _is_form(self, key: str) -> bool:
        for length, endings in self.language.endings.items():
            if len(key) - length >= SHORTEST_STEM and key[-length:] in endings:
                stem = key[:-length]
                if any(self._is_known(stem + form) for form in self.language.forms):
                    return True
        return False

    def _is_known(self, key: str) -> bool:
        return _plain(key) in self.zipf or key in self.language.glossary or key in self.language.nouns

    def frequency(self, key: str) -> float:
        """How frequent a word is, in zipf; 0 if it is not listed by itself."""
        return self.zipf.get(_plain(key), 0.0)

    def parts(self, key: str) -> tuple[str, ...]:
        """The listed parts of a German compound, or of a Chinese word of two frequent characters (较低); else none."""
        if self.code == "zh":
            frequent = len(key) == 2 and all(self.frequency(character) >= FREQUENT for character in key)
            return tuple(key) if frequent else ()
        return self._parts(key, MOST_PARTS) if self.code == "de" and len(key) >= 2 * SHORTEST_PART else ()

    def _parts(self, key: str, most: int) -> tuple[str, ...]:
        for at in range(len(key) - SHORTEST_PART, SHORTEST_PART - 1, -1):
            first, rest = key[:at], key[at:]
            if not self._is_part(first):
                continue
            if self._is_known(rest) or self._is_form(rest):
                return first, rest
            if most > 2 and (more := self._parts(rest, most - 1)):
                return first, *more
        return ()

    def _is_part(self, piece: str) -> bool:
        return any(
            piece.endswith(link) and len(stem := piece.removesuffix(link)) >= SHORTEST_PART and self._is_known(stem)
            for link in _LINKS
        )

    def is_noun(self, key: str) -> bool:
        """Whether German writes it with a capital, whatever it means."""
        known = _plain(key) in self.nouns or key in self.language.nouns
        return known or (len(key) > 5 and key.endswith(self.language.noun_suffixes) and _plain(key) not in self.small)

    def written(self, key: str, previous: str = "") -> str:
        """The word in the case of the list: `vpn` is VPN, `vertrag` is Vertrag; `it` and `led` are words first. After
        `zu` a German word is a verb if it can be one: `zu wechseln`.
        """
        given = self.language.written.get(key)
        if given is not None and (len(key) == 1 or not self._is_everyday(key)):
            return given
        if self.code != "de" or key in self.language.function_words or (previous == "zu" and key in self.small):
            return key
        parts = self.parts(key) if _plain(key) not in self.zipf else ()
        return key.capitalize() if self.is_noun(parts[-1] if parts else key) else key

    def _is_everyday(self, key: str) -> bool:
        return key in self.language.function_words or self.frequency(key) >= COMMON

    def stem(self, key: str) -> str:
        """What the forms of a word have in common, roughly: `terminations` and `terminated` give `terminat`."""
        for length, endings in self.language.endings.items():
            if len(key) - length >= SHORTEST_STEM and key[-length:] in endings:
                return key[:-length]
        return key

    def is_content(self, key: str) -> bool:
        """Whether a word says what a sentence is about."""
        if key in self.language.function_words or self.frequency(key) >= _EVERYWHERE.get(self.code, EVERYWHERE):
            return False
        return len(key) > 1 or not self.language.has_spaces

    def is_title_word(self, key: str) -> bool:
        """Whether a word says what a title is about; Chinese titles are short, so its frequent words count too."""
        return key not in self.language.function_words and self.frequency(key) < EVERYWHERE and len(key) > 1

    def words_of(self, token: Token) -> Iterator[Token]:
        """The words of a run of characters without spaces; of other languages, the token itself."""
        if self.language.has_spaces or token.text.isascii():
            yield token
            return
        for start, end in self._cut(token.key):
            at = token.start + start
            yield Token(TokenKind.WORD, token.text[start:end], token.key[start:end], at, token.start + end)

    def _cut(self, text: str) -> list[tuple[int, int]]:
        """The path of least cost through a run of characters."""
        costs = [0.0] * (len(text) + 1)
        begins = [0] * (len(text) + 1)
        zipf, uncounted = self.zipf.get, self.language.uncounted
        for end in range(1, len(text) + 1):
            best, place = costs[end - 1] + self._cost(text[end - 1 : end]), end - 1
            for start in range(max(0, end - LONGEST_WORD), end - 1):
                word = text[start:end]
                known = zipf(word)
                if known is not None:
                    cost = costs[start] + 9.0 - known
                elif word in uncounted:
                    cost = costs[start] + UNLISTED_COST
                else:
                    continue
                if cost < best:
                    best, place = cost, start
            costs[end], begins[end] = best, place
        cuts, end = [], len(text)
        while end:
            cuts.append((begins[end], end))
            end = begins[end]
        return list(self._joined(text, cuts[::-1]))

    def _joined(self, text: str, cuts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The words, with single characters in a row as one: `王小明` is no row of three words."""
        waiting: tuple[int, int] | None = None
        for start, end in cuts:
            if self._is_piece(text, start, end):
                waiting = (waiting[0] if waiting else start), end
                continue
            if waiting:
                yield waiting
                waiting = None
            yield start, end
        if waiting:
            yield waiting

    def _is_piece(self, text: str, start: int, end: int) -> bool:
        """Whether a cut is no word by itself: one character, or two of a longer row of katakana, as in シラツキ."""
        if end - start == 1:
            return text[start] not in self.language.function_words
        if end - start != 2 or not _KATAKANA.match(text, start) or not _KATAKANA.match(text, start + 1):
            return False
        return bool(_KATAKANA.match(text[start - 1 : start]) or _KATAKANA.match(text, end))

    def _cost(self, word: str) -> float:
        known = self.zipf.get(word)
        if known is not None:
            return 9.0 - known
        return UNLISTED_COST if word in self.language.uncounted else UNKNOWN_COST * len(word)


LEAST_FUNCTION_WORDS = 0.15
"""Share of the words of a text that are function words of its language, at least."""

LEAST_LISTED = 0.6
"""Share of the words that the language lists, at least."""

MOST_WORDS = 300
"""Words of a text that are looked at for its language."""

FEWEST_WORDS = 4
"""Words of a text in which they are counted."""


def language_of(text: str, lexicons: Mapping[str, Lexicon]) -> str:
    """The language that a text is written in, of those of the lexicons; empty if it is none of them.

    Kana says Japanese, other ideographs Chinese; elsewhere the language whose function words are the most decides.
    """
    kana = sum("\u3041" <= character <= "\u30fa" for character in text)
    ideographs = sum("\u4e00" <= character <= "\u9fff" for character in text)
    letters = sum(character.isalpha() for character in text)
    if letters and (kana + ideographs) * 2 > letters:
        code = "ja" if kana * 8 > ideographs else "zh"
        return code if code in lexicons else ""
    words = _ANY_WORD.findall(text.lower().replace("’", "'"))[:MOST_WORDS]
    spaced = {code: lexicon for code, lexicon in lexicons.items() if lexicon.language.has_spaces}
    counted = {code: sum(word in lexicon.language.function_words for word in words) for code, lexicon in spaced.items()}
    code, most = max(counted.items(), key=lambda entry: entry[1], default=("", 0))
    if len(words) >= FEWEST_WORDS:
        enough = most >= max(1, LEAST_FUNCTION_WORDS * len(words)) and _is_mostly_listed(words, spaced[code])
        return code if enough else ""
    # Too few words to count: the language that lists them all, if there is one.
    return next((code for code, one in spaced.items() if words and all(map(one.is_listed, words))), "")


def _is_mostly_listed(words: Sequence[str], lexicon: Lexicon) -> bool:
    return sum(map(lexicon.is_listed, words)) >= LEAST_LISTED * len(words)


_ANY_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
