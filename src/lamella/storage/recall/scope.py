"""What is kept in memory of an owner's passages: their sessions, lengths and vectors, and postings that were read.

The vectors are kept as float32: to widen them for each search costs more than the search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamella.core.recall import Space
from lamella.search.ranking import Corpus, Floats, Ints, Postings, Ranking, first_of, rank, weight_of
from lamella.search.vectors import matrix_of, unpacked
from lamella.storage.postings import Postings as Kept
from lamella.storage.postings import row_of

MOST_BYTES = 512_000_000
"""What is kept of all owners; what is not kept is read again."""

_OVERHEAD = 64
"""Bytes of a passage beside its vector, about."""


@dataclass(frozen=True, slots=True)
class SpokenPart:
    """Some passages as they were read; `waiting` is the first that has no vector."""

    entries: Ints
    sessions: Sequence[str]
    lengths: Floats
    messages: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    waiting: int | None


def part_of(rows: Sequence[Sequence[Any]], dimension: int) -> SpokenPart:
    """The passages of some rows, at least one: entry, session, terms, whether it is a message, and its vector, None
    where it has none of this space."""
    entries, sessions, lengths, messages, vectors = zip(*rows, strict=True)
    return SpokenPart(
        entries=np.array(entries, np.int64),
        sessions=sessions,
        lengths=np.array(lengths, np.float64),
        messages=np.array(messages, np.bool_),
        vectors=matrix_of(vectors, dimension).astype(np.float32),
        waiting=next((entry for entry, vector in zip(entries, vectors, strict=True) if vector is None), None),
    )


@dataclass(frozen=True, slots=True)
class SpokenScope:
    """Passages by entry, ascending; `order` puts those of one session together; `version` is that of the owner."""

    version: int
    dimension: int
    entries: Ints
    sessions: tuple[str, ...]
    of_session: Ints
    lengths: Floats
    messages: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    order: Ints
    kept: Kept = field(default_factory=Kept)

    @property
    def last(self) -> int:
        """The newest entry, 0 for none."""
        return int(self.entries[-1]) if len(self.entries) else 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return int(self.vectors.nbytes) + _OVERHEAD * len(self.entries) + self.kept.size

    def with_parts(self, parts: Sequence[SpokenPart]) -> SpokenScope:
        """With newer passages behind those that are here."""
        numbers = {session: number for number, session in enumerate(self.sessions)}
        new = [numbers.setdefault(session, len(numbers)) for part in parts for session in part.sessions]
        of_session = np.concatenate([self.of_session, np.array(new, np.int64)])
        return SpokenScope(
            version=self.version,
            dimension=self.dimension,
            entries=np.concatenate([self.entries, *(part.entries for part in parts)]),
            sessions=tuple(numbers),
            of_session=of_session,
            lengths=np.concatenate([self.lengths, *(part.lengths for part in parts)]),
            messages=np.concatenate([self.messages, *(part.messages for part in parts)]),
            vectors=np.concatenate([self.vectors, *(part.vectors for part in parts)]),
            order=np.argsort(of_session, kind="stable"),
        )

    def without(self, entry: int) -> SpokenScope:
        """With the passages before this one alone."""
        count = int(np.searchsorted(self.entries, entry))
        return replace(
            self,
            entries=self.entries[:count],
            of_session=self.of_session[:count],
            lengths=self.lengths[:count],
            messages=self.messages[:count],
            vectors=self.vectors[:count],
            order=np.argsort(self.of_session[:count], kind="stable"),
            kept=Kept(),
        )

    def ranking(self, found: Sequence[Ints], vector: bytes | None, space: Space) -> Ranking:
        """The ranking of all passages, by entry; `found` has for each term the entries that hold it, as often."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        corpus = Corpus(self.of_session[self.order], self.lengths[self.order])
        postings = [(place[at], times) for at, times in (self._places(entries) for entries in found) if len(at)]
        similar = None
        if vector is not None and self.dimension:
            near = (self.vectors @ unpacked(vector)).astype(np.float64)
            similar = np.where(near >= space.floor, near, 0.0)[self.order]
        made = rank(corpus, postings, similar, space.weight, space.session_weight)
        covers = made.covers * _known(postings, len(found), len(self.entries))
        return Ranking(made.scores[place] * self.messages, made.sessions, covers, made.words[place])

    def _places(self, entries: Ints) -> tuple[Ints, Ints]:
        """The places of the entries that are in this scope, each once, and how often it was named."""
        named, times = np.unique(entries, return_counts=True)
        at = np.searchsorted(self.entries, named)
        here = at < len(self.entries)
        here[here] = self.entries[at[here]] == named[here]
        return at[here], times[here]


def _known(postings: Postings, asked: int, count: int) -> float:
    """The share of a query, by the weight of its terms, that any of `count` passages holds; 1 where none is held."""
    held = sum(weight_of(len(holders), count) for holders, _ in postings)
    whole = held + (asked - len(postings)) * weight_of(0, count)
    return held / whole if held else 1.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of a scope is shown, best first, as places in it, with all scores.

    `best_of` has the best passage of each of `sessions` that has one.
    """

    made: Ranking
    passages: tuple[int, ...]
    sessions: tuple[int, ...]
    best_of: Mapping[int, int]


def choose(
    scope: SpokenScope,
    found: Mapping[str, str | Ints],
    vector: bytes | None,
    space: Space,
    passages: int,
    sessions: int,
) -> Chosen:
    """The best of a scope, so many passages and sessions at most.

    `found` has for each term the entries that hold it, as often: as they were read, with commas between, or as they are
    kept.
    """
    rows = {term: row_of(row) if isinstance(row, str) else row for term, row in found.items()}
    for term, row in rows.items():
        scope.kept.keep(term, row)
    made = scope.ranking(list(rows.values()), vector, space)
    best = first_of(made.scores, passages)
    ranked = first_of(made.sessions, sessions)
    return Chosen(
        made,
        tuple(int(place) for place in best if made.scores[place] > 0),
        tuple(int(session) for session in ranked if made.sessions[session] > 0),
        dict(_best_of(scope, made, ranked)),
    )


def _best_of(scope: SpokenScope, made: Ranking, sessions: Ints) -> Iterator[tuple[int, int]]:
    """The first of the best passages of each of these sessions that has one."""
    for session in sessions:
        own = np.flatnonzero(scope.of_session == session)
        if len(own) and made.scores[best := int(own[np.argmax(made.scores[own])])] > 0:
            yield int(session), best


def grown(kept: SpokenScope, parts: Sequence[SpokenPart]) -> tuple[SpokenScope, SpokenScope]:
    """A scope with newer passages, and as much of it as stays right: up to the first that may still get a vector."""
    scope = kept.with_parts(parts)
    waiting = next((part.waiting for part in parts if part.waiting is not None), None) if scope.dimension else None
    return scope, scope if waiting is None else scope.without(waiting)


def empty_scope(version: int, dimension: int) -> SpokenScope:
    """No passage."""
    none = np.zeros(0, np.int64)
    return SpokenScope(
        version,
        dimension,
        none,
        (),
        none,
        np.zeros(0, np.float64),
        np.zeros(0, np.bool_),
        np.zeros((0, dimension), np.float32),
        none,
    )


Key = tuple[str, str | None, str, int]
"""Owner, conversation or None for all, model of the vectors, their dimension."""


class SpokenScopes:
    """Scopes that were used lately, up to a number of bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[Key, SpokenScope] = OrderedDict()

    def find(self, key: Key, version: int) -> SpokenScope:
        """What is kept under this key, if it is of this version, else nothing yet."""
        kept = self._kept.get(key)
        if kept is None or kept.version != version:
            return empty_scope(version, key[3])
        self._kept.move_to_end(key)
        return kept

    def keep(self, key: Key, scope: SpokenScope) -> None:
        """Keep a scope, unless a newer one is kept; those that were not used for longest make room."""
        known = self._kept.get(key)
        if known is not None and (known.version, known.last) > (scope.version, scope.last):
            return
        self._kept[key] = scope
        self._kept.move_to_end(key)
        while self._kept and self.size > self._most:
            self._kept.popitem(last=False)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(scope.size for scope in self._kept.values())
