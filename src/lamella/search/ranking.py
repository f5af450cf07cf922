"""Ranks passages of conversations by words and by meaning, and fuses the two ranks. Pure.

By words: BM25 with the statistics of what is searched and of nothing else, so that nobody's texts change what somebody
else finds. A passage also counts what its neighbours in the conversation say: an answer holds few words of its
question. A session that holds more of the query lifts its passages. What few passages hold decides where it weighs as
much as the rest of the query: whoever asks for a name or a number means those that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

K1 = 1.2
B = 0.75
NEIGHBOURS = (0.4, 0.15)
"""What the passage one place away counts, and the one two places away."""

SESSION = 1.0
"""What the best session lifts its passages by."""

SESSION_WORDS = 2.0
"""What a session's words as a whole count beside its best passages."""

SESSION_FADING = 0.6
"""What each further passage of a session counts beside the one before."""

SESSION_PASSAGES = 5

RARE = 3
"""Passages at most that hold a term which decides."""

RANK = 60
"""The constant of reciprocal-rank fusion (Cormack et al., 2009)."""

RANKED = 2_000
"""How many passages get a rank of their own by words, and by meaning."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is searched: for each passage the number of its session and how many terms it has.

    Passages of one session stand together, in the order in which they were said.
    """

    sessions: Ints
    lengths: Floats

    @property
    def groups(self) -> int:
        """How many sessions there are."""
        return int(self.sessions.max()) + 1 if len(self.sessions) else 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """`scores` of passages, 0 for what was not found, 1 at most; `sessions` of sessions, 1 for the best.

    `covers`: the share of the query, by the weight of its terms, that each session holds. `words` are the passages' own
    BM25 scores.
    """

    scores: Floats
    sessions: Floats
    covers: Floats
    words: Floats


Postings = Sequence[tuple[Ints, Ints]]
"""For each term of the query: the passages that hold it, and how often."""


def rank(
    corpus: Corpus,
    postings: Postings,
    similar: Floats | None,
    weight: float,
    session_weight: float = 0.0,
) -> Ranking:
    """The ranking. `similar` are the passages' similarities to the query, 0 where it means nothing.

    `weight` is what the order by them counts beside the order by words, `session_weight` what a session's nearest
    passages count beside its words.
    """
    count = len(corpus.lengths)
    words, covers = np.zeros(count), np.zeros(corpus.groups)
    session_words = np.zeros(corpus.groups)
    if count:
        words = _bm25(corpus.lengths, postings)
        session_words, covers = _by_session(corpus, postings)
    own = words
    words = _with_neighbours(words, corpus.sessions)
    lift = _relative(session_words)[corpus.sessions] if count else words
    scores = _reciprocal(words * (1 + SESSION * lift))
    best = 1.0
    if similar is not None:
        scores = scores + weight * _reciprocal(_with_neighbours(similar, corpus.sessions) * (similar > 0))
        best += weight
    scores *= (RANK + 1) / best
    deciding = _deciding(postings, count)
    if len(deciding):
        scores /= 2
        scores[deciding] += 0.5
    passages = words if words.any() or similar is None else similar
    sessions = _relative(_sum_of_best(passages, corpus)) + SESSION_WORDS * _relative(session_words)
    if similar is not None and session_weight:
        sessions = sessions + session_weight * _relative(_sum_of_best(similar, corpus))
    return Ranking(scores, _relative(sessions), covers, own)


def weight_of(holders: int, count: int) -> float:
    """What a term weighs that `holders` of `count` texts have."""
    return float(np.log(1 + (count - holders + 0.5) / (holders + 0.5)))


def _deciding(postings: Postings, count: int) -> Ints:
    """The passages that hold a rare term of the query, where such terms weigh as much as all others together."""
    rare = [holders for holders, _ in postings if 0 < len(holders) <= RARE]
    weight = sum(weight_of(len(holders), count) for holders in rare)
    whole = sum(weight_of(len(holders), count) for holders, _ in postings)
    return np.unique(np.concatenate(rare)) if rare and weight * 2 >= whole else np.zeros(0, np.int64)


def _bm25(lengths: Floats, postings: Postings) -> Floats:
    scores = np.zeros(len(lengths))
    shares = lengths / max(float(lengths.mean()), 1.0)
    for holders, times in postings:
        pull = K1 * (1 - B + B * shares[holders])
        scores[holders] += weight_of(len(holders), len(lengths)) * times * (K1 + 1) / (times + pull)
    return scores


def _by_session(corpus: Corpus, postings: Postings) -> tuple[Floats, Floats]:
    """BM25 of whole sessions, and what share of the query each holds."""
    groups = corpus.groups
    lengths = np.bincount(corpus.sessions, weights=corpus.lengths, minlength=groups).astype(np.float64)
    merged: list[tuple[Ints, Ints]] = []
    covers, whole = np.zeros(groups), 0.0
    for holders, times in postings:
        sums = np.bincount(corpus.sessions[holders], weights=times, minlength=groups)
        having = np.flatnonzero(sums)
        merged.append((having, sums[having].astype(np.int64)))
        weight = weight_of(len(holders), len(corpus.lengths))
        covers[having] += weight
        whole += weight
    return _bm25(lengths, merged), covers / whole if whole else covers


def _with_neighbours(scores: Floats, sessions: Ints) -> Floats:
    made = scores.copy()
    for distance, share in enumerate(NEIGHBOURS, start=1):
        if len(scores) <= distance:
            break
        same = sessions[distance:] == sessions[:-distance]
        made[distance:] += share * scores[:-distance] * same
        made[:-distance] += share * scores[distance:] * same
    return made


def _reciprocal(scores: Floats) -> Floats:
    """1 / (60 + rank) for what has a score; equal ones in their order, the newest first. All behind the first `RANKED`
    have the rank behind these.
    """
    found = np.flatnonzero(scores > 0)[::-1]
    made = np.zeros(len(scores))
    made[found] = 1 / (RANK + 1 + RANKED)
    first = found[first_of(scores[found], RANKED)]
    made[first] = 1 / (RANK + 1 + np.arange(len(first)))
    return made


def first_of(scores: Floats, limit: int) -> Ints:
    """The places of the highest scores, the best first, equal ones in their order: only these are sorted."""
    if len(scores) <= limit:
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    near = np.flatnonzero(scores >= least)
    return near[np.argsort(-scores[near], kind="stable")[:limit]]


def _relative(scores: Floats) -> Floats:
    top = float(scores.max()) if len(scores) else 0.0
    return scores / top if top > 0 else scores


def _sum_of_best(scores: Floats, corpus: Corpus) -> Floats:
    """For each session its best passages, each further one counting less."""
    made, left = np.zeros(corpus.groups), scores.copy()
    if not len(scores):
        return made
    starts = np.flatnonzero(np.diff(corpus.sessions, prepend=-1))
    groups = corpus.sessions[starts]
    sizes = np.diff(starts, append=len(scores))
    for place in range(SESSION_PASSAGES):
        best = np.maximum.reduceat(left, starts)
        made[groups] += np.maximum(best, 0) * SESSION_FADING**place
        firsts = np.flatnonzero(left == np.repeat(best, sizes))
        here = corpus.sessions[firsts]
        left[firsts[np.diff(here, prepend=-1) != 0]] = 0
    return made
