"""Ranks sentences: by BM25 overlap with a question, or, for a summary, by how central they are to the text.

Headings and titles lend their words to the sentences below them, and newer documents win ties. Centrality is found by
power iteration over sentences and words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lamella_simulator.answerer.conversation import Document
from lamella_simulator.answerer.sentences import Sentence, split
from lamella_simulator.answerer.words import CJK, words

SATURATION = 1.2
LENGTH_WEIGHT = 0.5
HEADING_WEIGHT = 0.4
TITLE_WEIGHT = 0.25
HEADING_PENALTY = 0.45
LONGER = 0.6
SHORTER = 0.3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of a document with its counted stems; `position` is its place in the document."""

    document: Document
    sentence: Sentence
    position: int
    counts: Mapping[str, int]
    length: int


@dataclass(frozen=True, slots=True)
class Match:
    candidate: Candidate
    score: float
    coverage: float
    """Share of the question's weight that the sentence and its heading carry, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """How often a stem stands in a sentence, and how like the stem its best form there is, up to 1."""

    number: float
    likeness: float


@lru_cache(maxsize=256)
def counted(contents: str) -> tuple[tuple[Sentence, Mapping[str, int], int], ...]:
    """The sentences of a document with their stems counted."""
    rows = []
    for sentence in split(contents):
        stems = words(sentence.text)
        rows.append((sentence, Counter(stems), len(stems)))
    return tuple(rows)


def candidates(documents: Iterable[Document]) -> list[Candidate]:
    return [
        Candidate(document, sentence, position, counts, length)
        for document in documents
        if document.contents
        for position, (sentence, counts, length) in enumerate(counted(document.contents))
    ]


@dataclass(frozen=True, slots=True)
class Query:
    """Stems of the question with their weights; words of earlier questions weigh less."""

    weights: Mapping[str, float]

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(self.weights)


def rank(query: Query, pool: Sequence[Candidate]) -> list[Match]:
    """Every sentence that shares a word with the query, best first."""
    if not pool or not query.weights:
        return []
    spelt = spellings(query, pool)
    rarity = rarities(query, spelt, pool)
    whole = sum(rarity[stem] * weight for stem, weight in query.weights.items())
    average = sum(candidate.length for candidate in pool) / len(pool) or 1.0
    titles = {id(c.document): frozenset(words(f"{c.document.title} {c.document.metadata}")) for c in pool}
    matches = []
    for candidate in pool:
        if own := occurrences(candidate, spelt):
            total, covered = score(candidate, own, query, rarity, average, titles[id(candidate.document)])
            matches.append(Match(candidate, total, covered / (whole or 1.0)))
    return sorted(matches, key=order)


def spellings(query: Query, pool: Sequence[Candidate]) -> dict[str, dict[str, float]]:
    """For each stem of the query the stems that count for it: itself, and by part longer or shorter forms."""
    vocabulary = sorted({stem for candidate in pool for stem in candidate.counts})
    return {
        stem: {stem: 1.0} | {other: share for other in vocabulary if (share := related(stem, other))}
        for stem in sorted(query.stems)
    }


def related(stem: str, other: str) -> float:
    """Compounds and derived forms: one begins or ends with the whole other. A longer form says more than the query
    asked (Frist, Kündigungsfrist) and counts for more than a shorter one, which may say something else."""
    short, long = (stem, other) if len(stem) < len(other) else (other, stem)
    if len(short) < 5 or len(short) == len(long) or not short.isalpha():
        return 0.0
    if not (long.startswith(short) or long.endswith(short)):
        return 0.0
    return LONGER if long == other else SHORTER


def occurrences(candidate: Candidate, spelt: Mapping[str, Mapping[str, float]]) -> dict[str, Occurrence]:
    """How often each stem of the query stands in a sentence; related forms count by part."""
    found: dict[str, Occurrence] = {}
    for stem, forms in spelt.items():
        present = forms.keys() & candidate.counts.keys()
        if present:
            number = sum(forms[form] * candidate.counts[form] for form in sorted(present))
            found[stem] = Occurrence(number, max(forms[form] for form in present))
    return found


def order(match: Match) -> tuple[float, int, int, int]:
    """Best score first; on ties the newest document, then the earliest sentence."""
    candidate = match.candidate
    return (-round(match.score, 6), -candidate.document.group, -candidate.document.number, candidate.position)


def rarities(query: Query, spelt: Mapping[str, Mapping[str, float]], pool: Sequence[Candidate]) -> dict[str, float]:
    """BM25's inverse document frequency; what no sentence has weighs half, pairs across CJK words nothing."""
    total = len(pool)
    weights = {}
    for stem, forms in spelt.items():
        seen = sum(1 for candidate in pool if not forms.keys().isdisjoint(candidate.counts))
        weight = math.log(1 + (total - seen + 0.5) / (seen + 0.5))
        weights[stem] = weight if seen else 0.0 if CJK.match(stem) else weight / 2
    return weights


def score(
    candidate: Candidate,
    own: Mapping[str, Occurrence],
    query: Query,
    rarity: Mapping[str, float],
    average: float,
    title: frozenset[str],
) -> tuple[float, float]:
    """BM25 with borrowed words, and the weight of the question that is covered."""
    norm = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * candidate.length / average)
    heading = frozenset(words(candidate.sentence.heading))
    total = covered = 0.0
    for stem in sorted(query.weights):
        weight = query.weights[stem] * rarity[stem]
        if (found := own.get(stem)) is not None:
            total += weight * found.number * (SATURATION + 1) / (found.number + norm)
            covered += weight * found.likeness
        elif stem in heading:
            total += weight * HEADING_WEIGHT
            covered += weight * HEADING_WEIGHT
        elif stem in title:
            total += weight * TITLE_WEIGHT
            covered += weight * TITLE_WEIGHT
    if candidate.sentence.kind == "heading":
        total *= HEADING_PENALTY
    return total, covered


def distinct(matches: Sequence[Match], limit: int, floor: float) -> list[Match]:
    """The best matches: near the best score, and none that repeats another."""
    chosen: list[Match] = []
    for match in matches:
        if len(chosen) == limit or (chosen and match.score < floor * chosen[0].score):
            break
        if chosen and match.coverage < floor * chosen[0].coverage:
            continue
        if not any(alike(match.candidate, other.candidate) for other in chosen):
            chosen.append(match)
    return chosen


def alike(one: Candidate, other: Candidate) -> bool:
    first, second = set(one.counts), set(other.counts)
    together = len(first | second)
    return not together or len(first & second) / together > 0.7


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
