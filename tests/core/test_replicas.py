"""Which processes count as dead, by their beats and the clock of the one that reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lamella.core.replicas import BEAT_SECONDS, LEASE_SECONDS, LONGEST_PAUSE, BeatWatch

STILL = {"one": 7}


def looked(watch: BeatWatch, *at: float, beats: dict[str, int] | None = None) -> list[str]:
    """Who is dead after the last of these looks, each of which takes no time."""
    found: tuple[tuple[str, int], ...] = ()
    for moment in at:
        found = watch.look(moment, moment, STILL if beats is None else beats)
    return [id for id, _ in found]


def test_a_beat_that_stays_the_same_for_the_lease_is_that_of_a_dead_process() -> None:
    watch = BeatWatch()
    assert looked(watch, 100, 101, 102, 103, 104) == []
    assert watch.look(105, 105, STILL) == (("one", 7),)
    assert watch.look(106, 106, STILL) == (("one", 7),), "it is said until its row is gone"


def test_a_beat_that_changed_begins_anew() -> None:
    watch = BeatWatch()
    assert looked(watch, *range(5)) == []
    assert looked(watch, 5, beats={"one": 8}) == []
    assert looked(watch, 6, 7, 8, 9, beats={"one": 8}) == []
    assert looked(watch, 10, beats={"one": 8}) == ["one"]
    assert looked(watch, 11, beats={"one": 0}) == [], "a smaller beat is another one too"


def test_a_process_that_came_or_went_is_measured_by_itself() -> None:
    watch = BeatWatch()
    looked(watch, 0, 1, 2)
    assert looked(watch, 3, 4, beats={"one": 7, "two": 1}) == []
    assert looked(watch, 5, beats={"one": 7, "two": 1}) == ["one"]
    assert looked(watch, 6, 7, beats={"two": 1}) == []
    assert looked(watch, 8, beats={"one": 7, "two": 1}) == ["two"], "one came back and is new"


def test_a_reader_that_was_away_begins_to_measure_anew() -> None:
    watch = BeatWatch()
    assert looked(watch, 0, 1, 2, 3, 4) == []
    away = 4 + LONGEST_PAUSE + 0.01
    assert looked(watch, away) == []
    assert looked(watch, *(away + n for n in range(1, 5))) == []
    assert looked(watch, away + 5) == ["one"]


def test_the_time_of_a_look_itself_does_not_count() -> None:
    """The beat may have come just after it was read, while the answer was on its way."""
    watch = BeatWatch()
    found: tuple[tuple[str, int], ...] = ()
    for began in (0.0, 2.0, 4.0, 6.0, 8.0):
        found = watch.look(began, began + 1.0, STILL)
    assert found == ()
    assert watch.look(10.0, 11.0, STILL) == (("one", 7),)


def test_a_clock_that_goes_back_makes_nobody_dead() -> None:
    watch = BeatWatch()
    assert looked(watch, 0, 1, 2, -500, -499, -498) == []
    assert looked(watch, -497) == ["one"], "0 to 2, and -500 to -497: five seconds in all"


@given(
    st.lists(st.tuples(st.floats(-1, 4), st.floats(0, 3), st.booleans()), min_size=1, max_size=60),
    st.floats(-1e6, 1e6),
)
def test_who_is_dead_was_silent_for_the_lease(looks: list[tuple[float, float, bool]], start: float) -> None:
    """However looks are spaced, from wherever the clock begins: all that is counted was time without a beat."""
    watch, clock, beat, silent = BeatWatch(), start, 0, 0.0
    ended: float | None = None
    for pause, length, beats in looks:
        beat += beats
        since = 0.0 if ended is None else max(pause, 0.0)
        silent = 0.0 if beats or ended is None else silent + since
        clock += pause
        dead = watch.look(clock, clock + length, {"one": beat})
        clock += length
        ended = clock
        if dead:
            assert dead == (("one", beat),)
            assert silent >= LEASE_SECONDS - 1e-3
        if beats:
            assert dead == ()


def test_a_process_may_miss_some_beats() -> None:
    assert LONGEST_PAUSE > 2 * BEAT_SECONDS
    assert LEASE_SECONDS > 4 * BEAT_SECONDS
