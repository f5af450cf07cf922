"""When old results become stubs, and which."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.cache.economics import ExpectedCalls, Rates
from lamella.cache.pruning import LEAST_AT_ONCE, PRUNE_MARGIN, PrunePolicy, PruneSettings, Pruning, ShownWindow, prune
from lamella.context.choices import KnownDecisions
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, StopReason, ToolCall, ToolResult, Turn, TurnStatus, UserMessage

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def turn(number: int, *words: int) -> Turn:
    """A turn whose steps each call one tool that gives so many words."""
    user = UserMessage(f"msg_{number}", "Go", NINE, "UTC", 1)
    steps = tuple(step(f"step_{number}_{index}", count) for index, count in enumerate(words))
    return Turn(f"turn_{number}", user, steps, TurnStatus.FINISHED)


def step(id: str, words: int) -> Step:
    call = ToolCall(f"call_{id}", "look", "{}")
    result = ToolResult(call.id, "look", "word " * words)
    return Step(id, "m", (call,), StopReason.TOOL_CALLS, "", words + 4, results=(result,))


def pruned(
    turns: list[Turn],
    boundary: str | None = None,
    *,
    forced: bool = False,
    policy: PrunePolicy = "auto",
    kept: tuple[str, ...] = (),
    full: str = "",
    prospect: ExpectedCalls | None = None,
    keep: int = 2_000,
) -> Pruning | None:
    known = [Decision(DecisionKind.PRUNE, "conv", boundary, "engine", "full")] if boundary is not None else []
    window = ShownWindow("conv", turns, KnownDecisions("m", known), 1.0, kept)
    settings = PruneSettings(policy=policy, keep=keep)
    return prune(window, settings, who="engine", asked=forced, full=full, calls=prospect)


def test_below_the_threshold_nothing_happens() -> None:
    assert pruned([turn(1, 4_000), turn(2, 3_900)]) is None


def test_above_it_all_but_the_newest_2000_tokens_become_stubs() -> None:
    found = pruned([turn(1, 4_000, 3_000), turn(2, 1_200), turn(3, 700)])
    assert found is not None
    assert found.decision.outcome == "step_1_1"
    assert found.decision.first_changed == "step_1_0"
    assert (found.before, found.after) == (8_900, 1_902)


def test_what_is_stubbed_already_does_not_count() -> None:
    turns = [turn(1, 9_000), turn(2, 5_000)]
    assert pruned(turns, "step_1_0") is None
    found = pruned([*turns, turn(3, 4_000)], "step_1_0")
    assert found is not None
    assert (found.decision.outcome, found.decision.first_changed) == ("step_3_0", "step_2_0")


def test_on_demand_it_happens_below_the_threshold_too() -> None:
    found = pruned([turn(1, 3_000), turn(2, 100)], forced=True)
    assert found is not None
    assert (found.decision.outcome, found.decision.why) == ("step_1_0", "asked for")
    assert pruned([turn(1, 1_000)], forced=True) is None


def test_results_of_a_tool_that_keeps_them_neither_count_nor_go() -> None:
    turns = [turn(1, 9_000), turn(2, 9_000)]
    assert pruned(turns, kept=("look",)) is None
    assert pruned(turns, kept=("other",)) is not None


def test_keep_all_keeps_until_the_window_is_full() -> None:
    turns = [turn(1, 9_000), turn(2, 9_000)]
    assert pruned(turns, policy="keep_all") is None
    found = pruned(turns, policy="keep_all", full="the window is full")
    assert found is not None
    assert (found.decision.outcome, found.decision.why, found.decision.numbers["all"]) == (
        "step_2_0",
        "the window is full",
        1,
    )


def test_keep_none_keeps_nothing_of_a_turn_that_ended() -> None:
    found = pruned([turn(1, 50)], policy="keep_none", kept=("look",))
    assert found is not None
    assert (found.decision.outcome, found.before, found.after) == ("step_1_0", 50, 1)


RATES = Rates(0.05, 1.25, 5)


RECENT = [turn(8), turn(9)]
"""Two newest turns without results."""


def test_by_price_it_happens_when_enough_calls_are_expected_to_repay_what_is_written_anew() -> None:
    """After the first stub stands what the turns said: 24 F/U calls at reads of 0.05, and half of that
    again for the margin.

    The row has what it was reckoned from.
    """
    turns = [turn(1, 4_000, 3_500), *RECENT]
    found = pruned(turns, keep=0, prospect=ExpectedCalls(RATES, calls=1))
    assert found is not None
    numbers = found.decision.numbers
    assert (numbers["before"], numbers["removed"], numbers["expected"]) == (7_500, 7_498, 1)
    assert numbers["surviving"] < 120
    assert numbers["pays_after"] == pytest.approx(PRUNE_MARGIN * 24 * numbers["surviving"] / 7_498)
    assert "1.5 times of that is saved after 0." in found.decision.why
    deep = [turn(1, 5_000), turn(2), replace(turn(3), user=replace(turn(3).user, tokens=5_000))]
    assert pruned(deep, keep=0, prospect=ExpectedCalls(RATES, calls=35)) is None
    assert pruned(deep, keep=0, prospect=ExpectedCalls(RATES, calls=39)) is not None


def test_by_price_it_takes_much_at_once_and_nothing_of_the_newest_two_turns() -> None:
    free = ExpectedCalls(RATES, calls=1_000)
    assert pruned([turn(1, 3_900), *RECENT], keep=0, prospect=free) is None
    assert pruned([turn(1, 4_100), *RECENT], keep=0, prospect=free) is not None
    assert pruned([turn(1, 9_000), turn(2, 9_000)], keep=0, prospect=free) is None
    found = pruned([turn(1, 9_000), turn(2, 9_000), turn(3, 9_000)], keep=0, prospect=free)
    assert found is not None
    assert (found.decision.outcome, found.before, found.after) == ("step_1_0", 27_000, 18_001)


def test_once_the_cache_has_ended_it_costs_nothing() -> None:
    deep = [turn(1, 5_000), replace(turn(2), user=replace(turn(2).user, tokens=30_000)), turn(3)]
    assert pruned(deep, keep=0, prospect=ExpectedCalls(RATES, calls=20)) is None
    found = pruned(deep, keep=0, prospect=ExpectedCalls(RATES, calls=0, cold=True))
    assert found is not None
    assert found.decision.numbers["pays_after"] == 0
    assert found.decision.why.startswith("the cache has ended")
    assert pruned(deep, prospect=ExpectedCalls(RATES, calls=0, cold=True)) is not None
    assert pruned([turn(1, 1_500), *RECENT], prospect=ExpectedCalls(RATES, calls=0, cold=True)) is None, (
        "the newest stay"
    )
    assert pruned([turn(1, 9_000)], prospect=ExpectedCalls(RATES, calls=0, cold=True)) is None, "the newest turns too"


@given(st.integers(0, 12_000), st.integers(0, 12_000), st.integers(0, 12_000), st.floats(0.01, 0.2))
def test_by_price_it_costs_less_than_leaving_it_for_the_calls_that_were_expected(
    removed: int, kept: int, said: int, read: float
) -> None:
    """Whatever is pruned by price saves half as much again as it costs within the calls that were expected; whatever
    is not, does not, or is little."""
    rates, calls = Rates(read, 1.25, 5), 10.0
    first = turn(1, removed, kept)
    last = replace(turn(2), user=replace(turn(2).user, tokens=said))
    found = pruned([first, last, turn(3)], keep=0, prospect=ExpectedCalls(rates, calls))
    if found is None:
        around = 150  # what frames questions and answers, at most
        dear = PRUNE_MARGIN * (rates.write - read) * (said + around) > read * calls * (removed + kept - around)
        assert dear or removed + kept < LEAST_AT_ONCE + around
    else:
        numbers = found.decision.numbers
        written = (rates.write - read) * numbers["surviving"]
        assert PRUNE_MARGIN * written <= read * numbers["removed"] * calls * (1 + 1e-9)
        assert numbers["removed"] >= LEAST_AT_ONCE


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5_000), max_size=3), max_size=5))
def test_a_pruning_frees_and_is_stable(sizes: list[list[int]]) -> None:
    turns = [turn(number, *words) for number, words in enumerate(sizes)]
    found = pruned(turns)
    if found is not None:
        assert found.after < found.before
        assert pruned(turns, found.decision.outcome) is None
