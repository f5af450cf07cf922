"""What may leave a restricted base: an answer set anew from ordinary words, less the sentences that tell too much.

    second model's words ──▶ sentences ──▶ looked up, word by word ──▶ compared with the passages ──▶ Released

A sentence is composed from words of the list, in the list's case, `. , ; : ? !` and single spaces; nothing is copied.
It is cut if it holds a character that the language does not have, a figure, a word that no list knows, a name of
the base, or too much of one sentence of a passage. The question frees nothing: else a reader could ask for a name by
saying it.

`Released` is the type of what may leave, and only this module makes one. Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import final

from lamella.guard.lexicon import Lexicon, Token, TokenKind
from lamella.guard.masking import Masked, sentence_tokens, spaced
from lamella.guard.terms import ProtectedTerms, keys_of

LONGEST_RUN = 5
"""Content words of a passage sentence that may not be said in order with gaps of at most `LONGEST_GAP`."""

LONGEST_GAP = 2

MOST_COVERED = 0.6
"""Share of the content words of a passage sentence that may not be said in any order."""

FEWEST_COVERED = 4
"""Content words of a passage sentence below which a share tells nothing."""

SPELLED = 3
"""Words of a spelling alphabet in one sentence."""

SHORTEST_HIDDEN = 5
"""Letters of a hidden word that is looked for in initials and halves: shorter ones are found by chance."""

MOST_SHORT = 8
"""Content words of a short answer."""

MOST_NAMED = 1
"""Sentences with a name of the base; with more, the answer is a list of guesses and none of it leaves."""


class CutReason(Enum):
    """Why a sentence is cut."""

    CHARACTER = "character"
    FIGURE = "figure"
    UNLISTED = "unlisted"
    """A word that no list of the language knows."""

    NAME = "name"
    TITLE = "title"
    """Two words of a title, heading or name of several words."""

    RUN = "run"
    """Too much of one sentence of a passage."""

    SPELLING = "spelling"
    DISGUISED = "disguised"
    """Initials or halves that make a hidden word; nothing of such an answer leaves."""

    COVERED = "covered"
    """With what the reader was told before, too much of one sentence of a passage."""


_FILE_ENDING = re.compile(r"\.[A-Za-z]{2,5}$")

REWRITABLE = frozenset({CutReason.CHARACTER, CutReason.FIGURE, CutReason.UNLISTED, CutReason.RUN})
"""Cuts that the second model is told. It is not told of names: it would learn which words are names."""


@final
@dataclass(frozen=True, slots=True)
class Released:
    """A text that may leave. Only this module makes one: of an answer, or of words that the owner wrote."""

    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


NOTHING = Released()


def released_choices(choices: Sequence[tuple[str, str]]) -> Released:
    """An answer of the owner's own words: the names of fields, each with the choice that was picked."""
    return Released(" ".join(f"{name}: {choice}." for name, choice in choices))


def released_existence(contact: str, lexicon: Lexicon) -> Released:
    """That there is something about a question, and whom to ask, in a language."""
    return Released(lexicon.language.there_is.replace("{contact}", contact))


@dataclass(frozen=True, slots=True)
class Checked:
    """A sentence of an answer: as it may leave, or why it is cut, and the words that it is cut for."""

    said: str
    text: str
    cuts: frozenset[CutReason] = frozenset()
    blocked: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """What may leave of an answer, and each of its sentences."""

    released: Released
    sentences: tuple[Checked, ...] = ()

    @property
    def cuts(self) -> tuple[str, ...]:
        """The reasons for which sentences were cut, each once."""
        return tuple(sorted({cut.value for sentence in self.sentences for cut in sentence.cuts}))

    @property
    def is_short(self) -> bool:
        """Whether it is one short sentence, which may be no more than a yes or a no."""
        leave = [one for one in self.sentences if one.text]
        return bool(self.released) and len(leave) == 1 and len(leave[0].stems) <= MOST_SHORT

    @property
    def rewritable(self) -> tuple[Checked, ...]:
        """Sentences that may be said in other words."""
        return tuple(one for one in self.sentences if one.cuts and one.cuts <= REWRITABLE)


class Shown:
    """The passages that an answer is made of, prepared for the comparison; `titles` are of documents and headings."""

    def __init__(self, passages: Sequence[Masked], titles: Iterable[Iterable[str]] = ()) -> None:
        self.hidden = frozenset(word for passage in passages for word in passage.hidden)
        self.sentences = [sentence for passage in passages for sentence in passage.sentences]
        self.owners = [number for number, passage in enumerate(passages) for _ in passage.sentences]
        self.titles = tuple(words for title in titles if len(words := frozenset(title)) > 1)
        self._places: defaultdict[str, set[int]] = defaultdict(set)
        for number, sentence in enumerate(self.sentences):
            for stem in sentence:
                self._places[stem].add(number)

    def holding(self, stems: Iterable[str]) -> Counter[int]:
        """How many of these content words each sentence of the passages has."""
        return Counter(number for stem in set(stems) for number in self._places.get(stem, ()))

    def is_told_by(self, stems: Sequence[str]) -> bool:
        """Whether content words, in their order, tell too much of one sentence."""
        for number, count in self.holding(stems).items():
            sentence = self.sentences[number]
            if _is_covered(count, len(set(sentence))):
                return True
            if count >= LONGEST_RUN and _has_run(stems, sentence):
                return True
        return False


def _is_covered(count: int, of: int) -> bool:
    return count >= FEWEST_COVERED and count >= MOST_COVERED * of


def _has_run(stems: Sequence[str], sentence: Sequence[str]) -> bool:
    """Whether `LONGEST_RUN` words of a sentence are said in its order, with small gaps on both sides."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, stem in enumerate(sentence):
        places[stem].append(at)
    longest: dict[tuple[int, int], int] = {}
    for at, stem in enumerate(stems):
        for place in places.get(stem, ()):
            before = (
                longest.get((at - back, place - step), 0)
                for back in range(1, LONGEST_GAP + 2)
                for step in range(1, LONGEST_GAP + 2)
            )
            longest[at, place] = 1 + max(before)
            if longest[at, place] >= LONGEST_RUN:
                return True
    return False


def title_stems(title: str, lexicon: Lexicon) -> frozenset[str]:
    """The content words of a title, of which no two may be said in one sentence."""
    plain = _FILE_ENDING.sub("", title)
    return frozenset(
        lexicon.stem(key)
        for key in keys_of(plain, lexicon)
        if lexicon.is_title_word(key) and not lexicon.language.is_number(key)
    )


def release(
    answer: str, lexicon: Lexicon, terms: ProtectedTerms, shown: Shown, told: Sequence[frozenset[str]] = ()
) -> Release:
    """What may leave of an answer. `told[n]` are the content words that its reader got of passage `n` before."""
    read = list(sentence_tokens(answer, lexicon))
    checked = [_checked(sentence, lexicon, terms, shown) for sentence in read]
    sentences = tuple(_uncovered([one for one in checked if one is not None], shown, told))
    named = sum(CutReason.NAME in one.cuts for one in sentences)
    if named > MOST_NAMED or _is_disguised(read, lexicon, shown):
        return Release(NOTHING, (*sentences, Checked("", "", frozenset({CutReason.DISGUISED}))))
    kept = [one.text for one in sentences if not one.cuts]
    return Release(Released((" " if lexicon.language.has_spaces else "").join(kept)), sentences)


def _checked(sentence: Sequence[Token], lexicon: Lexicon, terms: ProtectedTerms, shown: Shown) -> Checked | None:
    """One sentence; None if it has no word."""
    looked = _Sentence(lexicon, terms, shown)
    for at, token in enumerate(sentence):
        looked.read(sentence, at, token)
    said = "".join(_as_said(sentence))
    return looked.checked(said) if looked.words or looked.cuts else None


def _as_said(sentence: Sequence[Token]) -> Iterator[str]:
    for before, token in pairwise([None, *sentence]):
        assert token is not None
        yield (" " if before is not None and before.end < token.start else "") + token.text


class _Sentence:
    """One sentence while it is looked up and composed."""

    def __init__(self, lexicon: Lexicon, terms: ProtectedTerms, shown: Shown) -> None:
        self._lexicon = lexicon
        self._terms = terms
        self._shown = shown
        self.words: list[str] = []
        self.cuts: set[CutReason] = set()
        self._blocked: list[str] = []
        self._pieces: list[str] = []

    def read(self, sentence: Sequence[Token], at: int, token: Token) -> None:
        """Looks up one token."""
        match token.kind:
            case TokenKind.WORD:
                previous = sentence[at - 1].key if at else ""
                following = sentence[at + 1].key if at + 1 < len(sentence) else ""
                self._word(token.key, previous, following)
            case TokenKind.MARK:
                self._mark(token.text)
            case TokenKind.DIGITS | TokenKind.PLACEHOLDER:
                self._cut(CutReason.FIGURE, token.text)
            case TokenKind.CODE | TokenKind.BREAK:
                self._cut(CutReason.CHARACTER, token.text)

    def _cut(self, cut: CutReason, word: str) -> None:
        self.cuts.add(cut)
        if cut in REWRITABLE:
            self._blocked.append(word)

    def _mark(self, mark: str) -> None:
        plain = _MARKS.get(mark, "")
        if plain and self._pieces:
            if self._pieces[-1] in _CLOSING:
                self._pieces[-1] = plain if plain in ".?!" else self._pieces[-1]
            else:
                self._pieces.append(plain)

    def _word(self, key: str, previous: str, following: str) -> None:
        lexicon, spoken = self._lexicon, self._lexicon.language
        self.words.append(key)
        if spoken.is_number(key) or spoken.is_counted(key, following) or spoken.is_dated(previous, key):
            self._cut(CutReason.FIGURE, key)
        elif key in self._terms.allowed:
            self._pieces.append(key)
        elif key in spoken.function_words:
            self._pieces.append(lexicon.written(key))
        elif self._terms.is_name(key, lexicon):
            self._cut(CutReason.NAME, key)
        elif lexicon.is_listed(key):
            self._pieces.append(lexicon.written(key, previous))
        elif parts := lexicon.parts(key) if key not in self._shown.hidden else ():
            self._compound(key, parts)
        else:
            self._cut(CutReason.UNLISTED, key)

    def _compound(self, key: str, parts: Sequence[str]) -> None:
        if any(self._terms.is_name(part, self._lexicon) for part in parts):
            self._cut(CutReason.NAME, key)
        else:
            self._pieces.append(self._lexicon.written(key))

    def checked(self, said: str) -> Checked:
        """The sentence after its last token."""
        lexicon = self._lexicon
        stem_of = {key: lexicon.stem(key) for key in self.words}
        stems = tuple(stem_of[key] for key in self.words if lexicon.is_content(key))
        if any(self._terms.phrase_at(self.words, at, lexicon) for at in range(len(self.words))):
            self.cuts.add(CutReason.NAME)
        if sum(key in lexicon.language.spelling_alphabet for key in self.words) >= SPELLED:
            self.cuts.add(CutReason.SPELLING)
        if self._shown.titles and self._has_title({stem_of[key] for key in stem_of if lexicon.is_title_word(key)}):
            self.cuts.add(CutReason.TITLE)
        if self._shown.is_told_by(stems):
            self._cut(CutReason.RUN, "")
        text = "" if self.cuts else composed(self._pieces, lexicon)
        return Checked(said, text, frozenset(self.cuts), tuple(word for word in self._blocked if word), stems)

    def _has_title(self, stems: set[str]) -> bool:
        return any(len(title & stems) > 1 for title in self._shown.titles)


_MARKS = {
    ".": ".", ",": ",", ";": ";", ":": ":", "?": "?", "!": "!", "…": ".",
    "。": ".", "，": ",", "、": ",", "；": ";", "：": ":", "？": "?", "！": "!", "–": ",", "—": ",",
}  # fmt: skip
_CLOSING = frozenset(".,;:?!")
_WIDE = str.maketrans({".": "。", ",": "，", ";": "；", ":": "：", "?": "？", "!": "！"})


def composed(pieces: Sequence[str], lexicon: Lexicon) -> str:
    """A sentence of words and marks: a capital at its start, a mark at its end."""
    marked = list(pieces)
    if marked and marked[-1] not in (".", "?", "!"):
        marked[-1:] = ["."] if marked[-1] in _CLOSING else [marked[-1], "."]
    text = spaced(marked, lexicon)
    if not lexicon.language.has_spaces:
        return text.translate(_WIDE)
    opening = "¿" if lexicon.code == "es" and text.endswith("?") else ""
    return opening + text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class ReleasedWords:
    """What an answer tells of a passage: the passage's content words that leave, and the sentences that say them."""

    words: frozenset[str] = frozenset()
    sentences: tuple[str, ...] = ()


def told_by(release_of_answer: Release, shown: Shown) -> dict[int, ReleasedWords]:
    """What leaves of each passage, by its number; a passage of which nothing leaves is left out."""
    leaving: defaultdict[int, ReleasedWords] = defaultdict(ReleasedWords)
    for one in release_of_answer.sentences if release_of_answer.released else ():
        by_passage: defaultdict[int, set[str]] = defaultdict(set)
        for number in shown.holding(one.stems) if one.text else ():
            by_passage[shown.owners[number]] |= set(one.stems) & set(shown.sentences[number])
        for owner, words in by_passage.items():
            leaving[owner] = ReleasedWords(leaving[owner].words | words, (*leaving[owner].sentences, one.text))
    return dict(leaving)


def _uncovered(sentences: Sequence[Checked], shown: Shown, told: Sequence[frozenset[str]]) -> Iterator[Checked]:
    """Sentences in order, those cut that tell too much together with earlier ones and with what was told before."""
    known: list[set[str]] = [set(told[owner]) if owner < len(told) else set() for owner in shown.owners]
    for one in sentences:
        touched = shown.holding(one.stems) if not one.cuts else ()
        stems = set(one.stems)
        if any(_is_too_much(set(shown.sentences[number]), known[number], stems) for number in touched):
            yield Checked(one.said, "", frozenset({CutReason.COVERED}), (), one.stems)
            continue
        for number in touched:
            known[number] |= stems
        yield one


def _is_too_much(sentence: set[str], known: set[str], new: set[str]) -> bool:
    """Whether new words bring what is known of a sentence over the bound; what is known already may be said again."""
    covered = sentence & (known | new)
    return bool(sentence & new - known) and (len(covered) >= LONGEST_RUN or _is_covered(len(covered), len(sentence)))


def _is_disguised(read: Sequence[Sequence[Token]], lexicon: Lexicon, shown: Shown) -> bool:
    """Whether initials, last letters, halves or reversed words make a word that the passages hide."""
    hidden = {word for word in shown.hidden if len(word) >= SHORTEST_HIDDEN}
    if not hidden or not lexicon.language.has_spaces:
        return False
    sentences = [[t.key for t in tokens if t.kind is TokenKind.WORD] for tokens in read]
    words = [word for sentence in sentences for word in sentence]
    if any(word[::-1] in hidden or word + after in hidden for word, after in pairwise([*words, ""])):
        return True
    firsts = [sentence[0] for sentence in sentences if sentence]
    streams = [
        "".join(word[at] for word in run)[::way] for run in (words, firsts) for at in (0, -1) for way in (1, -1) if run
    ]
    return any(word in stream for word in hidden for stream in streams)
