"""Where in a document an answer's statement comes from, so that a citation can open the place."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from math import log

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\s\"”'’»)]+|\n+")
_CITATIONS = re.compile(r"(?:\s*\[[\d\s,]+\])+\s*$")
_EDGES = " \t\n\"“”'’«»*_>-–—#.,;:!?…"
LONGEST_STATEMENT = 600
IN_THREAD_FROM = 100_000
"""Characters from which a document is indexed in a thread, so that packets of other turns go on."""

ENOUGH = 0.34
"""Share of a statement's weight that a passage must hold to be shown as its source."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end` of a document's text; `page` counts from 1 where the text has pages."""

    start: int
    end: int
    page: int | None


def statement_before(text: str) -> str:
    """The sentence that ends where a citation begins, other citations left out."""
    text = _CITATIONS.sub("", text[-LONGEST_STATEMENT:]).rstrip(_EDGES)
    pieces = _SENTENCE_END.split(text)
    return pieces[-1].strip(_EDGES) if pieces else ""


class _Index:
    """The sentences of a document with their words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: list[tuple[int, int]] = []
        self.holders: dict[str, list[int]] = {}
        start = 0
        for match in re.finditer(r"[.!?…。！？][\s\"”'’»)]+|\n\s*\n|\f|$", text):
            if text[start : match.end()].strip():
                span = (start, match.end())
                for word in set(_WORD.findall(text[span[0] : span[1]].casefold())):
                    self.holders.setdefault(word, []).append(len(self.spans))
                self.spans.append(span)
            start = match.end()

    def best(self, words: set[str]) -> tuple[int, int] | None:
        """The sentence with most of the weight of `words`: rare words weigh more."""
        weights = {w: log(1 + len(self.spans) / len(self.holders[w])) for w in words if w in self.holders}
        total = sum(weights.values()) + (len(words) - len(weights)) * log(1 + len(self.spans))
        scores: Counter[int] = Counter()
        for word, weight in weights.items():
            for sentence in self.holders[word]:
                scores[sentence] += weight  # type: ignore[assignment]  # weights are floats
        if not scores or not total:
            return None
        sentence, score = max(scores.items(), key=lambda item: (item[1], -item[0]))
        return self.spans[sentence] if score / total >= ENOUGH else None


class PassageFinder:
    """Finds passages; each document is indexed once."""

    def __init__(self) -> None:
        self._indexes: dict[str, _Index] = {}

    async def find(self, statement: str, key: str, text: str) -> Passage | None:
        """The passage of document `key` that holds `statement` word for word, else the sentence nearest to it."""
        words = _WORD.findall(statement.casefold())
        if not words or not text:
            return None
        if len(text) >= IN_THREAD_FROM:
            return await asyncio.to_thread(self._find, words, key, text)
        return self._find(words, key, text)

    def _find(self, words: list[str], key: str, text: str) -> Passage | None:
        literal = re.search(r"[\W_]+".join(map(re.escape, words)), text, re.IGNORECASE) if len(words) > 2 else None
        if literal is not None:
            return _passage(text, literal.start(), literal.end())
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = _Index(text)
        span = index.best(set(words))
        return _passage(text, *span) if span else None


def _passage(text: str, start: int, end: int) -> Passage:
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    end -= len(inner) - len(inner.rstrip())
    page = text.count("\f", 0, start) + 1 if "\f" in text else None
    return Passage(start, end, page)
