"""Which earlier summaries a window carries: bounded, the most important lines last to go, none of them changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lamella.core.counting import count_tokens
from lamella.core.sessions import CarriedSummary, Session, SessionCause, summaries_in_window
from lamella.sessions.carried_summaries import ChainRoom, carried_on, chain_room
from lamella.sessions.summary_check import Rank

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
PLENTY = ChainRoom(10_000, 10_000)


def ended(number: int, summary: str, ranks: list[int] | None = None) -> Session:
    check = {"ranks": list(ranks)} if ranks is not None else {}
    cause = SessionCause.COMPACTION if number > 1 else SessionCause.CREATED
    parent = f"s{number - 1}" if number > 1 else None
    session = Session(f"s{number}", "conv", number, NINE, cause, parent, inherits=number > 1, carries=())
    return replace(session, summary=summary, summary_tokens=count_tokens(summary), check=check)


def talked(room: ChainRoom, *ends: Session, used: tuple[str, ...] = ()) -> list[Session]:
    """The sessions of a conversation that was compacted behind each of them, and the one that is open."""
    known: list[Session] = []
    for session in ends:
        carries = carried_on(known[-1], known, room, used) if known else ()
        known.append(replace(session, carries=carries))
    open_ = Session("now", "conv", 99, NINE, SessionCause.COMPACTION, known[-1].id, inherits=True)
    return [*known, replace(open_, carries=carried_on(known[-1], known, room, used))]


def shown(sessions: list[Session]) -> list[str]:
    return [summary.text for summary in summaries_in_window(sessions, "now")]


TALK = "They went on about the weather, the ships and the people who were there, at some length."
GOALS = f"# Goals\n{TALK}\n# Facts\n- The code is XK-{{0}}.\n- The room is {{0}}14."
SHORTENED = (
    "Summaries of earlier sessions of this conversation are shortened here. A search over its sessions finds them."
)


def test_what_fits_stays_whole() -> None:
    texts = [GOALS.format(number) for number in (1, 2, 3)]
    assert shown(talked(PLENTY, *(ended(n, text) for n, text in enumerate(texts, start=1)))) == texts


def test_older_summaries_shrink_to_their_facts_and_the_newest_stays_whole() -> None:
    sessions = talked(ChainRoom(150, 400), *(ended(n, GOALS.format(n)) for n in (1, 2, 3)))
    assert shown(sessions) == [
        SHORTENED,
        "- The code is XK-1.\n- The room is 114.",
        "- The code is XK-2.\n- The room is 214.",
        GOALS.format(3),
    ]
    assert [session.summary for session in sessions[:3]] == [GOALS.format(n) for n in (1, 2, 3)]


def test_what_is_used_stays_longest() -> None:
    """By the rank that a line had in its session, and by what the newest one used."""
    ranks = [Rank.PROSE, Rank.PROSE, Rank.PROSE, Rank.RESULT, Rank.STANDING]
    ends = [ended(n, GOALS.format(n), [int(rank) for rank in ranks]) for n in (1, 2, 3, 4)]
    assert shown(talked(ChainRoom(100, 150), *ends))[1:-1] == [f"- The room is {n}14." for n in (1, 2, 3)]
    told = [ended(n, GOALS.format(n)) for n in (1, 2, 3, 4)]
    assert "- The code is XK-1." in "\n".join(shown(talked(ChainRoom(100, 130), *told, used=("xk-1",))))


def test_the_oldest_are_left_out_and_a_line_says_so() -> None:
    sessions = talked(ChainRoom(60, 140), *(ended(n, f"- The code is XK-{n}.\n{TALK}") for n in range(1, 12)))
    first, *rest = shown(sessions)
    assert first.startswith(
        "Summaries of earlier sessions of this conversation are shortened here. Left out here: the "
    )
    assert "summaries of sessions 1 to " in first
    assert rest[-2:] == ["- The code is XK-10.", f"- The code is XK-11.\n{TALK}"]


def test_a_summary_without_a_fact_keeps_its_first_line() -> None:
    ends = [ended(n, f"# Goals\nThey spoke of ships.\n{TALK}") for n in (1, 2, 3)]
    assert shown(talked(ChainRoom(60, 200), *ends))[1:-1] == ["They spoke of ships."] * 2


def test_a_summary_that_was_made_anew_or_taken_back_breaks_nothing() -> None:
    sessions = talked(ChainRoom(100, 400), *(ended(n, GOALS.format(n)) for n in (1, 2, 3)))
    sessions[0] = replace(sessions[0], summary="- Short now.", summary_tokens=5)
    sessions[1] = replace(sessions[1], summary=None, summary_tokens=0)
    assert shown(sessions)[-1] == GOALS.format(3)


def test_nothing_is_shown_of_a_summary_that_is_withheld() -> None:
    sessions = talked(ChainRoom(100, 400), *(ended(n, GOALS.format(n)) for n in (1, 2, 3)))
    sessions[0] = replace(sessions[0], summary="Withheld.", withheld=("base",))
    assert "XK-1" not in "".join(shown(sessions))
    assert "Withheld." in shown(sessions)


def test_the_room_is_a_share_of_the_size_at_which_a_window_is_compacted() -> None:
    assert chain_room(20_000) == ChainRoom(3_000, 3_000)
    assert chain_room(800_000) == ChainRoom(8_000, 8_000)
    assert chain_room(800_000, window=10_000) == ChainRoom(1_500, 3_000)
    assert chain_room(20_000).in_local(1.5) == ChainRoom(2_000, 2_000)
    assert chain_room(20_000).at_most(500) == ChainRoom(500, 500)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.integers(1_200, 3_000))
def test_all_summaries_together_stay_within_their_room(facts: list[int], most: int) -> None:
    """If each newest one has what it may have, half of the room."""
    room = ChainRoom(most, most)
    ends = []
    for number, count in enumerate(facts, start=1):
        said = [f"- The code is XK-{number * 100 + n}." for n in range(count)]
        while count_tokens("\n".join(said)) > room.newest:
            said.pop()
        ends.append(ended(number, "\n".join(said) or "Nothing."))
    carried = summaries_in_window(talked(room, *ends), "now")
    assert sum(summary.tokens + 16 for summary in carried if not summary.id.endswith("/earlier")) <= most + 32


lines = st.lists(
    st.sampled_from(["# Facts", "", TALK, "- The code is XK-7.", "- Always German.", "路 4512"]), max_size=9
)


@given(st.lists(lines, min_size=1, max_size=12), st.integers(20, 300), st.integers(20, 600))
def test_the_chain_is_bounded_and_never_grows_back(written: list[list[str]], whole: int, most: int) -> None:
    room = ChainRoom(min(whole, most), most)
    ends = [ended(number, "\n".join(said) or "Nothing.") for number, said in enumerate(written, start=1)]
    sessions = talked(room, *ends)
    carried = summaries_in_window(sessions, "now")
    *older, newest = carried
    assert newest.text == ends[-1].summary
    held = sum(summary.tokens + 16 for summary in older if not summary.id.endswith("/earlier"))
    assert held <= max(most - newest.tokens, most // 4) or all(s.text == ends[i].summary for i, s in enumerate(carried))
    for before, after in pairwise(sessions):
        assert before.carries is not None
        assert after.carries is not None
        for old, new in zip(before.carries, after.carries, strict=False):
            assert old.session_id == new.session_id
            assert old.lines is None or (new.lines is not None and set(new.lines) <= set(old.lines))


def test_a_session_from_before_it_was_recorded_shows_what_it_showed() -> None:
    sessions = [replace(session, carries=None) for session in talked(PLENTY, *(ended(n, "x") for n in range(1, 11)))]
    first, *rest = summaries_in_window(sessions, "now")
    assert first.text.startswith("Left out here: the summaries of sessions 1 to 2 of this conversation.")
    assert [summary.id for summary in rest] == [f"s{n}" for n in range(3, 11)]
    assert CarriedSummary("s1", ()) in carried_on(sessions[-1], sessions, PLENTY)
