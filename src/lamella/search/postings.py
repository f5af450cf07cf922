"""Where the terms of passages stand, as it is stored: the same bytes on every database. Pure.

A *run* holds the terms of some passages. Each addition makes a run; runs of about one size are merged, so that few are
looked through. A run is cut into *pages* by its terms, which rise; a page is known by the term that it begins with, and
the first one by "". So a term is in one page of each run, and those that begin alike are in few.

Example: passages 7 ("a ferry") and 9 ("the ferry, the pier") make a run of one page:

    entries   7, 9
    terms     a, ferry, pier, the
    places    a in the 1st at 0; ferry in the 1st at 1, in the 2nd at 1; pier in the 2nd at 3; the in the 2nd at 0, 2

A page is deflated. It has the terms, then how often each occurs, then for each occurrence how many passages it is after
the one before, then its place, as the difference to the one before if that is in the same passage. Numbers are written
in groups of seven bits, low ones first; the eighth bit says that more follow.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from lamella.search.ranking import PLACE_BITS, Ints, moved, place_in

PAGE = 3_000
"""Bytes of a page before it is deflated, about; less than 2,000 after, so that PostgreSQL keeps it in its row."""

MERGED = 8
"""How many runs of about one size are merged."""

WHOLE = 4_096
"""Passages of a run from which on it is not merged any more."""

_SEVEN = 127
_HEAD = Struct("<3I")
"""How long the terms, their counts and the steps are."""

_ZERO = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class TermRun:
    """The terms of some passages, by entry. Both rise; `counts` says how often each term occurs.

    An occurrence is the number of its passage in `entries` and its place, in one number: see `ranking.PLACE_BITS`.
    They stand term by term, and rise.
    """

    entries: Ints
    terms: Sequence[str]
    counts: Ints
    occurrences: Ints

    @classmethod
    def of(cls, passages: Mapping[int, Sequence[str]], *, places: bool = True) -> TermRun:
        """The run of some passages: their terms, in order, by entry. Without `places` a term only has how often it
        stands in a passage: its occurrences there are at 0, 1, 2 …
        """
        entries = np.array(sorted(passages), np.int64)
        held: dict[str, list[int]] = {}
        for number, entry in enumerate(entries.tolist()):
            here = number << PLACE_BITS
            for place, term in enumerate(passages[entry], here):
                before = held.setdefault(term, [])
                again = before[-1] + 1 if before and before[-1] >= here else here
                before.append(place if places else again)
        named = sorted(held.items())
        return cls(
            entries,
            [term for term, _ in named],
            np.array([len(places) for _, places in named], np.int64),
            np.array([place for _, places in named for place in places], np.int64),
        )

    @classmethod
    def merged(cls, runs: Sequence[TermRun], without: Ints) -> TermRun:
        """Several runs as one, without the passages of some entries."""
        entries = np.unique(np.concatenate([run.entries for run in runs]))
        left = entries[~np.isin(entries, without)]
        terms = sorted({term for run in runs for term in run.terms})
        numbers = {term: number for number, term in enumerate(terms)}
        of_term, occurrences = [], []
        for run in runs:
            known = np.array([numbers[term] for term in run.terms], np.int64)
            entry = run.entries[run.occurrences >> PLACE_BITS]
            number = np.minimum(np.searchsorted(left, entry), max(len(left) - 1, 0))
            stays = left[number] == entry if len(left) else np.zeros(len(entry), np.bool_)
            of_term.append(np.repeat(known, run.counts)[stays])
            occurrences.append(moved(run.occurrences, number)[stays])
        term, occurrence = np.concatenate(of_term), np.concatenate(occurrences)
        order = np.lexsort((occurrence, term))
        counts = np.bincount(term, minlength=len(terms))
        held = np.flatnonzero(counts)
        return cls(left, [terms[at] for at in held], counts[held], occurrence[order])

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """The first term of each page, "" for the first page, and the page."""
        ends = np.cumsum(self.counts)
        sizes = np.cumsum([len(term) + 1 for term in self.terms]) + 3 * ends if len(self.terms) else ends
        first = 0
        while first == 0 or first < len(self.terms):
            begins = int(sizes[first - 1]) if first else 0
            last = max(int(np.searchsorted(sizes, begins + PAGE, "right")), first + 1)
            at = int(ends[first - 1]) if first else 0
            counts, terms = self.counts[first:last], self.terms[first:last]
            page = _page(terms, counts, self.occurrences[at : at + int(counts.sum())])
            yield (terms[0] if first else ""), page
            first = last

    @classmethod
    def read(cls, entries: bytes, pages: Sequence[bytes]) -> TermRun:
        """A run that was stored."""
        found = [_Page.read(page) for page in pages]
        counts = np.concatenate([page.counts for page in found])
        steps, places = (np.concatenate([page.written[at] for page in found]) for at in (0, 1))
        terms = [term for page in found for term in page.terms]
        return cls(entries_of(entries), terms, counts, _occurrences(counts, steps, places))


def packed_entries(entries: Ints) -> bytes:
    """The entries of a run, as they are stored."""
    return _deflated(_written(np.diff(entries, prepend=0)))


def entries_of(stored: bytes) -> Ints:
    """The entries of a run that was stored."""
    return np.cumsum(_numbers(np.frombuffer(_inflated(stored), np.uint8)))


def due(sizes: Mapping[int, int]) -> list[int]:
    """Of runs, by the passages of each, those to be merged now: `MERGED` of about one size, the smallest ones first."""
    alike: dict[int, list[int]] = {}
    for run, size in sizes.items():
        if size < WHOLE:
            alike.setdefault(int(log(max(size, 1), MERGED) + 1e-9), []).append(run)
    return next((runs for _, runs in sorted(alike.items()) if len(runs) >= MERGED), [])


def found_in(pages: Iterable[tuple[Ints, bytes]], term: str, beginning: str = "") -> dict[str, Ints]:
    """Where a term stands, and all those of `beginning` if it is given, by pages with the entries of their runs.

    An occurrence has the entry of its passage here.
    """
    found: dict[str, list[tuple[Ints, _Written]]] = {}
    counts: dict[str, list[int]] = {}
    for entries, data in pages:
        page = _Page.read(data)
        first = bisect_left(page.terms, beginning or term)
        for at in range(first, len(page.terms)):
            one = page.terms[at]
            if not one.startswith(beginning or term):
                break
            if one == term or beginning:
                found.setdefault(one, []).append((entries, page.of_term(at)))
                counts.setdefault(one, []).append(int(page.counts[at]))
    return {one: _by_entry(parts, np.array(counts[one], np.int64)) for one, parts in found.items()}


_Written = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""The steps from passage to passage and the places of occurrences, as they are written."""


def _by_entry(parts: Sequence[tuple[Ints, _Written]], counts: Ints) -> Ints:
    """The occurrences of a term in several runs; they are read together, since there may be hundreds of few each."""
    steps, places = (np.concatenate([written[at] for _, written in parts]) for at in (0, 1))
    occurrences = _occurrences(counts, steps, places)
    sizes = np.array([len(entries) for entries, _ in parts], np.int64)
    numbers = (occurrences >> PLACE_BITS) + np.repeat(np.cumsum(sizes) - sizes, counts)
    return moved(occurrences, np.concatenate([entries for entries, _ in parts])[numbers])


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that is read; `written` are the occurrences of all its terms."""

    terms: Sequence[str]
    counts: Ints
    written: _Written

    @classmethod
    def read(cls, data: bytes) -> _Page:
        plain = _inflated(data)
        ends = _HEAD.size + np.cumsum(_HEAD.unpack_from(plain))
        terms = plain[_HEAD.size : ends[0]].decode().split("\n") if ends[0] > _HEAD.size else []
        rest = np.frombuffer(plain, np.uint8)
        return cls(terms, _numbers(rest[ends[0] : ends[1]]), (rest[ends[1] : ends[2]], rest[ends[2] :]))

    def of_term(self, at: int) -> _Written:
        """Those of one term."""
        first = int(self.counts[:at].sum())
        last = first + int(self.counts[at])
        steps, places = (_between(written, first, last) for written in self.written)
        return steps, places


def _occurrences(counts: Ints, steps: NDArray[np.uint8], places: NDArray[np.uint8]) -> Ints:
    """The occurrences of terms that occur so often."""
    starts = np.cumsum(counts) - counts
    passed = _numbers(steps)
    fresh = passed > 0
    fresh[starts] = True
    return (_sums(passed, starts) << PLACE_BITS) | _sums(_numbers(places), np.flatnonzero(fresh))


def _page(terms: Sequence[str], counts: Ints, occurrences: Ints) -> bytes:
    number, place = occurrences >> PLACE_BITS, place_in(occurrences)
    starts = np.cumsum(counts) - counts
    steps = np.diff(number, prepend=0)
    steps[starts] = number[starts]
    fresh = steps > 0
    fresh[starts] = True
    places = np.where(fresh, place, np.diff(place, prepend=0))
    parts = ["\n".join(terms).encode(), _written(counts), _written(steps), _written(places)]
    return _deflated(b"".join((_HEAD.pack(*map(len, parts[:3])), *parts)))


def _sums(differences: Ints, starts: Ints) -> Ints:
    """The running sums of numbers, which begin anew at each start."""
    sums: Ints = np.cumsum(differences)
    before = np.where(starts > 0, sums[starts - 1], 0)
    made: Ints = sums - np.repeat(before, np.diff(starts, append=len(sums)))
    return made


def _written(numbers: Ints) -> bytes:
    """Whole numbers from 0 on, in groups of seven bits."""
    groups = np.ones(len(numbers), np.int64)
    for bits in range(7, int(numbers.max(initial=0)).bit_length(), 7):
        groups += numbers >> bits > 0
    starts = np.cumsum(groups) - groups
    made = np.zeros(int(groups.sum()), np.uint8)
    for group in range(int(groups.max(initial=0))):
        here = groups > group
        more = (groups[here] > group + 1) * (_SEVEN + 1)
        made[starts[here] + group] = ((numbers[here] >> (7 * group)) & _SEVEN) | more
    return made.tobytes()


def _numbers(written: NDArray[np.uint8]) -> Ints:
    """The numbers that were written."""
    ends = np.flatnonzero(written <= _SEVEN)
    if len(ends) == len(written):
        return written.astype(np.int64)
    starts = np.concatenate((_ZERO, ends[:-1] + 1))
    group = np.arange(len(written)) - np.repeat(starts, ends - starts + 1)
    made: Ints = np.add.reduceat((written & _SEVEN).astype(np.int64) << (7 * group), starts)
    return made


def _between(written: NDArray[np.uint8], first: int, last: int) -> NDArray[np.uint8]:
    """Of the numbers that were written those from one to before another."""
    ends = np.flatnonzero(written <= _SEVEN)
    return written[int(ends[first - 1]) + 1 if first else 0 : int(ends[last - 1]) + 1]


def _deflated(plain: bytes) -> bytes:
    deflating = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(plain) + deflating.flush()


def _inflated(data: bytes) -> bytes:
    return zlib.decompress(data, -zlib.MAX_WBITS)
