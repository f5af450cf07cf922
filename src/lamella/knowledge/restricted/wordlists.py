"""Reads the word lists of restricted access: frequencies from `wordfreq`, German nouns from `simplemma`.

Both come with `pip install 'lamella[restricted]'`: their data has licences of its own and is not in our wheel.
A list has 30,000 to 110,000 words and is read in 0.03 to 0.2 s; German takes a second more. Import this module only if
both packages are installed (`app.second`).
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

import msgspec
from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

from lamella.guard.language import CODES, language
from lamella.guard.lexicon import Lexicon

LEAST_FREQUENCY = 2.6
"""Zipf, log10 per billion words: rarer words may not be said. At 3.5 fewer honest sentences are kept."""


RARER_VERB = 0.7
"""By how much a verb is rarer (zipf) than the noun that one of its forms looks like."""


@lru_cache(maxsize=len(CODES))
def lexicon(code: str) -> Lexicon:
    """The words of one language, kept in memory after the first call. Raises `FileNotFoundError` for another one."""
    spoken = language(code)
    words = dict(_frequencies(code))
    ordinary = spoken.function_words | spoken.glossary
    names = frozenset(name for name in spoken.first_names | spoken.surnames if name not in ordinary)
    if code != "de":
        return Lexicon(spoken, words, names)
    german = _german(words)
    known = Lexicon(spoken, words, names, german.nouns, german.small)
    unlike = frozenset(word for word in german.invariant if not _is_ordinary(word, known))
    return replace(known, names=names | unlike, nouns=german.nouns - unlike)


def lexicons() -> dict[str, Lexicon]:
    """All languages."""
    return {code: lexicon(code) for code in CODES}


def _frequencies(code: str) -> Iterable[tuple[str, float]]:
    """Words with their frequency. A bin of the file holds the words of one hundredth of a zipf, the commonest first."""
    packed = files("wordfreq").joinpath("data", f"large_{code}.msgpack.gz").read_bytes()
    # Most of the file are rarer words: bins are taken apart only as far as they are needed.
    bins = msgspec.msgpack.decode(gzip.decompress(packed), type=list[msgspec.Raw])
    for centibels, raw in enumerate(bins[1 : round((9 - LEAST_FREQUENCY) * 100) + 2]):
        zipf = 9 - centibels / 100
        for word in msgspec.msgpack.decode(raw, type=list[str]):
            if word.replace("'", "").isalpha():
                yield word, zipf


@dataclass(frozen=True, slots=True)
class _German:
    """Words of the list, in lower case: `nouns` are written with a capital and in no other way, `small` are not.

    `invariant` nouns have no other form than a genitive in -s, as names have.
    """

    nouns: frozenset[str]
    small: frozenset[str]
    invariant: frozenset[str]


def _german(words: Mapping[str, float]) -> _German:
    small: dict[str, str] = {}
    nouns: dict[str, str] = {}
    forms: defaultdict[str, int] = defaultdict(int)
    for form, lemma in DefaultDictionaryFactory(cache_max_size=0).get_dictionary("de").items():
        key = form.casefold()
        if not form[:1].isupper():
            if key in words:
                small[key] = lemma.casefold()
        elif lemma[:1].isupper():
            base = lemma.casefold()
            forms[base] += key.removeprefix(base) not in ("", "s", "'")
            if key in words:
                nouns[key] = base
    known = {
        key
        for key, base in nouns.items()
        if (key not in small or (base == key and _is_rather_noun(key, small[key], words)))
    }
    alone = {key for key in known if not forms.get(key, 0) and not forms.get(key.removesuffix("s"), 0)}
    invariant = {key for key in alone if nouns[key] in (key, key.removesuffix("s"))}
    # The strings of the list, not those of the dictionary, which has many times as many and is given up here.
    return _German(
        frozenset(key for key in words if key in known),
        frozenset(key for key in words if key in small and key not in known),
        frozenset(key for key in words if key in invariant),
    )


def _is_rather_noun(key: str, verb: str, words: Mapping[str, float]) -> bool:
    """Whether a word is a noun although it is a form of a verb too, because the verb is rare: Sicht."""
    is_longer = len(verb) > len(key) and verb.startswith(key[:-1])
    return is_longer and words.get(verb, 0.0) < words[key] - RARER_VERB


def _is_ordinary(word: str, lexicon: Lexicon) -> bool:
    """Whether a noun without other forms is no name: an abstract noun, a compound, or a noun of the language file."""
    return (
        word in lexicon.language.nouns
        or word.endswith(("e", "ik", "anz", "enz", *lexicon.language.noun_suffixes))
        or bool(lexicon.parts(word))
    )
