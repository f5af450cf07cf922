"""Ranks passages of documents for a query. Pure.

A query is a bag of words with their order: a word that stands in it three times weighs more than one that stands there
once, and all of a long query count. A document gets one score, the sum of

- BM25 of the whole document, with the statistics of what is searched and of nothing else;
- half the BM25 of its best passage, so that a long document is found by the one page that answers;
- BM25 of pairs: two telling words of the query, one soon after the other, stand so in the document ("boundary layer");
- 0.8 of the weight of each word among the document's first ones, where its title or subject stands.

Three rules hold for every part:

- Other forms of a word (`terms.is_form`) count less than the word: "Brücken" for "Brücke".
- In a long query rare words gain on common ones, which would otherwise decide by their number.
- Pairs of characters, as scripts without breaks between words have them, overlap. Each counts about half a word.

Its passages share that score by their own BM25: the best one has it whole. Vectors count by how far a similarity stands
above the mean of what is searched, and for more the further the nearest passage stands out. An embedder that finds
everything alike, such as an English one in German texts, changes little.

Every part is a sum over the words of the query, weighted by how rare they are. So the parts
have one scale, and a sentence of common words can lift nothing.

Example: for "boundary layer on a wing", a document that begins with "Wings" and says "the boundary layer" ranks before
one that says "a layer of paint at the boundary of the wing".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2

import numpy as np

from lamella.core.recall import Space
from lamella.search.ranking import (
    PLACE_BITS,
    Corpus,
    Floats,
    Ints,
    Matches,
    Ranking,
    counted,
    place_in,
    relative,
    weight_of,
)
from lamella.search.terms import is_pair, is_telling

K1 = 1.5
B = 0.75

REPEATED = 8.0
"""How much a word that is repeated in the query can weigh, at most, plus one (the k3 of BM25)."""

PASSAGE = 0.5
"""Weight of a document's best passage, relative to the whole document."""

PAIR = 0.4
"""Weight of a pair of words, relative to a word that is as rare."""

PAIR_GAP = 4
"""Words from the first word of a pair to the second, at most."""

LEAD = 0.8
"""What a word counts once more that stands among the first of its document."""

LEAD_TERMS = 16

FORM = 0.4
"""Weight of another form of a word, relative to the word: `ran` for `run`."""

OVERLAP = 0.25
"""What a pair of characters loses for each adjacent pair: a run of n characters counts n / 2 words."""

STANDS_OUT = 5.0
"""Deviations from the mean similarity to the greatest one from which on vectors count whole."""

LEAST_MEANING = 0.2
"""What they count at least: a few passages can't deviate far."""

ANY_MEANING = 0.01
"""What a similarity counts that is not above the mean: the only passage is found too."""

SHORT = 8
"""Words of a query up to which they weigh as BM25 says."""

RARER = 0.25
"""What is added to the power of a word's weight with each doubling of the query beyond `SHORT` words."""


@dataclass(slots=True)
class _Texts:
    """Documents, or passages, as BM25 knows them: how long each is, and its sum so far."""

    pulls: Floats
    power: float
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.scores = np.zeros(len(self.pulls))

    @classmethod
    def of(cls, lengths: Floats, power: float) -> _Texts:
        return cls(K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0)), power)

    def add(self, holders: Ints, times: Ints | Floats, share: float) -> float:
        """Count a word of the query, or a pair; gives what it weighs here."""
        weight = float(share * weight_of(len(holders), len(self.pulls)) ** self.power)
        self.scores[holders] += weight * times * (K1 + 1) / (times + self.pulls[holders])
        return weight


def rank_documents(corpus: Corpus, matches: Matches, space: Space) -> Ranking:
    """The ranking of passages, given document after document."""
    if not len(corpus.lengths):
        return Ranking(np.zeros(0), np.zeros(0))
    words, own = _by_words(corpus, matches)
    scores, weight = relative(words), space.document_weight
    if matches.similar is not None and weight:
        scores = (scores + weight * _by_meaning(matches.similar, words, space.floor)) / (1 + weight)
    return Ranking(scores, own)


def _by_meaning(similar: Floats, words: Floats, floor: float) -> Floats:
    """What each passage scores by its similarity, 1 at most; 0 below the floor for one that holds no word."""
    known = similar[similar != 0]  # of a passage that has no vector yet nothing is known
    if not len(known):
        return np.zeros(len(similar))
    mean, deviation = float(known.mean()), float(known.std())
    stands_out = (float(known.max()) - mean) / (STANDS_OUT * deviation) if deviation else 0.0
    above = np.maximum(similar - mean, ANY_MEANING * similar)
    counts = (similar >= floor) | ((words > 0) & (similar > 0))
    return min(max(stands_out, LEAST_MEANING), 1.0) * relative(np.where(counts, above, 0.0))


def _by_words(corpus: Corpus, matches: Matches) -> tuple[Floats, Floats]:
    """What each passage scores by the words of the query, and its own BM25."""
    of = corpus.groups
    firsts = np.flatnonzero(np.diff(of, prepend=-1))
    shares = _shares(matches.words)
    power = 1 + RARER * max(0.0, log2(len(shares) / SHORT)) if shares else 1.0
    passages = _Texts.of(corpus.lengths, power)
    documents = _Texts.of(np.add.reduceat(corpus.lengths, firsts), power)
    is_first = np.zeros(len(of), np.bool_)
    is_first[firsts] = True
    lead = np.zeros(len(firsts))
    for word, share in shares.items():
        held = matches.held[word]
        forms = matches.forms.get(word, held[:0])
        if not len(held) and not len(forms):
            continue
        passages.add(*_together(held >> PLACE_BITS, forms >> PLACE_BITS, len(of)), share)
        weight = documents.add(*_together(of[held >> PLACE_BITS], of[forms >> PLACE_BITS], len(firsts)), share)
        early = held[place_in(held) < LEAD_TERMS] >> PLACE_BITS
        lead[counted(of[early[is_first[early]]])[0]] += weight
    best = np.maximum.reduceat(passages.scores, firsts)
    for pair, share in _pairs(matches):
        documents.add(*counted(of[pair >> PLACE_BITS]), PAIR * share)
    whole = documents.scores + PASSAGE * best + LEAD * lead
    return whole[of] * passages.scores / np.where(best > 0, best, 1.0)[of], passages.scores


def _together(held: Ints, forms: Ints, count: int) -> tuple[Ints, Ints | Floats]:
    """The numbers below `count` in two rising rows, each once, and how often; those in `forms` count less."""
    if not len(forms):
        return counted(held)
    times = np.bincount(held, minlength=count) + FORM * np.bincount(forms, minlength=count)
    numbers = np.flatnonzero(times)
    return numbers, times[numbers]


def _shares(words: Sequence[str]) -> Mapping[str, float]:
    """What each word of a query counts: once, or more if it is repeated, up to `REPEATED` + 1."""
    times: defaultdict[str, float] = defaultdict(float)
    for before, word, after in zip(("", *words), words, (*words[1:], ""), strict=False):
        times[word] += 1 - OVERLAP * (_overlap(before, word) + _overlap(word, after))
    return {word: _share(count) for word, count in times.items()}


def _overlap(one: str, other: str) -> bool:
    return is_pair(one) and is_pair(other) and one[1] == other[0]


def _pairs(matches: Matches) -> Iterator[tuple[Ints, float]]:
    """For each pair of telling words where it stands, if anywhere, and what it counts in the query."""
    telling = [word for word in matches.words if is_telling(word)]
    for (one, other), times in Counter(pairwise(telling)).items():
        firsts, seconds = matches.held[one], matches.held[other]
        if one == other or not len(firsts) or not len(seconds):
            continue
        near = _soon_after(firsts, seconds)
        if len(near):
            yield near, _share(times * (1 - 2 * OVERLAP * _overlap(one, other)))


def _soon_after(firsts: Ints, seconds: Ints) -> Ints:
    """Where one word stands soon after another: occurrences of the rarer of the two, which is quicker to go through."""
    if len(firsts) <= len(seconds):
        following = seconds[np.minimum(np.searchsorted(seconds, firsts, side="right"), len(seconds) - 1)]
        looked, gaps = firsts, following - firsts
    else:
        before = firsts[np.maximum(np.searchsorted(firsts, seconds) - 1, 0)]
        looked, gaps = seconds, seconds - before
    return looked[(gaps > 0) & (gaps <= PAIR_GAP)]


def _share(times: float) -> float:
    """What a word of the query counts that stands in it so often."""
    return (REPEATED + 1) * times / (REPEATED + times)
