"""Scores stay between 0 and 1, and the first of many are those of a whole sort, ties in their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.core.recall import Space
from lamella.search.ranking import PLACE_BITS, Corpus, Matches, first_of, rank_conversations


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 12))
def test_the_first_are_those_of_a_whole_stable_sort(scores: list[int], limit: int) -> None:
    given_scores = np.array(scores, np.float64)
    whole = np.argsort(-given_scores, kind="stable")[:limit]
    assert first_of(given_scores, limit).tolist() == whole.tolist()


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 6), max_size=4, unique=True), max_size=4),
    st.one_of(st.none(), st.lists(st.floats(0, 1), min_size=7, max_size=7)),
)
def test_a_score_is_one_at_most(held: list[list[int]], similar: list[float] | None) -> None:
    corpus = Corpus(np.array([0, 0, 0, 1, 1, 2, 2], np.int64), np.full(7, 9.0))
    words = [str(number) for number in range(len(held))]
    places = {
        word: np.array(sorted(holders), np.int64) << PLACE_BITS for word, holders in zip(words, held, strict=True)
    }
    near = np.array(similar, np.float64) if similar is not None else None
    made = rank_conversations(corpus, Matches(words, places, similar=near), Space("test", 0.5, 0.0, 0.5))
    for scores in (made.scores, made.groups, made.covers):
        assert ((scores >= 0) & (scores <= 1)).all()
