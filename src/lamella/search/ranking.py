"""What both rules of ranking share, and the rule for conversations; that for documents is `search.documents`. Pure.

A rule takes what is searched (`Corpus`) and where the words of a query stand there (`Matches`), and gives every passage
a score (`Ranking`).

Conversations are ranked by words and by meaning, and the two ranks are fused. By words: BM25 with the statistics of
what is searched and of nothing else, so that nobody's texts change what somebody else finds. A passage also counts what
its neighbours in the conversation say: an answer holds few words of its question. A session that holds more of the
query lifts its passages. Terms that few passages hold decide if they weigh as much as the rest of the query: a question
with a name or a number is about those that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lamella.core.recall import Space

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

K1 = 1.2
B = 0.75
NEIGHBOURS = (0.4, 0.15)
"""What the passage one place away counts, and the one two places away."""

SESSION = 1.0
"""What the best session lifts its passages by."""

SESSION_WORDS = 2.0
"""Weight of all words of a session, relative to its best passages."""

SESSION_FADING = 0.6
"""Weight of each further passage of a session, relative to the one before."""

SESSION_PASSAGES = 5

RARE = 3
"""Passages at most that hold a term which decides."""

RANK = 60
"""The constant of reciprocal-rank fusion (Cormack et al., 2009)."""

RANKED = 2_000
"""How many passages get a rank of their own by words, and by meaning."""


PLACE_BITS = 16
"""An occurrence is the passage's number, shifted by this, plus the place of the word in the passage."""

_PLACES = (1 << PLACE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is searched: for each passage the number of its group, and how many terms it has.

    A group is a document or a session. Its passages stand together, in the order in which they were written or said.
    """

    groups: Ints
    lengths: Floats

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0


@dataclass(frozen=True, slots=True)
class Matches:
    """Where the words of a query stand in a corpus, and how near its passages are in meaning.

    `words` are in their order, with repetitions. `held` has for each its occurrences, rising, `forms` those of other
    forms of the word. `similar` are cosines, 0 for a passage without a vector; None if the query has no vector.
    """

    words: Sequence[str]
    held: Mapping[str, Ints]
    forms: Mapping[str, Ints] = field(default_factory=dict)
    similar: Floats | None = None


_NONE = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Ranking:
    """`scores` of passages, 0 for what was not found, 1 at most; `words` are the passages' own BM25 scores.

    `groups`: scores of sessions, 1 for the best. `covers`: the share of the query, by the weight of its terms, that
    each session holds. Both are empty for documents.
    """

    scores: Floats
    words: Floats
    groups: Floats = field(default_factory=_NONE.copy)
    covers: Floats = field(default_factory=_NONE.copy)

    def first(self, limit: int) -> Ints:
        """The passages that were found, the best first."""
        order = first_of(self.scores, limit)
        return order[self.scores[order] > 0]


Rule = Callable[[Corpus, Matches, Space], Ranking]
"""`rank_conversations`, or `rank_documents` of `search.documents`."""


Postings = Sequence[tuple[Ints, Ints]]
"""For each term of the query: the passages that hold it, and how often."""


def rank_conversations(corpus: Corpus, matches: Matches, space: Space) -> Ranking:
    """The ranking of what was said. A word counts once, however often the query says it."""
    count = len(corpus.lengths)
    held = [matches.held[word] for word in dict.fromkeys(matches.words)]
    postings = [counted(places >> PLACE_BITS) for places in held if len(places)]
    own, covers, session_words = np.zeros(count), np.zeros(corpus.group_count), np.zeros(corpus.group_count)
    if count:
        own = _bm25(corpus.lengths, postings)
        session_words, covers = _by_session(corpus, postings, len(held))
    lift = relative(session_words)[corpus.groups]
    words, near = _with_neighbours(own, corpus.groups), matches.similar
    near = None if near is None else np.where(near >= space.floor, near, 0.0)
    scores = _fused(_reciprocal(words * (1 + SESSION * lift)), near, corpus, postings, space.weight)
    passages = words if words.any() or near is None else near
    sessions = relative(_sum_of_best(passages, corpus)) + SESSION_WORDS * relative(session_words)
    if near is not None and space.session_weight:
        sessions = sessions + space.session_weight * relative(_sum_of_best(near, corpus))
    return Ranking(scores, own, relative(sessions), covers)


def _fused(words: Floats, near: Floats | None, corpus: Corpus, postings: Postings, weight: float) -> Floats:
    """The ranks by words with those by meaning, 1 for what is first in both; passages with a rare name come first."""
    scores, best = words, 1.0
    if near is not None and weight:
        scores = scores + weight * _reciprocal(_with_neighbours(near, corpus.groups) * (near > 0))
        best += weight
    scores = scores * ((RANK + 1) / best)
    deciding = _deciding(postings, len(scores))
    if len(deciding):
        scores /= 2
        scores[deciding] += 0.5
    return scores


def moved(occurrences: Ints, places: Ints) -> Ints:
    """The same occurrences in passages that have other numbers."""
    return (places << PLACE_BITS) | (occurrences & _PLACES)


def place_in(occurrences: Ints) -> Ints:
    """The places of the words within their passages."""
    return occurrences & _PLACES


def counted(rising: Ints) -> tuple[Ints, Ints]:
    """The numbers that stand in a rising row, each once, and how often."""
    starts = np.flatnonzero(np.diff(rising, prepend=-1))
    return rising[starts], np.diff(starts, append=len(rising))


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


def _by_session(corpus: Corpus, postings: Postings, asked: int) -> tuple[Floats, Floats]:
    """BM25 of whole sessions, and what share of the query each holds; `asked` is how many terms the query has."""
    groups, count = corpus.group_count, len(corpus.lengths)
    lengths = np.bincount(corpus.groups, weights=corpus.lengths, minlength=groups).astype(np.float64)
    merged: list[tuple[Ints, Ints]] = []
    covers, whole = np.zeros(groups), (asked - len(postings)) * weight_of(0, count)
    for holders, times in postings:
        sums = np.bincount(corpus.groups[holders], weights=times, minlength=groups)
        having = np.flatnonzero(sums)
        merged.append((having, sums[having].astype(np.int64)))
        weight = weight_of(len(holders), count)
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
    """1 / (60 + rank) for what has a score; equal ones in their order, the newest first. All after the first `RANKED`
    have the next rank.
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


def relative(scores: Floats) -> Floats:
    """Scores as shares of the highest."""
    top = float(scores.max()) if len(scores) else 0.0
    return scores / top if top > 0 else scores


def _sum_of_best(scores: Floats, corpus: Corpus) -> Floats:
    """For each session its best passages, each further one counting less."""
    made, left = np.zeros(corpus.group_count), scores.copy()
    if not len(scores):
        return made
    starts = np.flatnonzero(np.diff(corpus.groups, prepend=-1))
    groups = corpus.groups[starts]
    sizes = np.diff(starts, append=len(scores))
    for place in range(SESSION_PASSAGES):
        best = np.maximum.reduceat(left, starts)
        made[groups] += np.maximum(best, 0) * SESSION_FADING**place
        firsts = np.flatnonzero(left == np.repeat(best, sizes))
        here = corpus.groups[firsts]
        left[firsts[np.diff(here, prepend=-1) != 0]] = 0
    return made
