"""Ids are opaque, carry their prefix, and sort as they were made."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lamella.core.clock import VirtualClock
from lamella.core.ids import CountingIds, RandomIds

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def test_ids_sort_as_they_were_made() -> None:
    clock = VirtualClock(START)
    ids = RandomIds(clock)
    made = []
    for _ in range(200):
        made += [ids.new("msg") for _ in range(5)]
        clock.advance(0.001)
    assert made == sorted(set(made))
    assert all(re.fullmatch(r"msg_[0-9a-hjkmnp-tv-z]{20}", id) for id in made)


def test_a_later_process_makes_later_ids() -> None:
    clock = VirtualClock(START)
    before = RandomIds(clock).new("turn")
    clock.advance(0.001)
    assert RandomIds(clock).new("turn") > before


def test_two_sources_make_different_ids_at_one_moment() -> None:
    clock = VirtualClock(START)
    assert len({RandomIds(clock).new("file") for _ in range(200)}) == 200


def test_counted_ids_are_the_same_in_every_run() -> None:
    one, other = CountingIds(), CountingIds()
    assert (
        [one.new("req") for _ in range(3)]
        == [other.new("req") for _ in range(3)]
        == [
            "req_000001",
            "req_000002",
            "req_000003",
        ]
    )


def test_a_later_process_makes_later_ids_also_by_a_clock_that_was_set_back() -> None:
    clock = VirtualClock(START)
    before = [RandomIds(clock).new("turn"), "user_local", "step_000007", "odd"]
    earlier = "turn_01kjma0fm00123456789abcdef"  # of the same moment, as versions before made them
    clock.put_back(7_200)
    later = RandomIds(clock)
    later.follow(*before, earlier)
    made = [later.new("turn") for _ in range(3)]
    assert [before[0], *made] == sorted({before[0], *made})
    assert min(made) > earlier


def test_two_sources_that_follow_one_id_make_different_ids() -> None:
    clock = VirtualClock(START)
    ahead = RandomIds(clock).new("turn")
    clock.put_back(7_200)
    sources = [RandomIds(clock) for _ in range(20)]
    for source in sources:
        source.follow(ahead)
    made = {source.new("turn") for source in sources}
    assert len(made) == len(sources)
    assert min(made) > ahead


def test_an_id_that_is_followed_moves_no_source_further_than_its_moment() -> None:
    """Else ids of different processes no longer sort by time, and their moment says nothing."""
    clock = VirtualClock(START)
    earlier = RandomIds(clock).new("turn")
    follower = RandomIds(clock)
    for id in (earlier, "turn_01kjma0fm00123456789abcdef"):
        follower.follow(id)
    followed = follower.new("turn")
    clock.advance(0.01)
    assert earlier < followed < RandomIds(clock).new("turn")
