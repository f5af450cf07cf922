"""Masks a protected passage: the second model sees ordinary words, and a placeholder for everything else.

    Project Falcon costs 1.2 million euros; Ms Stone signed on 3 May.
    Project [name] costs [figure] euros; Ms [name] signed on [figure].

A passage is not changed but set anew: each word that stays is the list's own, so that no letter of the passage (a
look-alike, an invisible sign, a capital) can carry anything. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.guard.lexicon import FEWEST_WORDS, Lexicon, Token, TokenKind, tokens
from lamella.guard.names import ORDINARY, SENTENCE_ENDS, PlacedToken, named_places, placed
from lamella.guard.terms import ProtectedTerms, is_heading, lines_of

FIGURE, NAME, TERM = "[figure]", "[name]", "[term]"

_PLAIN = {"。": ".", "，": ",", "、": ",", "；": ";", "：": ":", "？": "?", "！": "!", "…": "."}
_KEPT = frozenset(".,;:?!")
NO_SPACE_AFTER = frozenset({"'"})


@dataclass(frozen=True, slots=True)
class Masked:
    """A passage as the second model sees it. `hidden` are the words that it does not see, in lower case."""

    text: str
    hidden: frozenset[str]
    sentences: tuple[tuple[str, ...], ...]
    """The visible content words of each sentence, for the checks of what is released."""


def mask(text: str, lexicon: Lexicon, terms: ProtectedTerms) -> Masked:
    """The passage with `[figure]`, `[name]` and `[term]` in place of what may not be seen; headings are left out."""
    lines: list[str] = []
    hidden: set[str] = set()
    sentences: list[tuple[str, ...]] = []
    plain = unicodedata.normalize("NFC", text)
    for line in filter(is_heading, plain.splitlines()):
        hidden.update(token.key for token in tokens(line, lexicon.code) if token.kind is TokenKind.WORD)
    for line in lines_of(plain):
        masking = _Line(lexicon, terms)
        written = masking.write(line)
        hidden.update(masking.hidden)
        sentences += masking.sentences
        if written:
            lines.append(written)
    return Masked("\n".join(lines), frozenset(hidden), tuple(sentences))


def visible_words(text: str, lexicon: Lexicon, terms: ProtectedTerms) -> str:
    """The words of a question that a masked passage could hold: what is searched for can't depend on a hidden word."""
    seen = mask(text, lexicon, terms).text
    for placeholder in (FIGURE, NAME, TERM):
        seen = seen.replace(placeholder, " ")
    return " ".join(seen.split())


def without_figures(text: str, lexicons: Mapping[str, Lexicon], code: str) -> str:
    """A question with `[figure]` in place of its numbers and dates: nobody can say yes or no to a hidden figure.

    `code` is the language that it seems to have. Numerals of the others go too (`Is it siete?`), if its own language
    hardly knows the word; a question of a few words may be in any of them.
    """
    own = lexicons.get(code)
    if own is not None and own.language.has_spaces and len(text.split()) < FEWEST_WORDS:
        own = None
    # A width or an invisible character hides no numeral; what is numeric by itself (`Ⅳ`) stays so.
    seen = (one for one in text if unicodedata.category(one) != "Cf")
    text = "".join(unicodedata.normalize("NFKC", one) if one.isalpha() else one for one in seen)
    for lexicon in lexicons.values():
        # Chinese takes Japanese apart at the wrong places.
        if not (own and own.code == "ja" and lexicon.code == "zh"):
            text = _without_figures(text, lexicon, own)
    return text


def _without_figures(text: str, lexicon: Lexicon, own: Lexicon | None) -> str:
    """The text without the numbers of one language; `own` is that of the question, if it can be told."""
    out: list[str] = []
    done = 0
    line = list(placed(tokens(text, lexicon.code), lexicon))
    for at, place in enumerate(line):
        token = place.token
        previous = line[at - 1].token.key if at else ""
        following = line[at + 1].token.key if at + 1 < len(line) else ""
        if lexicon is own or own is None:
            hidden = _is_figure(token, previous, following, lexicon) or _has_numeral(token, lexicon)
        else:
            hidden = lexicon.language.is_number(token.key) and not _is_usual(token.key, own)
        if hidden and token.kind is not TokenKind.PLACEHOLDER:
            out += [text[done : token.start], FIGURE]
            done = token.end
    return "".join([*out, text[done:]])


def _is_usual(key: str, lexicon: Lexicon) -> bool:
    return key in lexicon.language.function_words or lexicon.frequency(key) >= ORDINARY


_ROMAN = re.compile("M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?:e|er|ème)?")


def _has_numeral(token: Token, lexicon: Lexicon) -> bool:
    """Whether a numeral stands in a token that no list knows: `½`, `Ⅳ`, `XLII`, `⑫`, 陆仟元."""
    if token.kind is TokenKind.CODE:
        return any(character.isnumeric() for character in token.text)
    if token.kind is not TokenKind.WORD or lexicon.is_listed(token.key):
        return False
    if lexicon.language.has_spaces:
        return len(token.text) > 1 and _ROMAN.fullmatch(token.text) is not None
    return any(character in lexicon.language.numerals or character.isnumeric() for character in token.key)


def _is_figure(token: Token, previous: str, following: str, lexicon: Lexicon) -> bool:
    if token.kind is TokenKind.DIGITS or (token.kind is TokenKind.CODE and any(c.isdigit() for c in token.text)):
        return True
    spoken = lexicon.language
    return token.kind is TokenKind.WORD and (
        spoken.is_number(token.key) or spoken.is_counted(token.key, following) or spoken.is_dated(previous, token.key)
    )


class _Line:
    """One line while it is set anew."""

    def __init__(self, lexicon: Lexicon, terms: ProtectedTerms) -> None:
        self._lexicon = lexicon
        self._terms = terms
        self.hidden: set[str] = set()
        self.sentences: list[tuple[str, ...]] = []
        self._content: list[str] = []

    def write(self, line: str) -> str:
        """The line as it may be seen."""
        found = list(placed(tokens(line, self._lexicon.code), self._lexicon))
        named = named_places(found, self._lexicon) | self._phrases(found)
        pieces: list[str] = []
        for at, place in enumerate(found):
            piece = self._piece(found, at, place, at in named)
            if piece in (FIGURE, NAME, TERM):
                self.hidden.add(place.token.key)
            # `[name] [name]` would tell how many words a name has.
            if piece and not (pieces and piece == pieces[-1] and piece.startswith("[")):
                pieces.append(piece)
            if place.token.text in SENTENCE_ENDS:
                self._end()
        self._end()
        return spaced(pieces, self._lexicon)

    def _end(self) -> None:
        if self._content:
            self.sentences.append(tuple(self._content))
            self._content = []

    def _phrases(self, line: Sequence[PlacedToken]) -> frozenset[int]:
        """The places of names of several words or characters that the base is known to have."""
        keys = [place.token.key for place in line]
        found: set[int] = set()
        for at in range(len(line)):
            found.update(range(at, at + self._terms.phrase_at(keys, at, self._lexicon)))
        return frozenset(found)

    def _piece(self, line: Sequence[PlacedToken], at: int, place: PlacedToken, is_named: bool) -> str:
        token = place.token
        match token.kind:
            case TokenKind.DIGITS:
                return FIGURE
            case TokenKind.CODE:
                return FIGURE if token.text[0].isdigit() else TERM if any(c.isalnum() for c in token.text) else ""
            case TokenKind.PLACEHOLDER:
                return TERM
            case TokenKind.MARK:
                return token.text if token.text in _KEPT else _PLAIN.get(token.text, "")
            case TokenKind.BREAK:
                return ""
            case TokenKind.WORD:
                return self._word(line, at, place, is_named)

    def _word(self, line: Sequence[PlacedToken], at: int, place: PlacedToken, is_named: bool) -> str:
        token, lexicon = place.token, self._lexicon
        previous = line[at - 1].token.key if at else ""
        following = line[at + 1].token.key if at + 1 < len(line) else ""
        spoken = lexicon.language
        before = line[at - 2].token.key if at > 1 else ""
        if (
            _is_figure(token, previous, following, lexicon)
            or spoken.is_added(before, previous, token.key)
            or self._is_month(line, at, place)
        ):
            return FIGURE
        if token.key in spoken.function_words and not is_named:
            return lexicon.written(token.key)
        if token.key in self._terms.allowed:
            return token.key
        if is_named or self._terms.is_name(token.key, lexicon) or self._looks_named(line, at, place):
            return NAME
        if not lexicon.is_listed(token.key):
            return NAME if token.is_capital and lexicon.code != "de" else TERM
        self._content.append(lexicon.stem(token.key))
        return lexicon.written(token.key, previous)

    def _is_month(self, line: Sequence[PlacedToken], at: int, place: PlacedToken) -> bool:
        """Whether an ordinary word with a capital is a month: `12 May`, `31. August`."""
        token = place.token
        if token.key not in self._lexicon.language.ambiguous_dates or not token.is_capital:
            return False
        return not place.starts or any(before.token.kind is TokenKind.DIGITS for before in line[max(0, at - 2) : at])

    def _looks_named(self, line: Sequence[PlacedToken], at: int, place: PlacedToken) -> bool:
        """Names at the start of a sentence or cell, where a capital alone tells nothing."""
        token, lexicon = place.token, self._lexicon
        if not lexicon.language.has_spaces or token.key in lexicon.language.written:
            return False
        if token.is_shouted:
            return len(token.text) > 3
        if not token.is_capital:
            return False
        if token.key in lexicon.names:
            return True
        if lexicon.code == "de":
            return False
        following = line[at + 1].token if at + 1 < len(line) else None
        if place.starts and following is not None and following.kind is TokenKind.WORD and following.is_capital:
            return (
                following.key not in lexicon.language.written and following.key not in lexicon.language.function_words
            )
        return place.cell and token.key not in self._terms.small


def spaced(pieces: Sequence[str], lexicon: Lexicon) -> str:
    """Words and marks in a row as a text: single spaces, none before a mark, none between Chinese characters."""
    out: list[str] = []
    for piece in pieces:
        tight = piece in _KEPT or (out and out[-1][-1:] in NO_SPACE_AFTER) or not lexicon.language.has_spaces
        if out and not tight:
            out.append(" ")
        out.append(piece)
    return "".join(out).strip()


def sentence_tokens(text: str, lexicon: Lexicon) -> Iterator[list[Token]]:
    """The tokens of each sentence of a text; a mark that ends it is its last."""
    sentence: list[Token] = []
    for place in placed(tokens(unicodedata.normalize("NFC", text), lexicon.code), lexicon):
        token = place.token
        if token.kind is TokenKind.BREAK:
            if sentence:
                yield sentence
            sentence = []
            continue
        sentence.append(token)
        if token.text in ".!?…。！？":
            yield sentence
            sentence = []
    if sentence:
        yield sentence
