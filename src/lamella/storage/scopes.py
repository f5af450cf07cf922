"""What is kept in memory of passages that are searched, for documents and for what was said alike.

A scope holds the passages of one shelf, one conversation, or all conversations of an owner: their groups (a document, a
session), lengths and vectors, and the occurrences of words that were looked for. It is made of parts, each with a mark
that says whether it is still right: when a document changes, its part alone is read again. What was said is one part,
which grows.

The vectors are kept as float32: to widen them for each search would cost more than the search. Of a scope of more than
`EXACT` passages sketches are kept. By these all are compared, and the vectors of the nearest are read and compared
exactly (`nearest`, `Reading.exact`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lamella.core.recall import Space
from lamella.search.postings import entries_of, found_in
from lamella.search.ranking import PLACE_BITS, Corpus, Floats, Ints, Matches, Ranking, Rule, moved
from lamella.search.terms import common_beginning, is_form
from lamella.search.vectors import Sketches, estimated, matrix_of, sketches, unpacked

MOST_BYTES = 512_000_000
"""What is kept of all scopes; what is not kept is read again."""

EXACT = 100_000
"""Passages of a scope whose vectors are all kept, and compared exactly."""

NEAREST = 1_000
"""Passages of a larger scope whose vectors are read for a search."""

SAMPLE = 500
"""Further ones, which tell the mean of all similarities and their deviation."""

MOST_POSTINGS = 128_000_000
"""Bytes of occurrences that are kept of one scope."""

_OVERHEAD = 72
"""Bytes of a passage besides its vector, about."""

_OVERHEAD_TERM = 300
"""Bytes of a term besides its occurrences, about."""

Mark = tuple[str, int]
"""What passages belong to, and how often they changed: a document, or "" for what was said."""

Mask = NDArray[np.bool_]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Part:
    """Passages as they were read, by entry. `groups` are the documents or sessions that they are of; `shown` is False
    for what lifts its group and is no hit itself. `vectors` are all of them, or their sketches. `waiting` is the first
    entry without a vector."""

    entries: Ints
    groups: tuple[str, ...]
    of_group: Ints
    lengths: Floats
    shown: Mask
    vectors: Vectors | Sketches
    waiting: int | None

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], dimension: int) -> Part:
        """The part of some rows: entry, group, terms, whether it is shown, and its vector of this space or None."""
        entries, named, lengths, shown, vectors = zip(*rows, strict=True) if rows else ((),) * 5
        numbers = {group: number for number, group in enumerate(dict.fromkeys(named))}
        return cls(
            entries=np.array(entries, np.int64),
            groups=tuple(numbers),
            of_group=np.array([numbers[group] for group in named], np.int64),
            lengths=np.array(lengths, np.float64),
            shown=np.array(shown, np.bool_),
            vectors=matrix_of(vectors, dimension),
            waiting=next((entry for entry, vector in zip(entries, vectors, strict=True) if vector is None), None),
        )

    @property
    def is_sketched(self) -> bool:
        """Whether sketches stand in the place of the vectors."""
        return self.vectors.dtype == np.uint64

    def sketched(self) -> Part:
        """The same passages with sketches in the place of their vectors, if they have any."""
        if self.is_sketched or not self.vectors.shape[1]:
            return self
        return replace(self, vectors=sketches(self.vectors.astype(np.float32, copy=False)))

    @classmethod
    def joined(cls, parts: Sequence[Part], exact: int = EXACT) -> Part:
        """Several parts, at least one, as one: with sketches if one has them, or if they are more than `exact`."""
        if sum(len(part.entries) for part in parts) > exact or any(part.is_sketched for part in parts):
            parts = [part.sketched() for part in parts]
        numbers: dict[str, int] = {}
        of_group = []
        for part in parts:
            known = [numbers.setdefault(group, len(numbers)) for group in part.groups]
            of_group.append(np.array(known, np.int64)[part.of_group])
        return cls(
            entries=np.concatenate([part.entries for part in parts]),
            groups=tuple(numbers),
            of_group=np.concatenate(of_group),
            lengths=np.concatenate([part.lengths for part in parts]),
            shown=np.concatenate([part.shown for part in parts]),
            vectors=np.concatenate([part.vectors for part in parts]),
            waiting=next((part.waiting for part in parts if part.waiting is not None), None),
        )

    def rows(self, rows: slice) -> Part:
        """Some of the passages that have their vectors."""
        groups, of_group = np.unique(self.of_group[rows], return_inverse=True)
        return Part(
            self.entries[rows],
            tuple(self.groups[group] for group in groups),
            of_group.astype(np.int64),
            self.lengths[rows],
            self.shown[rows],
            self.vectors[rows],
            None,
        )

    def complete(self) -> Part:
        """The passages that stay right as they are: those before the first that may still get a vector."""
        if self.waiting is None or not self.vectors.shape[1]:
            return self
        return self.rows(slice(int(np.searchsorted(self.entries, self.waiting))))


@dataclass(slots=True)
class Postings:
    """For each term that was looked for its occurrences, and those of its other forms. Bounded, and safe to use from
    several threads."""

    kept: OrderedDict[str, tuple[Ints, Ints]] = field(default_factory=OrderedDict)
    size: int = 0
    most: int = MOST_POSTINGS
    lock: Lock = field(default_factory=Lock)

    def find(self, term: str) -> tuple[Ints, Ints] | None:
        """What is kept of a term."""
        with self.lock:
            if term in self.kept:
                self.kept.move_to_end(term)
            return self.kept.get(term)

    def keep(self, term: str, held: tuple[Ints, Ints]) -> None:
        """Keep a term's occurrences; those that were not used for longest make room."""
        with self.lock:
            if term in self.kept:
                return
            self.kept[term] = held
            self.size += _bytes_of(held)
            while self.size > self.most and len(self.kept) > 1:
                self.size -= _bytes_of(self.kept.popitem(last=False)[1])


def _bytes_of(held: tuple[Ints, Ints]) -> int:
    return held[0].nbytes + held[1].nbytes + _OVERHEAD_TERM


@dataclass(frozen=True, slots=True)
class PassageScope:
    """Passages that are searched together: part after part, `offsets` says where each begins.

    Rankings go by place: `order` has the row of each place, those of one group together. `by_entry` are the places by
    entry.
    """

    marks: tuple[Mark, ...]
    offsets: tuple[int, ...]
    whole: Part
    order: Ints
    by_entry: Ints
    postings: Postings = field(default_factory=Postings)

    @classmethod
    def of(cls, parts: Mapping[Mark, Part], exact: int = EXACT) -> PassageScope:
        """The scope of these parts, at least one; see `Part.joined`."""
        whole = Part.joined(list(parts.values()), exact)
        ends = np.cumsum([len(part.entries) for part in parts.values()])
        order = np.argsort(whole.of_group, kind="stable")
        by_entry = np.argsort(whole.entries[order], kind="stable")
        return cls(tuple(parts), (0, *(int(end) for end in ends)), whole, order, by_entry)

    @property
    def last(self) -> int:
        """The newest entry, 0 if there is none."""
        return int(self.whole.entries.max()) if len(self.whole.entries) else 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return int(self.whole.vectors.nbytes) + _OVERHEAD * len(self.order) + self.postings.size

    def parts(self, wanted: Collection[Mark]) -> dict[Mark, Part]:
        """Of the parts those with these marks."""
        return {
            mark: self.whole.rows(slice(*self.offsets[at : at + 2]))
            for at, mark in enumerate(self.marks)
            if mark in wanted
        }

    def occurrences(self, stored: Ints) -> Ints:
        """Occurrences by entry as occurrences by place, rising; those of other entries are left out."""
        entries = stored >> PLACE_BITS
        rising = self.whole.entries[self.order[self.by_entry]]
        at = np.searchsorted(rising, entries)
        here = at < len(rising)
        here[here] = rising[at[here]] == entries[here]
        return np.sort(moved(stored[here], self.by_entry[at[here]]))


_NOTHING = np.zeros(0, np.int64)

Words = list[tuple[int, bytes]] | tuple[Ints, Ints]
"""Pages in which a word may stand, each with the first entry of its run; or what was kept of the word."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A scope with the words of a query: `read` has each of them, `runs` the entries of the runs, as they are stored.

    `forms`: other forms of the words count too. `exact` are the vectors of some entries of a scope that has sketches.
    """

    scope: PassageScope
    read: Mapping[str, Words]
    runs: Mapping[int, bytes] = field(default_factory=dict)
    forms: bool = False
    exact: tuple[Ints, Vectors] | None = None
    _entries: dict[int, Ints] = field(default_factory=dict)
    _about: dict[bytes, Floats] = field(default_factory=dict)

    def about(self, vector: Vectors) -> Floats:
        """The similarities of all passages to a vector, by the sketches; made once."""
        key = vector.tobytes()
        if key not in self._about:
            self._about[key] = estimated(self.scope.whole.vectors.view(np.uint64), vector)
        return self._about[key]

    def held(self, word: str) -> tuple[Ints, Ints]:
        """Where a word stands, and where its other forms do; kept from now on."""
        read = self.read[word]
        if isinstance(read, tuple):
            return read
        pages = [(self._entries_of(first), page) for first, page in read]
        found = found_in(pages, word, common_beginning(word) if self.forms else "")
        own = found.get(word, np.zeros(0, np.int64))
        forms = [row for term, row in found.items() if is_form(word, term)]
        held = self.scope.occurrences(own), self.scope.occurrences(np.concatenate([own[:0], *forms]))
        self.scope.postings.keep(word, held)
        return held

    def _entries_of(self, first: int) -> Ints:
        if first not in self._entries:
            self._entries[first] = entries_of(self.runs[first])
        return self._entries[first]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranking of places, with the entry, the number of the group and the similarity of each."""

    made: Ranking
    entries: Ints
    of_group: Ints
    similar: Floats | None


class _View:
    """The places of a scope that are searched: all, or those of some groups."""

    def __init__(self, reading: Reading, groups: frozenset[str] | None) -> None:
        scope = reading.scope
        self.reading, order = reading, scope.order
        of_group = scope.whole.of_group[order]
        self.places: Ints | None = None
        if groups is not None and not groups.issuperset(scope.whole.groups):
            wanted = np.array([group in groups for group in scope.whole.groups], np.bool_)[of_group]
            self.places, order = np.cumsum(wanted) - 1, order[wanted]
            of_group = np.unique(of_group[wanted], return_inverse=True)[1].astype(np.int64)
            self._wanted = wanted
        self.order, self.of_group = order, of_group

    def here(self, occurrences: Ints) -> Ints:
        """Occurrences in the scope as those in what is searched of it."""
        if self.places is None:
            return occurrences
        at = occurrences >> PLACE_BITS
        inside = self._wanted[at]
        return moved(occurrences[inside], self.places[at[inside]])

    def similar(self, vector: Vectors) -> Floats:
        """The similarities to a vector, 0 for a passage that has none."""
        whole = self.reading.scope.whole
        if not whole.is_sketched:
            return (whole.vectors @ vector)[self.order].astype(np.float64)
        found = self.reading.about(vector)[self.order]
        return found if self.reading.exact is None else self._corrected(found, vector, *self.reading.exact)

    def _corrected(self, found: Floats, vector: Vectors, entries: Ints, vectors: Vectors) -> Floats:
        """Similarities, exact where the vectors are there. The others get the mean and the deviation of the sample."""
        exact = np.zeros(len(found))
        here = self.reading.scope.whole.entries[self.order]
        known = np.flatnonzero(np.isin(here, entries))
        exact[known] = (vectors @ vector)[np.searchsorted(entries, here[known])]
        sample = self.sample()
        about, right = (each[sample][(found[sample] != 0) & (exact[sample] != 0)] for each in (found, exact))
        if len(right) and about.std():
            found = np.where(found, right.mean() + (found - about.mean()) * right.std() / about.std(), 0.0)
        return np.where(exact, exact, found)

    def sample(self) -> Ints:
        """Some places, from all over what is searched."""
        return np.unique(np.linspace(0, len(self.order) - 1, SAMPLE).astype(np.int64)) if len(self.order) else _NOTHING


def nearest(reading: Reading, vector: bytes, groups: frozenset[str] | None = None) -> Ints:
    """The entries of a scope that has sketches whose vectors a search needs: the nearest, and a sample."""
    view, whole = _View(reading, groups), reading.scope.whole
    similar = reading.about(unpacked(vector))[view.order]
    count = min(NEAREST, len(similar))
    first = np.argpartition(-similar, count - 1)[:count] if count else _NOTHING
    return np.unique(whole.entries[view.order[np.concatenate([first, view.sample()])]])


def ranked(
    rule: Rule,
    readings: Sequence[Reading],
    words: Sequence[str],
    space: Space,
    vector: bytes | None,
    groups: frozenset[str] | None = None,
) -> Ranked:
    """The passages of one or more scopes, ranked together; `groups` limits them to these documents."""
    views = [_View(reading, groups) for reading in readings]
    firsts = np.cumsum([0, *(len(view.order) for view in views)])
    numbers = np.cumsum([0, *(int(view.of_group.max(initial=-1)) + 1 for view in views)])
    held: dict[str, Ints] = {}
    forms: dict[str, Ints] = {}
    for word in dict.fromkeys(words):
        rows = [view.reading.held(word) for view in views]
        for into, kind in ((held, 0), (forms, 1)):
            moved_on = (
                view.here(row[kind]) + (first << PLACE_BITS)
                for view, row, first in zip(views, rows, firsts, strict=False)
            )
            into[word] = np.concatenate(list(moved_on))
    of_group = np.concatenate([view.of_group + number for view, number in zip(views, numbers, strict=False)])
    lengths = np.concatenate([view.reading.scope.whole.lengths[view.order] for view in views])
    similar = None
    if vector is not None:
        wide = unpacked(vector)
        similar = np.concatenate([view.similar(wide) for view in views])
    made = rule(Corpus(of_group, lengths), Matches(words, held, forms, similar), space)
    entries = np.concatenate([view.reading.scope.whole.entries[view.order] for view in views])
    return Ranked(made, entries, of_group, similar)


Key = tuple[str, ...]
"""What a scope is of: the index, then the shelf or the owner and the conversation, then the space of the vectors."""


class Scopes:
    """Scopes that were used lately, up to a number of bytes; one for a process, safe to use from several threads."""

    def __init__(self, most: int = MOST_BYTES, exact: int = EXACT) -> None:
        self._most = most
        self.exact = exact
        self._lock = Lock()
        self._kept: OrderedDict[Key, PassageScope] = OrderedDict()

    def find(self, key: Key) -> PassageScope | None:
        """What is kept under this key, whether it is still right or not."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Key, scope: PassageScope) -> None:
        """Keep a scope, unless more of the same was kept meanwhile; those that were not used for longest make room."""
        with self._lock:
            known = self._kept.get(key)
            if known is not None and known.marks == scope.marks and known.last > scope.last:
                return
            self._kept[key] = scope
            self._kept.move_to_end(key)
            while self._kept and self.size > self._most:
                self._kept.popitem(last=False)

    def forget(self, *beginning: str) -> None:
        """Drop what is kept under keys that begin so."""
        with self._lock:
            for key in [key for key in self._kept if key[: len(beginning)] == beginning]:
                del self._kept[key]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(scope.size for scope in self._kept.values())
