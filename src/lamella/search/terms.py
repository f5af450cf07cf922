"""Text as terms: what words are compared by, the same when they are stored and when they are looked for. Pure.

A term is a word in lower case without accents, English endings taken off. Scripts without breaks between words become
overlapping pairs of characters, and single characters; so a part of a run is found too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

MOST_TERMS = 32
"""Terms of one query: of a longer text the first ones."""

_LONGEST = 40
"""Characters of a term; what is longer, such as encoded data, is compared by its beginning."""

_ACCENTS = re.compile("[\u0300-\u036f]")
_DENSE = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Han
    "\uac00-\ud7af"  # Hangul: endings stick to words
)
_PICTURES = "\u2600-\u27bf\U0001f000-\U0001faff"
_TERM = re.compile(
    f"(?P<dense>[{_DENSE}]+)|(?P<picture>[{_PICTURES}])|(?P<word>(?:[^\\W_{_DENSE}{_PICTURES}]|[\u0900-\u0963\u0966-\u0dff])+)"
)
_DENSE_TERM = re.compile(f"[{_DENSE}]")

_STOP_TEXT = """
a about after am an and any are as at be been before being but by can could did do does doing for from had has
have having he her here his how i if in into is it its just me might must my no nor not of on or our s shall she
should so some t than that the their them then there these they this those to too us very was we were what when
where which who whom whose why will with would you your
"""
STOP_WORDS = frozenset(re.findall(r"[a-z]+", _STOP_TEXT))
"""English words that are in every text."""

FUNCTION_WORDS = (
    frozenset(files("lamella.search").joinpath("function_words.txt").read_text("utf-8").split()) | STOP_WORDS
)
"""Words of four letters and more that name no subject, in some languages. Searches weigh such words by how many texts
hold them; with few texts that says little."""

_LEAST_STEM, _LONGEST_ENDING = 5, 3
"""Letters that forms of a word share at least, and those that an ending has at most."""

_LEAST_LETTERS = 4
"""Letters of a word that may name a subject by itself; a number needs one digit less."""


def names_subject(text: str) -> bool:
    """Whether a text holds a word or a number that can tell one subject from another: `Rembrandt`, `20931`, `预算报告`.

    Not `the`, `und die`, `是的` or `7`.
    """
    for match in _TERM.finditer(_normal(text)):
        run = match.group()
        if match["dense"] is not None:
            if len(run) >= _LEAST_LETTERS - 1:
                return True
        elif match["word"] is not None and run not in _FUNCTION_TERMS:
            has_digit = any(letter.isdecimal() for letter in run)
            if len(run) >= (_LEAST_LETTERS - 1 if has_digit else _LEAST_LETTERS):
                return True
    return False


def terms_of(text: str) -> list[str]:
    """Every term of a text, in order, as often as it stands there."""
    return list(_terms(text, single=True))


def query_words(text: str) -> tuple[str, ...]:
    """The terms of a query, in order and with repetitions. Words that are in every text are left out, unless there are
    no others.
    """
    found = tuple(_terms(text, single=False))
    return tuple(term for term in found if term not in _STOP_TERMS) or found


def query_terms(text: str) -> tuple[str, ...]:
    """The first `MOST_TERMS` terms of a query, each once, of those that `query_words` gives."""
    return tuple(dict.fromkeys(query_words(text)))[:MOST_TERMS]


def is_telling(term: str) -> bool:
    """Whether a term is no function word, and long enough not to be one: `layer`, `x15`, `预算`; not `the` or `von`."""
    if term in _FUNCTION_STEMS:
        return False
    return len(term) >= _LEAST_LETTERS or not term.isalpha() or _DENSE_TERM.match(term) is not None


def is_pair(term: str) -> bool:
    """Whether a term is a pair of characters of a script without breaks between words: `预算`; not `is`."""
    return len(term) == 2 and _DENSE_TERM.match(term) is not None


def common_beginning(term: str) -> str:
    """How every other form of a word begins: `brück` for `brücken`; "" for a term that has none."""
    if len(term) < _LEAST_STEM or not term.isalpha() or _DENSE_TERM.match(term):
        return ""
    return term[: max(_LEAST_STEM, len(term) - _LONGEST_ENDING, -(-len(term) * 7 // 10))]


def is_form(term: str, other: str) -> bool:
    """Whether two terms may be forms of one word: they begin alike for at least 70 % of the longer one, and differ in
    endings of three letters at most. `brücke` and `brücken`; not `station` and `stationary`.
    """
    beginning = common_beginning(term)
    if term == other or not beginning or not other.isalpha() or not other.startswith(beginning):
        return False
    alike = next(
        (at for at, pair in enumerate(zip(term, other, strict=False)) if pair[0] != pair[1]), min(len(term), len(other))
    )
    longest = max(len(term), len(other))
    return longest - alike <= _LONGEST_ENDING and alike * 10 >= 7 * longest


def spans_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Where words stand, from and to, with the term of each; pairs of characters for scripts without breaks.

    Works word by word, so that the places are those of the text as it is.
    """
    for found in re.finditer(r"\S+", text):
        chunk = found.group()
        if chunk.isascii():
            for match in _TERM.finditer(chunk.lower()):
                yield found.start() + match.start(), found.start() + match.end(), stem(match.group())
        else:
            yield from _unicode_spans(chunk, found.start())


def _unicode_spans(chunk: str, at: int) -> Iterator[tuple[int, int, str]]:
    """As `spans_of`, for text whose normal form may have another length: character by character."""
    plain, places = "", []
    for index, character in enumerate(chunk):
        made = _normal(character)
        plain += made
        places += [index] * len(made)
    for match in _TERM.finditer(plain):
        pieces = _pieces(match, single=len(match.group()) == 1)
        for offset, length, term in pieces:
            begin = match.start() + offset
            yield at + places[begin], at + places[begin + length - 1] + 1, term


def _terms(text: str, *, single: bool) -> Iterator[str]:
    if text.isascii():
        for match in _TERM.finditer(text.lower()):
            yield stem(match.group())[:_LONGEST]
        return
    for match in _TERM.finditer(_normal(text)):
        alone = single or len(match.group()) == 1
        for _, _, term in _pieces(match, single=alone):
            yield term


def _pieces(match: re.Match[str], *, single: bool) -> Iterator[tuple[int, int, str]]:
    """Offset, length and term of what a run of one script is compared by."""
    run = match.group()
    if match["word"] is not None:
        yield 0, len(run), stem(run)[:_LONGEST]
        return
    if single or match["picture"] is not None:
        for index, character in enumerate(run):
            yield index, 1, character
    if match["dense"] is not None:
        for index in range(len(run) - 1):
            yield index, 2, run[index : index + 2]


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))).lower()


_ENDINGS = (("iness", "y"), ("ies", "y"), ("sses", "ss"), ("edly", ""), ("ing", ""), ("ed", ""), ("ly", ""), ("s", ""))


@lru_cache(50_000)
def stem(word: str) -> str:
    """An English word without its ending, lightly; other words lose little, and the same on both sides."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not (ending == "s" and word[-2] in "suis"):
            word = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed") and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word


_STOP_TERMS = frozenset(stem(word) for word in STOP_WORDS)
_FUNCTION_STEMS = frozenset(stem(_normal(word)) for word in FUNCTION_WORDS)
_FUNCTION_TERMS = frozenset(_normal(word) for word in FUNCTION_WORDS)
