"""When the next request comes, and what is worth being written for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.forecast import (
    ALONE,
    Chance,
    Pace,
    RequestForecast,
    Tail,
    forecast_between,
    forecast_of,
    life_worth,
    worth_a_step,
)
from lamella.cache.ledger import Entry, Ledger
from lamella.cache.planner import STEADY, TURN, MarkerPolicy, Plan, note_written, plan
from lamella.core.messages import Step, StopReason, Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, SeedMarker, Segment, Ttl, Zone

from .windows import CLAUDE, FREE, GPT, START, chained, facts, history, positions, segment

MINUTE, HOUR = 60.0, 3600.0
FIVE, ONE = Ttl.FIVE_MINUTES, Ttl.ONE_HOUR
FIXED = segment("system", Zone.FIXED)
TENTH = replace(CLAUDE, price=replace(CLAUDE.price, read=0.1))


def turn(minutes: float, steps: int = 1) -> Turn:
    user = UserMessage("m", "text", START + timedelta(minutes=minutes), "UTC", 1)
    return Turn("t", user, tuple(Step(f"s{n}", "m", (), StopReason.END_TURN, "", 1) for n in range(steps)))


def alone(*gaps: float) -> RequestForecast:
    """Turns of one request each, so many seconds apart."""
    return RequestForecast(0.0, gaps)


def chance(forecast: RequestForecast, life: Ttl = FIVE) -> Chance:
    """The chances of a request within this life."""
    return forecast.within((life,))[life]


def returns(*gaps: float) -> float:
    """The chance of a return within five minutes."""
    return chance(alone(*gaps)).next


def test_of_a_conversation_that_begins_it_is_supposed_that_it_goes_on_soon() -> None:
    assert 0.5 < returns() < chance(alone(), ONE).next < 0.95
    assert chance(RequestForecast(1.0, ())).next == 1.0


def test_the_newest_gaps_weigh_most() -> None:
    came_back, went_away = (HOUR * 5, MINUTE), (MINUTE, HOUR * 5)
    assert returns(*went_away) < returns(*came_back)
    assert returns(*[HOUR * 5] * 3) < 0.21 < returns(*went_away)


def test_gaps_are_known_of_messages_that_the_window_holds_no_more() -> None:
    """A summary shortens the window, and people write as they did before."""
    sent = [turn(minutes).user.sent_at for minutes in (0, 10)]
    window = (turn(11), turn(21))
    gaps = (600.0, 60.0, 600.0)
    assert forecast_between(window, sent) == RequestForecast(0.0, gaps)
    assert forecast_of(window[:1], window[1], may_call=False, before=sent).gaps == gaps


def test_a_gap_like_those_before_is_neither_certain_nor_are_others_impossible() -> None:
    """Nothing was seen between 5 minutes and an hour, and it is the most likely gap behind 4, 5 and 6 minutes."""
    pace = Pace.of([4 * MINUTE, 6 * MINUTE, 4.5 * MINUTE, 5.5 * MINUTE])
    assert 0.5 < pace.within(FIVE) < 0.7 < 0.97 < pace.within(ONE) < 1


@given(st.lists(st.floats(0.001, 1e7), max_size=60), st.floats(1.1, 10))
def test_a_longer_life_is_never_less_likely_to_suffice_and_longer_gaps_never_make_it_likelier(
    gaps: list[float], factor: float
) -> None:
    pace, slower = Pace.of(gaps), Pace.of([max(gap, 1.0) * factor for gap in gaps])
    assert 0 < pace.within(FIVE) <= pace.within(Ttl.THIRTY_MINUTES) <= pace.within(ONE) < 1
    assert pace.middle <= slower.middle


def test_the_gaps_are_those_between_messages_and_a_clock_that_went_back_makes_none() -> None:
    turns = [turn(0), turn(10), turn(4)]
    assert forecast_of(turns, turn(5, steps=0), may_call=False) == RequestForecast(0.0, (600.0, 60.0))


def test_the_requests_of_a_turn_are_those_of_the_turns_so_far() -> None:
    turns = [turn(0, 3), turn(1, 4)]
    assert forecast_of(turns, turn(2, 1), may_call=False).calls == 3
    assert forecast_of([], turn(0, 0), may_call=True).calls == 1.5


def test_whether_a_turn_goes_on_is_told_by_those_that_came_as_far() -> None:
    turns = [turn(0, 3), turn(1, 3), turn(2, 1)]
    chances = [forecast_of(turns, turn(3, steps), may_call=True).more for steps in range(4)]
    assert chances == pytest.approx([2.5 / 4, 2.5 / 3, 0.5 / 3, 0.5])
    assert forecast_of(turns, turn(3, 0), may_call=False).more == 0.0


@pytest.mark.parametrize(("model", "edge"), [(TENTH, 0.25 / 1.15), (CLAUDE, 0.25 / 1.2)])
def test_a_tail_is_written_above_the_break_even_of_5_2(model: ModelFacts, edge: float) -> None:
    """Where nobody comes back, and each turn makes so many requests that the next one is as likely as that."""
    gaps = (HOUR * 9,) * 50
    back = returns(*gaps)
    for p, life in ((edge + 0.01, FIVE), (edge - 0.01, None)):
        more = (p - back) / (1 - back)
        forecast = RequestForecast(more, gaps, calls=1 / (1 - more))
        assert (chance(forecast).next, chance(forecast).usual) == pytest.approx((p, p))
        assert life_worth(Tail(1_000, 0, None), forecast, replace(model, lives=(FIVE,))) is life
        assert worth_a_step(RequestForecast(p), model, FIVE) == (life is FIVE)


def test_an_hour_is_bought_when_it_saves_more_than_it_costs() -> None:
    """With 20 minutes between turns five minutes see nothing; many old tokens for few new ones pay the dearer life."""
    forecast = alone(*[20 * MINUTE] * 4)
    assert life_worth(Tail(50_000, 0, None), forecast, CLAUDE) is ONE
    assert life_worth(Tail(50_000, 49_000, ONE), forecast, CLAUDE) is ONE
    assert life_worth(Tail(50_000, 0, None), alone(*[MINUTE] * 4), CLAUDE) is FIVE
    assert life_worth(Tail(50_000, 40_000, FIVE), alone(*[MINUTE] * 9), CLAUDE) is FIVE
    assert life_worth(Tail(50_000, 0, None), alone(*[5 * HOUR] * 4), CLAUDE) is None
    assert life_worth(Tail(50_000, 0, None), alone(*[20 * MINUTE] * 4), GPT) is Ttl.THIRTY_MINUTES


def test_an_hour_is_bought_for_a_long_tail_at_the_price_of_what_is_new() -> None:
    """A pause of over five minutes is likely enough to pay three quarters of 200 tokens for keeping 50,000."""
    assert life_worth(Tail(50_000, 49_800, FIVE), alone(*[MINUTE] * 9), CLAUDE) is ONE
    assert life_worth(Tail(50_000, 0, None), alone(*[MINUTE] * 9), CLAUDE) is FIVE


def test_what_is_cold_may_be_written_for_minutes_though_an_hour_pays_once_it_is_read() -> None:
    """Every other return is within the hour. What came back soon is kept for an hour at the price of what is new."""
    forecast = alone(*[9 * HOUR, 10 * MINUTE] * 12)
    assert life_worth(Tail(50_000, 0, None), forecast, CLAUDE) is FIVE
    assert life_worth(Tail(50_000, 49_000, FIVE), forecast, CLAUDE) is ONE


def planned(
    window: list[Segment],
    forecast: RequestForecast | None,
    ledger: Ledger | None = None,
    ttl: Ttl | None = None,
    taken: int = 0,
) -> Plan:
    known = replace(facts(window), forecast=forecast, ttl=ttl, taken=taken)
    ledger = ledger if ledger is not None else Ledger()
    made = plan(chained(window), ledger, known, MarkerPolicy.PLANNER)
    note_written(made, ledger, known)
    return made


RARE = alone(*[5 * HOUR] * 6)
WINDOW = [FIXED, *history(6)]


def test_what_nobody_comes_back_for_is_not_written_and_the_map_says_so() -> None:
    made = planned(WINDOW, RARE)
    assert (made.markers, made.written) == ((), 0)
    assert [(note.segment, "not likely to come in time" in note.text) for note in made.notes] == [("m6", True)]


def test_what_is_cached_is_read_all_the_same() -> None:
    ledger = Ledger()
    planned(WINDOW[:4], RequestForecast(), ledger)
    made = planned(WINDOW, RARE, ledger)
    assert (positions(made), made.read, made.written) == ([1, 4], 4_000, 0)


def test_what_only_the_next_step_reads_is_written_for_the_shortest_life() -> None:
    window = [*WINDOW, segment("moving", Zone.TRAVELLING, Lifetime.TURN)]
    forecast = replace(alone(*[20 * MINUTE] * 9), more=0.25, calls=1.2)
    for asked, life in ((None, FIVE), (ONE, ONE)):
        lives = {marker.why: marker.ttl for marker in behind_tools(window, forecast, asked).markers}
        assert (lives[STEADY], lives[TURN]) == (ONE, life)


def behind_tools(window: list[Segment], forecast: RequestForecast, ttl: Ttl | None = None) -> Plan:
    """A window that begins with tools, so that its turn may go on."""
    whole = [segment("tools", Zone.FIXED), *window]
    made = chained(whole)
    made = replace(made, blocks=(replace(made.blocks[0], level="tools"), *made.blocks[1:]))
    return plan(made, Ledger(), replace(facts(whole), forecast=forecast, ttl=ttl), MarkerPolicy.PLANNER)


def test_a_request_that_no_other_goes_on_from_reads_what_is_cached_and_writes_nothing() -> None:
    ledger = Ledger()
    planned(WINDOW[:4], RequestForecast(), ledger)
    made = planned(WINDOW, ALONE, ledger)
    assert (made.read, made.written) == (4_000, 0)
    assert planned(WINDOW, ALONE).markers == ()


@pytest.mark.parametrize("policy", MarkerPolicy)
@pytest.mark.parametrize("ttl", [None, FIVE, ONE])
@pytest.mark.parametrize("model", [CLAUDE, GPT, FREE])
def test_it_writes_nothing_whatever_places_its_markers(
    policy: MarkerPolicy, ttl: Ttl | None, model: ModelFacts
) -> None:
    """Also where the seed's own places, or a life that somebody set, would mark its end."""
    ledger, seeds = Ledger(), (SeedMarker.SYSTEM, SeedMarker.SUMMARY, SeedMarker.TAIL)
    for window, forecast in ((WINDOW[:4], RequestForecast()), (WINDOW, ALONE)):
        known = replace(facts(window, model), forecast=forecast, ttl=ttl, seed_markers=seeds)
        made = plan(chained(window), ledger, known, policy)
        note_written(made, ledger, known)
    assert (made.read, made.written) == (0 if policy is MarkerPolicy.OFF and model is not FREE else 4_000, 0)
    cold = plan(chained(WINDOW), Ledger(), replace(known, forecast=ALONE), policy)
    assert cold.markers == ()


def test_the_life_follows_the_gaps_and_a_set_one_wins() -> None:
    forecast = alone(*[20 * MINUTE] * 4)
    assert {marker.ttl for marker in planned(WINDOW, forecast).markers} == {ONE}
    assert {marker.ttl for marker in planned(WINDOW, alone(*[MINUTE] * 4), ttl=ONE).markers} == {ONE}
    assert {marker.ttl for marker in planned(WINDOW, RARE, ttl=FIVE).markers} == {FIVE}


def test_a_provider_that_caches_by_itself_needs_no_decision() -> None:
    known = replace(facts(WINDOW, FREE), forecast=RARE)
    made = plan(chained(WINDOW), Ledger(), known, MarkerPolicy.PLANNER)
    assert (made.markers, made.notes) == ((), ())


def test_a_caller_s_own_markers_count_and_the_last_places_are_kept() -> None:
    assert positions(planned(WINDOW, None, taken=3)) == [7]
    none = planned(WINDOW, None, taken=4)
    assert none.markers == ()
    assert [note.segment for note in none.notes] == ["system", "m6"]
    assert "4 of them were placed by the caller" in none.notes[0].text


def test_the_place_that_the_next_pruning_spares_is_kept_alive() -> None:
    """Two requests later the boundary moves, and what stands before the first result is still there."""
    ledger, called = Ledger(), replace(segment("s1", kind=Kind.STEP), letters="A1TR")
    before = [FIXED, *history(2)]
    planned(before, None, ledger)
    assert positions(planned([*before, called, *history(1, 3)], None, ledger)) == [1, 3, 5]
    after = [*before, replace(called, id="stub", letters="A1tr"), *history(2, 3)]
    assert planned(after, None, ledger).read == 3_000


def test_a_compaction_leaves_the_system_prompt_to_be_read() -> None:
    summary = segment("summary", Zone.FIXED, kind=Kind.SUMMARY)
    assert positions(planned([FIXED, summary, *history(2)], None)) == [1, 2, 4]


def test_an_entry_that_no_marker_can_stand_on_is_explained() -> None:
    window = [FIXED, *history(30)]
    made = chained(window)
    blocks = tuple(replace(b, markable=False) if i == 2 else b for i, b in enumerate(made.blocks))
    ledger = Ledger([Entry(made.keys[2], 3_000, FIVE, START, exact=True)])
    known = replace(facts(window), forecast=None)
    found = plan(replace(made, blocks=blocks), ledger, known, MarkerPolicy.PLANNER)
    assert [(n.segment, "takes no marker" in n.text) for n in found.notes] == [("m2", True)]


@pytest.mark.parametrize("lifetime", [Lifetime.TURN, Lifetime.STEP])
def test_the_end_of_a_turn_is_written_only_where_the_turn_goes_on(lifetime: Lifetime) -> None:
    """Never on what is gone with the step."""
    assert worth_a_step(RequestForecast(0.5), CLAUDE, FIVE)
    assert not worth_a_step(RequestForecast(0.1), CLAUDE, FIVE)
    window = [*history(2), segment("moving", Zone.TRAVELLING, lifetime)]
    ends = [1, 3, 4] if lifetime is Lifetime.TURN else [1, 3]
    assert [positions(behind_tools(window, RequestForecast(more))) for more in (0.0, 0.5)] == [[1, 3], ends]
