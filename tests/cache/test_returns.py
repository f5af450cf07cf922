"""When the next request comes, and what is worth being written for it (PROVIDERS 5.2, 5.3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lamella.cache.ledger import Entry, Ledger
from lamella.cache.plan import MarkerPolicy, Plan, note_written, plan
from lamella.cache.returns import Rhythm, Tail, life_worth, rhythm_of, worth_a_step
from lamella.core.messages import Step, StopReason, Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, Segment, Ttl, Zone

from .windows import CLAUDE, FREE, GPT, START, chained, facts, history, positions, segment

MINUTE, HOUR = 60.0, 3600.0
FIVE, ONE = Ttl.FIVE_MINUTES, Ttl.ONE_HOUR
FIXED = segment("system", Zone.FIXED)
TENTH = replace(CLAUDE, price=replace(CLAUDE.price, read=0.1))


def turn(minutes: float, steps: int = 1) -> Turn:
    user = UserMessage("m", "text", START + timedelta(minutes=minutes), "UTC", 1)
    return Turn("t", user, tuple(Step(f"s{n}", "m", (), StopReason.END_TURN, "", 1) for n in range(steps)))


def alone(*gaps: float) -> Rhythm:
    """Turns of one request each, so many seconds apart."""
    return Rhythm(0.0, gaps)


def test_nothing_is_known_of_a_conversation_that_begins() -> None:
    assert (alone().within(FIVE), alone().within(ONE)) == (0.5, 0.5)
    assert Rhythm(1.0, ()).within(FIVE) == 1.0


def test_the_newest_gaps_weigh_most() -> None:
    came_back = alone(HOUR * 5, MINUTE).within(FIVE)
    went_away = alone(MINUTE, HOUR * 5).within(FIVE)
    assert went_away < 0.5 < came_back
    assert alone(*[HOUR * 5] * 3).within(FIVE) < 0.21 < alone(MINUTE, HOUR * 5).within(FIVE)


def test_the_gaps_are_those_between_messages_and_a_clock_that_went_back_makes_none() -> None:
    turns = [turn(0), turn(10), turn(4)]
    assert rhythm_of(turns, turn(5, steps=0), may_call=False) == Rhythm(0.0, (600.0, 60.0))


def test_whether_a_turn_goes_on_is_told_by_those_that_came_as_far() -> None:
    turns = [turn(0, 3), turn(1, 3), turn(2, 1)]
    chances = [rhythm_of(turns, turn(3, steps), may_call=True).more for steps in range(4)]
    assert chances == pytest.approx([2.5 / 4, 2.5 / 3, 0.5 / 3, 0.5])
    assert rhythm_of(turns, turn(3, 0), may_call=False).more == 0.0


@pytest.mark.parametrize(("model", "edge"), [(TENTH, 0.25 / 1.15), (CLAUDE, 0.25 / 1.2)])
def test_a_tail_is_written_above_the_break_even_of_5_2(model: ModelFacts, edge: float) -> None:
    for more, life in ((edge + 0.01, FIVE), (edge - 0.01, None)):
        rhythm = Rhythm(more, (HOUR * 9,) * 50)
        rhythm = replace(rhythm, more=(more - rhythm_floor(rhythm)) / (1 - rhythm_floor(rhythm)))
        assert rhythm.within(FIVE) == pytest.approx(more)
        assert life_worth(Tail(1_000, 0, None), rhythm, replace(model, lives=(FIVE,))) is life
        assert worth_a_step(Rhythm(more), model, FIVE) == (life is FIVE)


def rhythm_floor(rhythm: Rhythm) -> float:
    """The chance of a return alone."""
    return replace(rhythm, more=0.0).within(FIVE)


def test_an_hour_is_bought_when_it_saves_more_than_it_costs() -> None:
    """With 20 minutes between turns five minutes see nothing; many old tokens for few new ones pay the dearer life."""
    rhythm = alone(*[20 * MINUTE] * 4)
    assert life_worth(Tail(50_000, 0, None), rhythm, CLAUDE) is ONE
    assert life_worth(Tail(50_000, 49_000, ONE), rhythm, CLAUDE) is ONE
    assert life_worth(Tail(50_000, 0, None), alone(*[MINUTE] * 4), CLAUDE) is FIVE
    assert life_worth(Tail(50_000, 49_000, FIVE), alone(*[MINUTE] * 9), CLAUDE) is FIVE
    assert life_worth(Tail(50_000, 0, None), alone(*[5 * HOUR] * 4), CLAUDE) is None
    assert life_worth(Tail(50_000, 0, None), alone(*[20 * MINUTE] * 4), GPT) is Ttl.THIRTY_MINUTES


def planned(
    window: list[Segment], rhythm: Rhythm | None, ledger: Ledger | None = None, ttl: Ttl | None = None, taken: int = 0
) -> Plan:
    known = replace(facts(window), rhythm=rhythm, ttl=ttl, taken=taken)
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
    planned(WINDOW[:4], Rhythm(), ledger)
    made = planned(WINDOW, RARE, ledger)
    assert (positions(made), made.read, made.written) == ([1, 4], 4_000, 0)


def test_the_life_follows_the_gaps_and_a_set_one_wins() -> None:
    rhythm = alone(*[20 * MINUTE] * 4)
    assert {marker.ttl for marker in planned(WINDOW, rhythm).markers} == {ONE}
    assert {marker.ttl for marker in planned(WINDOW, alone(*[MINUTE] * 4), ttl=ONE).markers} == {ONE}
    assert {marker.ttl for marker in planned(WINDOW, RARE, ttl=FIVE).markers} == {FIVE}


def test_a_provider_that_caches_by_itself_needs_no_decision() -> None:
    known = replace(facts(WINDOW, FREE), rhythm=RARE)
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
    known = replace(facts(window), rhythm=None)
    found = plan(replace(made, blocks=blocks), ledger, known, MarkerPolicy.PLANNER)
    assert [(n.segment, "takes no marker" in n.text) for n in found.notes] == [("m2", True)]


@pytest.mark.parametrize("lifetime", [Lifetime.TURN, Lifetime.STEP])
def test_the_end_of_a_turn_is_written_only_where_the_turn_goes_on(lifetime: Lifetime) -> None:
    assert worth_a_step(Rhythm(0.5), CLAUDE, FIVE)
    assert not worth_a_step(Rhythm(0.1), CLAUDE, FIVE)
    window = [FIXED, *history(2), segment("moving", Zone.TRAVELLING, lifetime)]
    assert positions(planned(window, Rhythm(0.0))) == [1, 3]
