"""What a provider billed and what was counted here never mix, and add up."""

from __future__ import annotations

import pytest

from lamella.core.models import ImageRule, Markers, ModelFacts, Price
from lamella.core.tokens import Estimate, Usage


def test_usage_splits_its_input_in_read_written_and_fresh() -> None:
    usage = Usage(input=1_000, cache_read=600, cache_write_5m=200, cache_write_1h=50, output=10, reasoning=4)
    assert (usage.cache_write, usage.fresh) == (250, 150)
    assert usage + usage == Usage(2_000, 1_200, 400, 100, 20, 8)
    assert usage + Usage() == usage


@pytest.mark.parametrize(("tokens", "factor", "scaled"), [(100, 1.0, 100), (100, 1.001, 101), (3, 0.5, 2), (0, 2.0, 0)])
def test_a_calibrated_estimate_is_rounded_up(tokens: int, factor: float, scaled: int) -> None:
    assert Estimate(tokens).scaled(factor) == Estimate(scaled)


def test_above_its_tier_the_whole_request_costs_more() -> None:
    price = Price(1.0, 10.0, 0.1, 1.25, 2.0, tier_above=1_000, tier_factor=5)
    facts = ModelFacts("m", "p", 10_000, 100, 1, price, Markers.ANTHROPIC)
    usage = Usage(input=1_000, cache_read=400, cache_write_5m=300, cache_write_1h=100, output=50)
    assert facts.cost(usage) * 1_000_000 == pytest.approx(200 + 40 + 375 + 200 + 500)
    over = Usage(input=1_001, cache_read=400, cache_write_5m=300, cache_write_1h=100, output=50)
    assert facts.cost(over) * 1_000_000 == pytest.approx(5 * (201 + 40 + 375 + 200 + 500))


@pytest.mark.parametrize(
    ("width", "height", "tokens"), [(1, 1, 1), (10, 10, 1), (11, 10, 2), (100, 100, 100), (0, 0, 1), (1_000, 1, 10)]
)
def test_a_picture_is_counted_by_the_squares_that_cover_it(width: int, height: int, tokens: int) -> None:
    assert ImageRule(patch=10, longest_edge=100, most=200).tokens(width, height) == tokens


def test_a_larger_picture_is_counted_as_it_is_scaled_down() -> None:
    rule = ImageRule(patch=10, longest_edge=100, most=50, tokens_per_patch=1.5)
    assert rule.tokens(400, 400) == rule.tokens(100, 100) == rule.tokens(70, 70) == 74
    assert rule.tokens(1_000, 500) == 75
