"""Extractive summaries: the sentences most central to a text, by power iteration over its sentences and words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from lamella_simulator.answerer.ranking import Candidate, alike

ROUNDS = 12
SHORTEST, LONGEST = 35, 420


def central(pool: Sequence[Candidate], limit: int) -> list[Candidate]:
    """Up to `limit` sentences that share most with all others, in the order of the text.

    The score is the principal eigenvector of the sentence similarity matrix (as in TextRank), found on the sparse
    sentence-word graph, so that the cost is linear in the text. Openings of a document weigh a little more.
    """
    usable = [candidate for candidate in pool if quotable(candidate)]
    if not usable:
        usable = list(pool)
    scores = centrality(usable)
    chosen: list[int] = []
    for index in sorted(range(len(usable)), key=lambda i: (-round(scores[i], 9), i)):
        if len(chosen) == limit:
            break
        if not any(alike(usable[index], usable[other]) for other in chosen):
            chosen.append(index)
    return [usable[index] for index in sorted(chosen)]


def quotable(candidate: Candidate) -> bool:
    sentence = candidate.sentence
    return (
        sentence.kind in ("sentence", "item")
        and SHORTEST <= len(sentence.text) <= LONGEST
        and candidate.length >= 4
        and not sentence.text.endswith(("?", ":"))
    )


def centrality(pool: Sequence[Candidate]) -> list[float]:
    spread = Counter(stem for candidate in pool for stem in candidate.counts)
    rows = [weighted(candidate, spread, len(pool)) for candidate in pool]
    scores = [1.0] * len(pool)
    for _ in range(ROUNDS):
        by_word: dict[str, float] = {}
        for score, row in zip(scores, rows, strict=True):
            for stem, weight in row:
                by_word[stem] = by_word.get(stem, 0.0) + score * weight
        scores = [sum(by_word[stem] * weight for stem, weight in row) for row in rows]
        top = max(scores, default=0.0) or 1.0
        scores = [score / top for score in scores]
    return [score * (1.15 if candidate.position < 5 else 1.0) for score, candidate in zip(scores, pool, strict=True)]


def weighted(candidate: Candidate, spread: Counter[str], total: int) -> list[tuple[str, float]]:
    """A sentence as a unit vector of stems; words that stand in one sentence only connect nothing."""
    row = [
        (stem, (1 + math.log(count)) * math.log(1 + total / spread[stem]))
        for stem, count in sorted(candidate.counts.items())
        if spread[stem] > 1
    ]
    length = math.sqrt(sum(weight * weight for _, weight in row)) or 1.0
    return [(stem, weight / length) for stem, weight in row]
