"""The planner's examples by hand: how far a marker looks back, what is marked again, and what is predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.cache.ledger import Entry, Ledger
from lamella.cache.planner import MarkerPolicy, Plan, lookup, note_billed, note_written, plan, policy_named
from lamella.core.errors import InvalidRequest
from lamella.core.prompt import Kind, Lifetime, Segment, Ttl, Zone
from lamella.core.tokens import Usage

from .windows import CLAUDE, FREE, GPT, START, at, chained, facts, history, positions, segment, send

FIXED = segment("system", Zone.FIXED)
QUESTION = segment("question", Zone.TURN)
REMINDER = segment("reminder", Zone.TRAILING, Lifetime.STEP)
MOVING = segment("moving", Zone.TRAVELLING, Lifetime.TURN)


def found(total: int, written: tuple[int, ...], markers: tuple[int, ...]) -> int | None:
    """The position that is read of a window of `total` blocks, where earlier requests wrote at `written`."""
    window, ledger = history(total), Ledger()
    keys = chained(window).keys
    for place in written:
        ledger.write(Entry(keys[place - 1], place * 1_000, Ttl.FIVE_MINUTES, START, exact=True))
    hit, entry = lookup(chained(window), at(*markers), ledger, facts(window))
    assert entry is None or entry.key == keys[hit or 0]
    return None if hit is None else hit + 1


@pytest.mark.parametrize(
    ("total", "written", "markers", "hit"),
    [
        (15, (10,), (15,), 10),
        (35, (15,), (35,), None),
        (35, (15,), (15, 35), 15),
        (34, (15,), (34,), 15),
        (35, (16,), (35,), 16),
        (35, (15, 30), (35,), 30),
        (35, (15, 30), (15, 29), 15),
        (35, (15,), (), None),
        (35, (), (15, 35), None),
        (60, (5, 22), (24, 60), 22),
        (60, (5,), (24, 60), 5),
        (60, (4,), (24, 60), None),
    ],
)
def test_a_marker_looks_back_over_twenty_positions_itself_included(
    total: int, written: tuple[int, ...], markers: tuple[int, ...], hit: int | None
) -> None:
    """Twenty blocks are looked back: from block 35 (35 to 16) a write at 15 is found by a second marker alone."""
    assert found(total, written, markers) == hit


def test_the_previous_tail_is_marked_again_when_it_is_out_of_reach() -> None:
    """Twenty new blocks and the end of the turn before would be lost without it."""
    ledger = Ledger()
    assert positions(send([FIXED, *history(14)], ledger)) == [1, 15]
    near = plan(chained([FIXED, *history(33)]), ledger, facts([FIXED, *history(33)]), MarkerPolicy.PLANNER)
    assert (positions(near), near.hit) == ([1, 34], 14)
    far = send([FIXED, *history(34)], ledger, minutes=1)
    assert (positions(far), far.hit, far.read) == ([1, 15, 35], 14, 15_000)
    assert "previous request" in far.markers[1].why


def test_an_expired_tail_is_not_marked_again() -> None:
    ledger = Ledger()
    send([FIXED, *history(14)], ledger)
    late = send([FIXED, *history(34)], ledger, minutes=5)
    assert (positions(late), late.hit, late.read, late.written) == ([1, 35], None, 0, 35_000)


def test_openai_matches_only_where_it_wrote() -> None:
    ledger = Ledger()
    send([FIXED, *history(4)], ledger, model=GPT)
    grown = send([FIXED, *history(6)], ledger, model=GPT, minutes=1)
    assert (positions(grown), grown.hit, grown.read, grown.written) == ([1, 5, 7], 4, 5_000, 2_000)


def test_nothing_that_moves_is_marked() -> None:
    window = [FIXED, *history(3), MOVING, QUESTION, REMINDER]
    assert positions(send(window, Ledger())) == [1, 4]
    assert positions(send([FIXED, *history(3), REMINDER], Ledger())) == [1, 4]
    assert positions(send([REMINDER], Ledger())) == []


@pytest.mark.parametrize("policy", MarkerPolicy)
def test_markers_stand_in_block_order_and_have_one_life(policy: MarkerPolicy) -> None:
    """A longer life would have to come first: here all are the shortest that the provider sells."""
    for model, life in ((CLAUDE, Ttl.FIVE_MINUTES), (GPT, Ttl.THIRTY_MINUTES)):
        ledger = Ledger()
        for count in (5, 40, 80, 81):
            made = send([FIXED, *history(count), REMINDER], ledger, model=model, policy=policy)
            assert positions(made) == sorted(set(positions(made)))
            assert len(made.markers) <= 4
            assert {marker.ttl for marker in made.markers} <= {life}


def test_the_tail_policy_marks_the_end_whatever_stands_there() -> None:
    """So it writes a reminder every time and never reads it again: a trap of markers on moving blocks."""
    ledger = Ledger()
    first = send([FIXED, QUESTION, REMINDER], ledger, policy=MarkerPolicy.AUTO_TAIL)
    other = segment("another reminder", Zone.TRAILING, Lifetime.STEP)
    second = send([FIXED, QUESTION, other], ledger, policy=MarkerPolicy.AUTO_TAIL, minutes=1)
    assert (positions(first), positions(second)) == ([3], [3])
    assert (second.hit, second.read, second.written) == (None, 0, 3_000)


def test_without_markers_nothing_is_read_or_written() -> None:
    ledger = Ledger()
    for minutes in (0, 1):
        made = send([FIXED, QUESTION], ledger, policy=MarkerPolicy.OFF, minutes=minutes)
        assert (made.markers, made.hit, made.read, made.written) == ((), None, 0, 0)


def test_a_provider_that_caches_by_itself_gets_no_markers_and_is_predicted() -> None:
    ledger = Ledger()
    first = send([FIXED, *history(3), REMINDER], ledger, model=FREE)
    grown = send([FIXED, *history(5), REMINDER], ledger, model=FREE, minutes=1)
    assert (first.markers, grown.markers) == ((), ())
    assert (grown.hit, grown.read, grown.written) == (3, 4_000, 0)


def test_what_is_too_short_is_not_written() -> None:
    small = replace(CLAUDE, min_cacheable=3_001)
    ledger = Ledger()
    assert send([FIXED, *history(2)], ledger, model=small).written == 0
    longer = send([FIXED, *history(3)], ledger, model=small, minutes=1)
    assert (longer.hit, longer.written) == (None, 4_000)
    assert send([FIXED, *history(3)], ledger, model=small, minutes=2).read == 4_000


def billed(usage: Usage, count: int = 3) -> tuple[Ledger, list[int]]:
    """The ledger after a request of `count` blocks and its bill; with the tokens of what can be read then."""
    window, ledger = history(count), Ledger()
    known = facts(window)
    made: Plan = plan(chained(window), ledger, known, MarkerPolicy.PLANNER)
    note_written(made, ledger, known)
    note_billed(made, usage, ledger, known)
    entries = [ledger.live(key, START) for key in made.chain.keys]
    return ledger, [entry.tokens if entry else 0 for entry in entries]


def test_the_bill_corrects_what_was_estimated() -> None:
    assert billed(Usage(input=2_500, cache_write_5m=2_400))[1] == [0, 0, 2_400]


def test_the_bill_takes_back_what_was_not_cached() -> None:
    ledger, tokens = billed(Usage(input=2_500))
    assert tokens == [0, 0, 0]
    assert send(history(3), ledger, minutes=1).hit is None


def test_places_before_the_last_get_their_share_of_the_bill() -> None:
    window, ledger = [FIXED, *history(3)], Ledger()
    known = facts(window)
    made = plan(chained(window), ledger, known, MarkerPolicy.PLANNER)
    note_written(made, ledger, known)
    note_billed(made, Usage(input=6_000, cache_write_5m=6_000), ledger, known)
    entries = [ledger.live(made.chain.keys[index], START) for index in (0, 3)]
    assert [(entry.tokens, entry.exact) for entry in entries if entry] == [(1_500, False), (6_000, True)]


def asked(segments: list[Segment], ledger: Ledger, usage: Usage, minutes: float) -> Plan:
    """A request of everything up to its markers, with its bill."""
    made = send(segments, ledger, minutes=minutes)
    note_billed(made, usage, ledger, facts(segments, minutes=minutes))
    return made


def test_what_was_read_measures_the_entry_that_was_hit() -> None:
    """The first bill splits 4,400 tokens by estimates; the second says what the fixed part has."""
    ledger, moves = Ledger(), segment("moving", Zone.TRAVELLING, Lifetime.TURN)
    asked([FIXED, *history(3)], ledger, Usage(input=4_400, cache_write_5m=4_400), 0)
    other = [FIXED, *history(2, start=7), moves]
    first = asked(other, ledger, Usage(input=4_100, cache_read=1_080, cache_write_5m=2_020), 1)
    assert (first.hit, first.read) == (0, 1_100)
    again = send([FIXED, *history(2, start=17)], ledger, minutes=2)
    assert (again.hit, again.read) == (0, 1_080)


def test_a_read_that_is_nearer_to_an_earlier_entry_measures_nothing() -> None:
    """The provider has lost the entry that was to be hit, and read the one before it."""
    ledger, summary = Ledger(), segment("summary", kind=Kind.SUMMARY)
    window = [FIXED, summary, *history(3)]
    made = asked(window, ledger, Usage(input=5_500, cache_write_5m=5_500), 0)
    ledger.write(Entry(made.chain.keys[1], 2_200, Ttl.FIVE_MINUTES, START, exact=False))
    other = [FIXED, summary, *history(2, start=7)]
    lost = asked(other, ledger, Usage(input=4_400, cache_read=1_100, cache_write_5m=3_300), 1)
    assert (lost.hit, lost.read) == (1, 2_200)
    assert send([FIXED, summary, *history(2, start=17)], ledger, minutes=2).read == 2_200


def test_a_prefix_has_as_many_tokens_when_it_is_written_again() -> None:
    """Its second entry ends before the last marker, and is known to the token all the same."""
    ledger = Ledger()
    asked([FIXED], ledger, Usage(input=1_030, cache_write_5m=1_030), 0)
    asked([FIXED, *history(3)], ledger, Usage(input=4_400, cache_write_5m=4_400), 10)
    again = send([FIXED, *history(2, start=7)], ledger, minutes=11)
    assert (again.hit, again.read) == (0, 1_030)


def test_a_bill_without_a_cache_takes_back_what_was_measured_before() -> None:
    ledger = Ledger()
    asked([FIXED], ledger, Usage(input=1_030, cache_write_5m=1_030), 0)
    asked([FIXED, *history(3)], ledger, Usage(input=4_400), 10)
    again = send([FIXED, *history(2, start=7)], ledger, minutes=11)
    assert (again.hit, again.read) == (None, 0)


def test_a_policy_that_does_not_exist_names_those_that_do() -> None:
    assert policy_named("seed") is MarkerPolicy.SEED
    with pytest.raises(InvalidRequest) as refused:
        policy_named("everywhere")
    assert refused.value.param == "marker_policy"
    assert all(policy.value in str(refused.value.hint) for policy in MarkerPolicy)
