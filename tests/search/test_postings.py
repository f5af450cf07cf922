"""Runs of terms: what is written is read, whatever was merged and removed, and a page gives what a run holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.search.postings import MERGED, PAGE, WHOLE, TermRun, due, entries_of, found_in, packed_entries
from lamella.search.ranking import PLACE_BITS

TERMS = st.text("abcé預算ßя\U0001f600", min_size=1, max_size=4)
PASSAGES = st.dictionaries(st.integers(1, 2**40), st.lists(TERMS, max_size=40), max_size=12)
NONE = np.zeros(0, np.int64)

Found = dict[str, list[int]]


def written(run: TermRun) -> tuple[bytes, list[tuple[str, bytes]]]:
    return packed_entries(run.entries), list(run.pages())


def read(run: TermRun) -> TermRun:
    entries, pages = written(run)
    return TermRun.read(entries, [page for _, page in pages])


def placed(passages: Mapping[int, Sequence[str]], *, places: bool = True) -> Found:
    """Where each term stands, found without runs."""
    found: Found = {}
    for entry in sorted(passages):
        terms = passages[entry]
        for at, term in enumerate(terms):
            place = at if places else terms[:at].count(term)
            found.setdefault(term, []).append((entry << PLACE_BITS) + place)
    return found


def whole(run: TermRun) -> Found:
    """Where each term of a run stands, read page by page."""
    pages = [(entries_of(packed_entries(run.entries)), page) for _, page in run.pages()]
    return {term: found_in(pages, term)[term].tolist() for term in run.terms}


@given(PASSAGES, st.booleans())
def test_a_run_gives_where_each_term_stands(passages: dict[int, list[str]], places: bool) -> None:
    run = TermRun.of(passages, places=places)
    assert whole(run) == placed(passages, places=places) == whole(read(run))
    assert run.entries.tolist() == sorted(passages)


@given(st.lists(PASSAGES, min_size=1, max_size=5), st.data())
def test_merged_runs_hold_what_is_left_of_all(parts: list[dict[int, list[str]]], data: st.DataObject) -> None:
    seen: set[int] = set()
    for part in parts:
        for entry in seen & part.keys():
            del part[entry]
        seen |= part.keys()
    gone = data.draw(st.sets(st.sampled_from(sorted(seen) or [0])))
    merged = TermRun.merged([read(TermRun.of(part)) for part in parts], np.array(sorted(gone), np.int64))
    left = {entry: terms for part in parts for entry, terms in part.items() if entry not in gone}
    assert written(merged) == written(TermRun.of(left)), "a run does not tell how it came to be"


@given(PASSAGES, PASSAGES, TERMS)
def test_what_begins_alike_is_found_together_in_all_runs(
    one: dict[int, list[str]], other: dict[int, list[str]], beginning: str
) -> None:
    other = {entry + 2**41: terms for entry, terms in other.items()}
    runs = [TermRun.of(one), TermRun.of(other)]
    found = found_in(((run.entries, page) for run in runs for _, page in run.pages()), beginning, beginning)
    both = placed(one | other)
    assert {term: rows.tolist() for term, rows in found.items()} == {
        term: rows for term, rows in both.items() if term.startswith(beginning)
    }


def test_a_term_is_in_one_page_which_is_known_by_the_term_that_it_begins_with() -> None:
    passages = {entry: [f"term{entry * n % 9_000:04}" for n in range(1, 60)] for entry in range(1, 400)}
    run = TermRun.of(passages)
    pages = list(run.pages())
    assert len(pages) > 20
    assert pages[0][0] == ""
    firsts = [first for first, _ in pages]
    assert firsts == sorted(firsts)
    for at, (_, page) in enumerate(pages):
        held = found_in([(run.entries, page)], "t", "t")
        assert at == 0 or min(held) == firsts[at]
        assert at + 1 == len(pages) or max(held) < firsts[at + 1]
    assert max(len(page) for _, page in pages) < PAGE


def test_a_term_of_very_many_passages_has_a_page_of_its_own() -> None:
    run = TermRun.of({entry: ["all", f"one{entry}"] for entry in range(1, 20_000)})
    [(_, page)] = [(first, page) for first, page in run.pages() if "all" in found_in([(run.entries, page)], "all")]
    assert found_in([(run.entries, page)], "all")["all"].tolist() == [e << PLACE_BITS for e in range(1, 20_000)]


def test_a_run_without_passages_and_one_without_terms() -> None:
    assert TermRun.merged([TermRun.of({1: ["a"]})], np.array([1])).terms == []
    empty = TermRun.of({3: [], 5: []})
    assert whole(read(empty)) == {}
    assert read(empty).entries.tolist() == [3, 5]
    assert len(list(empty.pages())) == 1


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([2] * (MERGED - 1), 0),
        ([2] * MERGED, MERGED),
        ([2] * 9 + [8] * 7, 9),
        ([2] * 3 + [8] * MERGED, MERGED),
        ([WHOLE] * 20, 0),
        ([WHOLE - 1] * MERGED, MERGED),
    ],
)
def test_enough_runs_of_about_one_size_are_merged(sizes: list[int], merged: int) -> None:
    assert len(due(dict(enumerate(sizes)))) == merged


def test_the_number_of_runs_grows_with_the_logarithm() -> None:
    sizes: dict[int, int] = {}
    for number in range(20_000):
        sizes[number] = 2
        while runs := due(sizes):
            sizes[min(runs)] = sum(sizes.pop(run) for run in runs)
    assert sum(sizes.values()) == 40_000
    assert len(sizes) <= 7 * 4 + 40_000 // WHOLE
