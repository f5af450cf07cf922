"""Ranks passages of documents for a query. Pure.

A query is a bag of words with their order: a word that stands in it three times weighs more than one that stands there
once, and all of a long query count. A document gets one score, the sum of

- BM25 of the whole document, with the statistics of what is searched and of nothing else;
- half the BM25 of its best passage, so that a long document is found by the one page that answers;
- BM25 of pairs: two telling words of the query, one soon after the other, stand so in the document ("boundary layer");
- half the weight of each word among the document's first ones, where its title or subject stands.

Its passages share that score by their own BM25: the best one has it whole. Vectors come in as a similarity, relative to
the most similar passage. Every part is a sum over the words of the query, weighted by how rare they are. So the parts
have one scale, and a sentence of common words can lift nothing.

Example: for "boundary layer on a wing", a document that begins with "Wings" and says "the boundary layer" ranks before
one that says "a layer of paint at the boundary of the wing".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lamella.search.ranking import Corpus, Floats, Ints, first_of, weight_of
from lamella.search.terms import is_telling

K1 = 1.5
B = 0.75

REPEATED = 8.0
"""How much a word that is repeated in the query can weigh, at most, plus one (the k3 of BM25)."""

PASSAGE = 0.5
"""What the best passage of a document counts beside the whole."""

PAIR = 0.4
"""What a pair counts beside a word that is as rare."""

PAIR_GAP = 4
"""Words from the first word of a pair to the second, at most."""

LEAD = 0.5
"""What a word counts once more that stands among the first of its document."""

LEAD_TERMS = 16

PLACE_BITS = 16
"""An occurrence is the passage's number, shifted by this, plus the place of the word in the passage."""

_PLACES = (1 << PLACE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Ranked:
    """Scores of passages: `scores` is 0 for what was not found and 1 at most, `words` their own BM25."""

    scores: Floats
    words: Floats

    def first(self, limit: int) -> Ints:
        """The passages that were found, the best first."""
        order = first_of(self.scores, limit)
        return order[self.scores[order] > 0]


@dataclass(slots=True)
class _Texts:
    """Documents, or passages, as BM25 knows them: how long each is, and its sum so far."""

    pulls: Floats
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.zeros(len(self.pulls))

    @classmethod
    def of(cls, lengths: Floats) -> _Texts:
        return cls(K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0)))

    def add(self, holders: Ints, times: Ints, share: float) -> float:
        """Count a word of the query, or a pair; gives what it weighs here."""
        weight = share * weight_of(len(holders), len(self.pulls))
        self.scores[holders] += weight * times * (K1 + 1) / (times + self.pulls[holders])
        return weight


def rank_documents(
    corpus: Corpus, query: Sequence[str], held: Mapping[str, Ints], similar: Floats | None, weight: float
) -> Ranked:
    """The ranking of passages, given document after document.

    `query` are the words in their order, `held` has for each the occurrences in the corpus, rising. `similar` are the
    similarities of passages, 0 where they mean nothing; `weight` is what the most similar one counts beside the best by
    words.
    """
    count = len(corpus.lengths)
    if not count:
        return Ranked(np.zeros(0), np.zeros(0))
    words, own = _by_words(corpus, query, held)
    scores = _relative(words)
    if similar is not None and weight:
        scores = (scores + weight * _relative(similar)) / (1 + weight)
    return Ranked(scores, own)


def moved(occurrences: Ints, places: Ints) -> Ints:
    """The same occurrences in passages that have other numbers."""
    return (places << PLACE_BITS) | (occurrences & _PLACES)


def _by_words(corpus: Corpus, query: Sequence[str], held: Mapping[str, Ints]) -> tuple[Floats, Floats]:
    """What each passage scores by the words of the query, and its own BM25."""
    of = corpus.sessions
    firsts = np.flatnonzero(np.diff(of, prepend=-1))
    passages = _Texts.of(corpus.lengths)
    documents = _Texts.of(np.add.reduceat(corpus.lengths, firsts))
    is_first = np.zeros(len(of), np.bool_)
    is_first[firsts] = True
    lead = np.zeros(len(firsts))
    for term, times in Counter(query).items():
        places = held[term]
        if not len(places):
            continue
        share = _share(times)
        passages.add(*_counted(places >> PLACE_BITS), share)
        weight = documents.add(*_counted(of[places >> PLACE_BITS]), share)
        early = places[(places & _PLACES) < LEAD_TERMS] >> PLACE_BITS
        lead[np.unique(of[early[is_first[early]]])] += weight
    best = np.maximum.reduceat(passages.scores, firsts)
    for pair, times in _pairs(query, held):
        documents.add(*_counted(of[pair >> PLACE_BITS]), PAIR * _share(times))
    whole = documents.scores + PASSAGE * best + LEAD * lead
    return whole[of] * passages.scores / np.where(best > 0, best, 1.0)[of], passages.scores


def _pairs(query: Sequence[str], held: Mapping[str, Ints]) -> Iterator[tuple[Ints, int]]:
    """For each pair of telling words where it stands, if anywhere, and how often the query has it."""
    telling = [term for term in query if is_telling(term)]
    for (one, other), times in Counter(pairwise(telling)).items():
        firsts, seconds = held[one], held[other]
        if one == other or not len(firsts) or not len(seconds):
            continue
        after = np.searchsorted(seconds, firsts, side="right")
        gaps = seconds[np.minimum(after, len(seconds) - 1)] - firsts
        near = firsts[(gaps > 0) & (gaps <= PAIR_GAP)]
        if len(near):
            yield near, times


def _share(times: int) -> float:
    """What a word of the query counts that stands in it so often."""
    return (REPEATED + 1) * times / (REPEATED + times)


def _counted(rising: Ints) -> tuple[Ints, Ints]:
    """The numbers that stand in a rising row, each once, and how often."""
    starts = np.flatnonzero(np.diff(rising, prepend=-1))
    return rising[starts], np.diff(starts, append=len(rising))


def _relative(scores: Floats) -> Floats:
    top = float(scores.max())
    return scores / top if top > 0 else scores
