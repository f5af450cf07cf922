"""What is kept in memory of an owner's passages: their sessions, lengths and vectors, never their words."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lamella.core.recall import Space
from lamella.search.ranking import Corpus, Floats, Ints, Ranking, rank
from lamella.search.vectors import cosines, matrix_of, unpacked

MOST_BYTES = 256_000_000
"""What is kept of all owners; what is not kept is read again."""

_OVERHEAD = 64
"""Bytes of a passage beside its vector, about."""


@dataclass(frozen=True, slots=True)
class Row:
    """One passage, as it is read: `vector` None where it has none of this space."""

    entry: int
    session_id: str
    length: int
    is_message: bool
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class Scope:
    """Passages by entry, ascending; `order` puts those of one session together; `version` is that of the owner."""

    version: int
    dimension: int
    entries: Ints
    sessions: tuple[str, ...]
    of_session: Ints
    lengths: Floats
    messages: NDArray[np.bool_]
    vectors: NDArray[np.float16]
    order: Ints

    @property
    def last(self) -> int:
        """The newest entry, 0 for none."""
        return int(self.entries[-1]) if len(self.entries) else 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return int(self.vectors.nbytes) + _OVERHEAD * len(self.entries)

    def with_rows(self, rows: Sequence[Row]) -> Scope:
        """With newer passages behind those that are here."""
        if not rows:
            return self
        numbers = {session: number for number, session in enumerate(self.sessions)}
        new = [numbers.setdefault(row.session_id, len(numbers)) for row in rows]
        of_session = np.concatenate([self.of_session, np.array(new, np.int64)])
        return Scope(
            version=self.version,
            dimension=self.dimension,
            entries=np.concatenate([self.entries, np.array([row.entry for row in rows], np.int64)]),
            sessions=tuple(numbers),
            of_session=of_session,
            lengths=np.concatenate([self.lengths, np.array([row.length for row in rows], np.float64)]),
            messages=np.concatenate([self.messages, np.array([row.is_message for row in rows], np.bool_)]),
            vectors=np.concatenate([self.vectors, matrix_of([row.vector for row in rows], self.dimension)]),
            order=np.argsort(of_session, kind="stable"),
        )

    def ranking(self, found: Sequence[Sequence[int]], vector: bytes | None, space: Space) -> Ranking:
        """The ranking of all passages, by entry; `found` has for each term the entries that hold it, as often."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        corpus = Corpus(self.of_session[self.order], self.lengths[self.order])
        postings = [(place[at], times) for at, times in (self._places(entries) for entries in found) if len(at)]
        similar = None
        if vector is not None and self.dimension:
            near = cosines(self.vectors, unpacked(vector)).astype(np.float64)
            similar = np.where(near >= space.floor, near, 0.0)[self.order]
        made = rank(corpus, postings, similar, space.weight)
        return Ranking(made.scores[place] * self.messages, made.sessions, made.covers)

    def _places(self, entries: Sequence[int]) -> tuple[Ints, Ints]:
        """The places of the entries that are in this scope, each once, and how often it was named."""
        named, times = np.unique(np.array(entries, np.int64), return_counts=True)
        at = np.searchsorted(self.entries, named)
        here = at < len(self.entries)
        here[here] = self.entries[at[here]] == named[here]
        return at[here], times[here]


def empty_scope(version: int, dimension: int) -> Scope:
    """No passage."""
    none = np.zeros(0, np.int64)
    return Scope(
        version,
        dimension,
        none,
        (),
        none,
        np.zeros(0, np.float64),
        np.zeros(0, np.bool_),
        np.zeros((0, dimension), np.float16),
        none,
    )


Key = tuple[str, str | None, str, int]
"""Owner, conversation or None for all, model of the vectors, their dimension."""


class ScopeCache:
    """Scopes that were used lately, up to a number of bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[Key, Scope] = OrderedDict()

    def find(self, key: Key, version: int) -> Scope:
        """What is kept under this key, if it is of this version, else nothing yet."""
        kept = self._kept.get(key)
        if kept is None or kept.version != version:
            return empty_scope(version, key[3])
        self._kept.move_to_end(key)
        return kept

    def keep(self, key: Key, scope: Scope) -> None:
        """Keep a scope; those that were not used for longest make room."""
        self._kept[key] = scope
        self._kept.move_to_end(key)
        while self._kept and self.size > self._most:
            self._kept.popitem(last=False)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(scope.size for scope in self._kept.values())
