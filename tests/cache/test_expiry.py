"""What is worth being done before and after a cache ends, by a worked example."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lamella.cache.economics import Compaction, ExpectedCalls, Rates
from lamella.cache.forecast import RequestForecast
from lamella.cache.weighing import Act, after_it_ended, before_it_ends, ends_at
from lamella.core.models import Markers
from lamella.core.records import StoredMarker

from .windows import CLAUDE

EXAMPLE = Compaction(static=6_000, history=100_000, kept=4_000, summary=3_000)
AHEAD = ExpectedCalls(Rates(0.05, 1.25, 5), calls=20)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_what_was_marked_ends_with_its_longest_life_since_the_request_began() -> None:
    short, long = StoredMarker(3, "5m", ""), StoredMarker(1, "1h", "")
    assert ends_at(NOON, (short,), CLAUDE) == NOON + timedelta(minutes=5)
    assert ends_at(NOON, (long, short), CLAUDE) == NOON + timedelta(hours=1)
    assert ends_at(NOON, (), CLAUDE) is None
    assert ends_at(NOON, (), replace(CLAUDE, markers=Markers.NONE)) == NOON + timedelta(minutes=5)


def test_who_never_came_back_late_is_not_expected_to() -> None:
    assert RequestForecast(gaps=()).later(300) == 0
    assert RequestForecast(gaps=(40, 60, 100)).later(300) == 0
    assert RequestForecast(gaps=(40, 60, 480)).later(300) == pytest.approx(1 / 1.5)
    assert RequestForecast(gaps=(480, *[40] * 9)).later(300) == pytest.approx(1 / 1.5), "quick turns say nothing of it"
    assert RequestForecast(gaps=(480, 40, 7_200)).later(300) == pytest.approx(1.9 / 2.4), "an older return weighs less"
    assert RequestForecast(gaps=(480, 7_200)).later(600) == pytest.approx(1 / 1.5), (
        "only what is longer than the silence"
    )


def test_before_it_ends_a_summary_is_made_where_a_late_return_is_likely_enough() -> None:
    """5.5: from 0.18 on at reads of 0.05."""
    never, once, twice = (
        RequestForecast(gaps=(40,) * 9),
        RequestForecast(gaps=(480, *[40] * 8)),
        RequestForecast(gaps=(480, *[40] * 8, 480)),
    )
    assert before_it_ends(EXAMPLE, AHEAD, never, 255).act is Act.NOTHING
    move = before_it_ends(EXAMPLE, AHEAD, once, 255)
    assert move.act is Act.COMPACT
    assert move.numbers["needed"] == pytest.approx(0.18, abs=0.005)
    assert "67% likely" in move.why
    small = replace(EXAMPLE, history=26_000)
    assert small.return_worth(AHEAD.rates) == pytest.approx(0.71, abs=0.005)
    assert [before_it_ends(small, AHEAD, one, 255).act for one in (once, twice)] == [Act.NOTHING, Act.COMPACT]


def test_once_it_has_ended_only_a_return_that_is_nearly_certain_is_worth_reading_all_of_it() -> None:
    sure = RequestForecast(gaps=(7_200,) * 30)
    soon = replace(AHEAD, calls=8)
    assert EXAMPLE.cold_worth(soon.rates, soon.calls) == pytest.approx(0.815, abs=0.005)
    assert after_it_ended(EXAMPLE, soon, sure, 400).act is Act.COMPACT
    assert after_it_ended(EXAMPLE, soon, RequestForecast(gaps=(480, 40, 40)), 400).act is Act.NOTHING
    short = Compaction(static=6_000, history=5_000, kept=4_000, summary=3_000)
    assert "cost more than it saves" in after_it_ended(short, AHEAD, sure, 400).why
