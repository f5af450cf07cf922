"""What is kept in memory of a shelf's passages: their documents, lengths and vectors, and postings that were read.

The vectors are kept as float32: to widen them for each search would cost more than the search.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from lamella.search.documents import PLACE_BITS, moved
from lamella.search.ranking import Floats, Ints
from lamella.search.vectors import matrix_of
from lamella.storage.postings import Postings

MOST_BYTES = 512_000_000
"""What is kept of all shelves; what is not kept is read again."""

_OVERHEAD = 40
"""Bytes of a passage beside its vector, about."""

Revision = tuple[str, int]
"""A document and how often its passages changed."""


@dataclass(frozen=True, slots=True)
class ShelfPart:
    """The passages of one document, in order."""

    entries: Ints
    lengths: Floats
    vectors: NDArray[np.float32]


def part_of(rows: Sequence[tuple[int, int, bytes | None]], dimension: int) -> ShelfPart:
    """The part of some rows: entry, length and vector."""
    return ShelfPart(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float64),
        matrix_of([row[2] for row in rows], dimension).astype(np.float32),
    )


@dataclass(frozen=True, slots=True)
class ShelfScope:
    """Passages of a shelf, document after document: `offsets` says where each of `documents` begins.

    `order` are the places by entry.
    """

    number: int
    documents: tuple[Revision, ...]
    offsets: tuple[int, ...]
    entries: Ints
    of_document: Ints
    lengths: Floats
    vectors: NDArray[np.float32]
    order: Ints
    postings: Postings = field(default_factory=Postings)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return int(self.vectors.nbytes) + _OVERHEAD * len(self.entries) + self.postings.size

    def part(self, index: int) -> ShelfPart:
        """The passages of one of its documents."""
        rows = slice(self.offsets[index], self.offsets[index + 1])
        return ShelfPart(self.entries[rows], self.lengths[rows], self.vectors[rows])

    def occurrences(self, stored: Ints) -> Ints:
        """Occurrences by entry as occurrences by place in this scope, rising; those of other entries are left out."""
        entries = stored >> PLACE_BITS
        ordered = self.entries[self.order]
        at = np.searchsorted(ordered, entries)
        here = at < len(ordered)
        here[here] = ordered[at[here]] == entries[here]
        return np.sort(moved(stored[here], self.order[at[here]]))


def scope_of(
    number: int, documents: Sequence[Revision], parts: Mapping[Revision, ShelfPart], dimension: int
) -> ShelfScope:
    """The scope of these documents."""
    chosen = [parts[document] for document in documents]
    lengths = [len(part.entries) for part in chosen]
    offsets = (0, *(int(end) for end in np.cumsum(lengths)))
    entries = np.concatenate([np.zeros(0, np.int64), *(part.entries for part in chosen)])
    return ShelfScope(
        number=number,
        documents=tuple(documents),
        offsets=offsets,
        entries=entries,
        of_document=np.repeat(np.arange(len(chosen)), lengths),
        lengths=np.concatenate([np.zeros(0), *(part.lengths for part in chosen)]),
        vectors=np.concatenate([np.zeros((0, dimension), np.float32), *(part.vectors for part in chosen)]),
        order=np.argsort(entries, kind="stable"),
    )


Key = tuple[int, str, int]
"""Number of the shelf, model of the vectors, their dimension."""


class ShelfScopes:
    """Scopes that were used lately, up to a number of bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[Key, ShelfScope] = OrderedDict()

    def find(self, key: Key) -> ShelfScope | None:
        """What is kept under this key, of whatever revision."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Key, scope: ShelfScope) -> None:
        """Keep a scope; those that were not used for longest make room."""
        with self._lock:
            self._kept[key] = scope
            self._kept.move_to_end(key)
            while self._kept and self.size > self._most:
                self._kept.popitem(last=False)

    def forget(self, number: int) -> None:
        """Drop what is kept of a shelf on which nothing stands."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == number]:
                del self._kept[key]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(scope.size for scope in self._kept.values())
