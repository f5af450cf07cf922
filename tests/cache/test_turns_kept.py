"""Where a compaction cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.economics import turns_kept


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([], 0),
        ([100], 1),
        ([3_000, 1_000, 900, 2_000], 3),
        ([3_000, 1_000, 1_000, 2_000], 3),
        ([3_000, 1_001, 1_000, 2_000], 2),
        ([100, 100, 5_000], 1),
        ([100, 100, 20_000], 0),
        ([20_000], 0),
    ],
)
def test_as_much_as_is_recent_stays_and_the_newest_turn_unless_it_is_huge(sizes: list[int], kept: int) -> None:
    assert turns_kept(sizes, keep=4_000, huge=10_000) == kept


@given(st.lists(st.integers(0, 10_000)), st.integers(0, 20_000), st.integers(0, 20_000))
def test_what_stays_is_a_suffix_that_fits(sizes: list[int], keep: int, huge: int) -> None:
    kept = turns_kept(sizes, keep, huge)
    tail = sizes[len(sizes) - kept :]
    assert 0 <= kept <= len(sizes)
    assert sum(tail) <= keep or tail[-1] <= huge
    if kept > 1:
        assert sum(tail[1:]) <= keep
