"""The first of many scores are those of a whole sort, ties in their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.search.ranking import first_of


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 12))
def test_the_first_are_those_of_a_whole_stable_sort(scores: list[int], limit: int) -> None:
    given_scores = np.array(scores, np.float64)
    whole = np.argsort(-given_scores, kind="stable")[:limit]
    assert first_of(given_scores, limit).tolist() == whole.tolist()
