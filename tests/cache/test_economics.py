"""Worked examples of what pruning and compaction cost, against the formulas written out."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from lamella.cache.economics import (
    Compaction,
    DynamicAhead,
    OtherSummariser,
    Rates,
    best_length,
    chance_of_reading,
    expected_calls,
    prune_calls,
)
from lamella.core.caching import Ttl
from lamella.core.tokens import Usage
from lamella.llm.model_table import ModelTable

from .windows import CLAUDE

EXAMPLE = Compaction(static=6_000, history=100_000, kept=4_000, summary=3_000)
TENTH, TWENTIETH, FORTIETH = (Rates(read, 1.25, 5) for read in (0.1, 0.05, 0.025))
ALL = (TENTH, TWENTIETH, FORTIETH)


def test_the_rates_are_those_of_the_table() -> None:
    assert Rates.of(CLAUDE) == TWENTIETH
    assert Rates.of(CLAUDE, Ttl.ONE_HOUR) == Rates(0.05, 2, 5)


def test_a_warm_compaction_pays_after_some_calls() -> None:
    assert [round(EXAMPLE.calls(rates), 1) for rates in ALL] == [3.7, 6.2, 11.4]
    assert round(EXAMPLE.now(TWENTIETH)) == 20_600


def test_a_cheaper_model_does_not_always_summarise_for_less() -> None:
    """Haiku 4.5 for Opus 5.5 loses against reading the prefix, Haiku 5.5 wins, also above its price tier."""
    here = EXAMPLE.now(TWENTIETH)
    costs = [elsewhere(share).now(TWENTIETH) for share in (0.25, 0.025, 0.125)]
    assert [cost > here for cost in costs] == [True, False, False]
    cheapest = [elsewhere(share, always=False).now(TWENTIETH) for share in (0.25, 0.025, 0.125)]
    assert cheapest == [here, *costs[1:]]


def elsewhere(share: float, *, always: bool = True) -> Compaction:
    """The example, its summary by a model at this share of the prices."""
    return replace(EXAMPLE, elsewhere=OtherSummariser(share, share * 5, always))


def test_a_summary_that_another_model_makes_for_less_pays_sooner() -> None:
    cheap, dear = elsewhere(0.025), elsewhere(0.25)
    assert cheap.calls(TWENTIETH) < EXAMPLE.calls(TWENTIETH) < dear.calls(TWENTIETH)
    assert best_length(1_220, cheap, TWENTIETH) < best_length(1_220, EXAMPLE, TWENTIETH)
    assert cheap.return_worth(TWENTIETH) < EXAMPLE.return_worth(TWENTIETH)
    assert dear.when_cold(TWENTIETH) < EXAMPLE.when_cold(TWENTIETH), "nothing of the prefix is cached any more"
    assert dear.cold_worth(TWENTIETH, 20) < EXAMPLE.cold_worth(TWENTIETH, 20)


def test_another_model_s_prices_are_told_in_tokens_of_this_one() -> None:
    table = ModelTable.read(None)
    opus, small = (table.facts(f"claude-{name}", "anthropic") for name in ("opus-5-5", "haiku-4-5"))
    priced = OtherSummariser.of(small, opus, always=True)
    fewer = small.token_factor / opus.token_factor
    assert priced is not None
    assert (priced.read, priced.output) == pytest.approx((0.25 * fewer, 1.25 * fewer))
    assert OtherSummariser.of(table.facts("nobody-knows-it", "openai"), opus, always=True) is None


def test_so_it_is_with_the_bills_of_the_model_table_by_which_the_cheapest_is_chosen() -> None:
    """The same example in US dollars: 106k read and 3k said by Opus 5.5, or 100k read at full price by another."""
    table = ModelTable.read(None)
    opus, small, newest = (
        table.facts(f"claude-{name}", "anthropic") for name in ("opus-5-5", "haiku-4-5", "haiku-5-5")
    )
    main = opus.cost(Usage(input=106_300, cache_read=106_000, output=3_000))
    assert main == pytest.approx(20_600 * 4 / 1e6)
    assert small.cost(Usage(input=100_000, output=3_000)) > main
    assert newest.cost(Usage(input=100_000, output=3_000)) < newest.cost(Usage(input=100_001, output=3_000)) < main
    cold = opus.cost(Usage(input=106_300, output=3_000))
    assert small.cost(Usage(input=100_000, output=3_000)) < cold, "once nothing of the prefix is cached"


def test_a_form_of_dynamic_context_costs_what_the_example_says() -> None:
    """400 tokens, others in each of 40 turns of 3 calls. Without a cache it costs 9,540k."""
    ahead = DynamicAhead(400, turns=40, calls=3)
    shares = [round((ahead.kept(rates) - ahead.late()) / 9_540_000, 3) for rates in ALL]
    assert shares == [0.007, 0.002, 0.0]  # .130, .076, .049 in place; .123, .074, .049 last
    assert [ahead.stays(rates) for rates in ALL] == [False, False, True]


def test_dynamic_context_that_does_not_change_is_kept() -> None:
    """It is sent once and read from then on; last it would be paid whole in every call."""
    ahead = DynamicAhead(400, turns=40, calls=3, changed=1 / 40)
    assert ahead.kept(TENTH) == pytest.approx(400 * (1.25 + 0.1 * 119))
    assert ahead.late() == 400 * 120
    assert ahead.stays(TENTH)
    always_cold = TENTH.with_gaps(1.0)
    assert not ahead.stays(always_cold), "every call writes it anew"


def test_a_cold_compaction_is_repaid_at_once() -> None:
    assert round(EXAMPLE.when_cold(TWENTIETH)) == 5_050


def test_before_the_cache_ends_a_late_return_decides() -> None:
    assert [round(EXAMPLE.return_worth(rates), 2) for rates in (TWENTIETH, TENTH)] == [0.18, 0.22]


def test_pruning_pays_where_little_stands_behind_it() -> None:
    assert [round(prune_calls(7_500, 700, rates), 1) for rates in ALL] == [1.1, 2.2, 4.6]
    assert [round(prune_calls(6_000, 8_000, rates)) for rates in ALL] == [15, 32, 65]
    assert prune_calls(0, 8_000, TENTH) == inf


def test_what_is_read_again_makes_pruning_wait() -> None:
    """A result that is read again is written once more: in one case of twenty that is 0.0625 of it."""
    assert chance_of_reading(0, 0) == 0.05
    assert [round(prune_calls(7_500, 0, rates, 0.05), 3) for rates in ALL] == [0.625, 1.25, 2.5]
    assert chance_of_reading(9, 20) == 0.25
    assert chance_of_reading(90, 20) == 1


def test_calls_are_expected_as_many_as_were_made_and_no_more_than_fit() -> None:
    assert expected_calls(12, 1_000, 50_000) == 12
    assert expected_calls(12, 1_000, 5_000) == 5
    assert (expected_calls(12, 1_000, -5_000), expected_calls(12, 0, 0)) == (0, 12)


def test_after_the_cache_has_ended_a_summary_costs_the_whole_window() -> None:
    """By 5.5 the summary reads 106k at full price and saves writing 93k, then reading them with every call."""
    assert round(EXAMPLE.cold_worth(TWENTIETH, 1), 2) == 1.04
    assert round(EXAMPLE.cold_worth(TWENTIETH, 11), 2) == 0.75


def test_the_best_length_of_the_trace_of_5_8() -> None:
    """Two rounds of 80 and 1,500 tokens, a message of 150 and an answer of 350, three calls a turn."""
    growth = (150 + 2 * 1_580 + 350) / 3
    found = [best_length(growth, EXAMPLE, rates) for rates in ALL]
    assert found == [pytest.approx(length, rel=0.02) for length in (38_000, 48_000, 62_000)]


def test_with_gaps_a_shorter_window_is_best() -> None:
    assert TWENTIETH.with_gaps(0.1).read == pytest.approx(0.17)
    assert best_length(1_220, EXAMPLE, TWENTIETH.with_gaps(0.1)) < best_length(1_220, EXAMPLE, TWENTIETH)


def test_where_nothing_is_paid_or_freed_nothing_pays() -> None:
    free = Rates(0, 0, 0)
    assert (best_length(1_000, EXAMPLE, free), EXAMPLE.calls(free)) == (inf, inf)
    small = Compaction(static=6_000, history=5_000, kept=4_000, summary=3_000)
    assert (small.calls(TENTH), small.return_worth(TENTH)) == (inf, inf)
