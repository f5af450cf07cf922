"""Keeps texts that a model was shown, and nobody is to read, out of what it says while it says it.

Pieces in, pieces out: what can't become a run of such a text any more is let through at once; at most five words wait.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lamella.guard.letters import FUNCTION_WORDS, fold, is_ideograph, words_of

RUN = 6
"""Words in a row of such a text that are left out; of a shorter text, all of it."""

SHORTEST = 4
"""Words of a text that is kept back at all: fewer are names of things."""

CONTENT = 3
"""Words in a run that carry a content."""

LEFT_OUT = "[left out]"


class KeptBack:
    """The runs of texts that are kept back. What the reader `said` may be said again."""

    def __init__(self, texts: Iterable[str], said: Iterable[str] = ()) -> None:
        spoken = {run for text in said for run in _runs(_keys(text))}
        runs = {run for text in texts for run in _runs(_keys(text)) if _tells(run)} - spoken
        self.runs = frozenset(runs)
        self.beginnings = frozenset(run[:length] for run in runs for length in range(1, len(run)))
        self.lengths = tuple(sorted({len(run) for run in runs}, reverse=True))
        self.vocabulary = frozenset(word for run in runs for word in run)

    def begins_word(self, text: str) -> bool:
        """Whether a word that begins so may be one of theirs."""
        if not text or text.isdecimal():
            return True
        return any(word.startswith(text) for word in self.vocabulary)


def _keys(text: str) -> list[str]:
    return [word.text for word in words_of(fold(text))]


def _runs(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    length = min(RUN, len(words))
    if length >= SHORTEST:
        for at in range(len(words) - length + 1):
            yield tuple(words[at : at + length])


def _tells(run: Sequence[str]) -> bool:
    return len({word for word in run if word not in FUNCTION_WORDS}) >= CONTENT


@dataclass(slots=True)
class _Said:
    """A word that waits: as it compares, what stood before it, and itself. One that was left out shows nothing."""

    key: str
    before: str
    word: str
    left_out: bool = False

    @property
    def shown(self) -> str:
        return self.before + self.word


class Sieve:
    """One text that passes, in pieces of any size: the same comes out, however it was cut."""

    def __init__(self, kept: KeptBack) -> None:
        self._kept = kept
        self._waiting: list[_Said] = []
        self._gap = ""
        self._word = ""
        self._passing = False
        self.left_out = 0
        """Runs that were left out."""

    def feed(self, text: str) -> str:
        """What may be shown by now."""
        out: list[str] = []
        for character in text:
            if is_ideograph(character):
                out.append(self._ended())
                self._word = character
                out.append(self._ended())
            elif _in_word(character):
                if self._passing:
                    out.append(character)
                    continue
                self._word += character
                if not self._kept.begins_word(_prefix(self._word)):
                    out.append(self._passed())
            else:
                out.append(self._ended())
                self._gap += character
                if not self._waiting:
                    out.append(self._gap)
                    self._gap = ""
        return "".join(out)

    def end(self) -> str:
        """The rest."""
        rest = self._ended() + "".join(said.shown for said in self._waiting) + self._gap
        self._waiting, self._gap = [], ""
        return rest

    def _passed(self) -> str:
        """The word that is being said is none of theirs: whatever waits can become no run any more."""
        out = "".join(said.shown for said in self._waiting) + self._gap + self._word
        self._waiting, self._gap, self._word, self._passing = [], "", "", True
        return out

    def _ended(self) -> str:
        """A word is whole."""
        self._passing = False
        if not self._word:
            return ""
        keys = _keys(self._word)
        if len(keys) != 1:
            out = self._passed()
            self._passing = False
            return out
        self._waiting.append(_Said(keys[0], self._gap, self._word))
        self._gap, self._word = "", ""
        self._leave_out()
        words = [said.key for said in self._waiting]
        most = min(len(words), RUN - 1)
        held = next((length for length in range(most, 0, -1) if tuple(words[-length:]) in self._kept.beginnings), 0)
        ready = self._waiting[: len(words) - held]
        self._waiting = self._waiting[len(words) - held :]
        return "".join(said.shown for said in ready)

    def _leave_out(self) -> None:
        for length in self._kept.lengths:
            run = self._waiting[-length:]
            if tuple(said.key for said in run) not in self._kept.runs:
                continue
            goes_on = any(said.left_out for said in run)
            for number, said in enumerate(run):
                if not said.left_out:
                    first = number == 0 and not goes_on
                    said.before, said.word = (said.before, LEFT_OUT) if first else ("", "")
                    said.left_out = True
            self.left_out += not goes_on
            return


def _in_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Me", "Cf")


def _prefix(word: str) -> str:
    keys = _keys(word)
    return keys[0] if keys else ""
