"""The offline optimum that compaction is measured against: as cheap as the best of all sets of cuts."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.economics import Rates
from optimum import Call, Summary, optimum

LIFE = 300.0
RATES = Rates(0.1, 1.25, 5.0)

calls = st.lists(st.tuples(st.integers(1, 900), st.sampled_from([20.0, 500.0]), st.booleans()), min_size=1, max_size=7)


def cost(made: list[Call], summary: Summary, cuts: tuple[int, ...]) -> float:
    """What these calls cost, compacted before those in `cuts`; infinite where that leaves the window no shorter."""
    total, window, written, before = 0.0, 0.0, 0.0, 0
    for index, call in enumerate(made):
        if index in cuts:
            after = made[0].input + summary.each * index + summary.kept
            if window <= after:
                return float("inf")
            total += RATES.read * window + summary.question + RATES.output * summary.each * (index - before)
            written, new = made[0].input + summary.each * before, after + call.input - made[index - 1].input
            before = index
        else:
            new = window + call.input - (made[index - 1].input if index else 0)
        warm = call.gap <= LIFE
        total += (RATES.read if warm else RATES.write) * written
        total += (1.0 if index == len(made) - 1 else RATES.write) * (new - written)
        window = written = new
    return total


@given(calls, st.integers(1, 100), st.integers(0, 200))
def test_no_set_of_cuts_is_cheaper(grown: list[tuple[int, float, bool]], each: int, kept: int) -> None:
    size, made = 0, []
    for tokens, gap, begins in grown:
        size += tokens
        made.append(Call(size, gap, begins))
    summary = Summary(each, kept, 30)
    places = [index for index, call in enumerate(made) if index and call.begins_turn]
    every = [cuts for count in range(len(places) + 1) for cuts in combinations(places, count)]
    least = min(cost(made, summary, cuts) for cuts in every)
    found, _ = optimum(made, summary, RATES, LIFE)
    assert abs(found - least) < 1e-6 * max(1.0, least)
