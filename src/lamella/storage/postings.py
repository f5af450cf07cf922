"""What was read of the full-text tables lately: for each term the passages that hold it, for knowledge and recall.

One `Postings` belongs to the passages of one search as they are now. When these change, it goes with them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from lamella.search.ranking import Ints

MOST_POSTINGS = 64_000_000
"""Bytes of postings that are kept of one scope."""

_OVERHEAD_TERM = 200
"""Bytes of a term beside its row, about."""


@dataclass(slots=True)
class Postings:
    """For each term that was looked for, its row of numbers. Bounded, and safe to use from several threads."""

    kept: OrderedDict[str, Ints] = field(default_factory=OrderedDict)
    size: int = 0
    lock: Lock = field(default_factory=Lock)

    def find(self, term: str) -> Ints | None:
        """What is kept of a term."""
        with self.lock:
            if term in self.kept:
                self.kept.move_to_end(term)
            return self.kept.get(term)

    def keep(self, term: str, row: Ints) -> None:
        """Keep a term's postings; those that were not used for longest make room."""
        with self.lock:
            if term in self.kept:
                return
            self.kept[term] = row
            self.size += row.nbytes + _OVERHEAD_TERM
            while self.size > MOST_POSTINGS and len(self.kept) > 1:
                _, gone = self.kept.popitem(last=False)
                self.size -= gone.nbytes + _OVERHEAD_TERM


def row_of(text: str) -> Ints:
    """The numbers of a row as SQLite joins them, with commas between."""
    return np.fromstring(text, np.int64, sep=",")
