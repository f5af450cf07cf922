"""Sizes as people write them: a share and a number of tokens are never taken for each other."""

from __future__ import annotations

import pytest

from lamella.core.tokens import Threshold, tokens_written


@pytest.mark.parametrize(("text", "tokens"), [("4000", 4_000), ("120_000", 120_000), (" 120k ", 120_000), ("0", 0)])
def test_tokens_as_people_write_them(text: str, tokens: int) -> None:
    assert tokens_written(text) == tokens


@pytest.mark.parametrize("text", ["", "-1", "1.5k", "1_2", "12m", "80%", "²", "9" * 13])
def test_what_is_no_number_of_tokens(text: str) -> None:
    with pytest.raises(ValueError, match="no number of tokens such as 120000, 120_000 or 120k"):
        tokens_written(text)


@pytest.mark.parametrize(
    ("text", "budget", "tokens"),
    [
        ("80%", 200_000, 160_000),
        ("100 %", 200_000, 200_000),
        ("0.5%", 200_000, 1_000),
        ("120000", 200_000, 120_000),
        ("120k", 100_000, 100_000),
        ("1000", 200_000, 1_000),
    ],
)
def test_a_threshold_is_a_share_or_tokens(text: str, budget: int, tokens: int) -> None:
    threshold = Threshold.of(text)
    assert threshold.in_tokens(budget) == tokens
    assert Threshold.of(str(threshold)) == threshold


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("80", "could be a share or tokens: write 80% or, from 1000 on, 120k"),
        ("0.8", "could be a share or tokens"),
        (".8", "could be a share or tokens"),
        ("999", "could be a share or tokens"),
        ("0%", "no share of the budget"),
        ("101%", "no share of the budget"),
        ("80 percent", "neither a share such as 80% nor tokens such as 120000 or 120k"),
        ("-5000", "neither a share"),
        ("", "neither a share"),
        ("0k", "less than 1000 tokens"),
    ],
)
def test_what_could_be_either_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Threshold.of(text)
