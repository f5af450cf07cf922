"""An answer ends before the first text that its caller named, however its pieces come."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.agent.inference import StopTexts, until_stop
from lamella.core.deltas import Closed, Delta, ReasoningDelta, TextDelta, ToolCallOpened, UsageReported
from lamella.core.errors import ProviderOverloaded
from lamella.core.messages import StopReason
from lamella.core.tokens import Usage

pytestmark = pytest.mark.anyio

LETTERS = st.text(alphabet="abE\n", max_size=12)
STOPS = st.lists(st.text(alphabet="abE\n", min_size=1, max_size=4), min_size=1, max_size=3, unique=True)
ENDED = Closed(StopReason.END_TURN)


def passed(pieces: list[Delta], stops: StopTexts) -> list[Delta]:
    shown: list[Delta] = []
    for piece in pieces:
        shown += stops.through(piece)
        if stops.met:
            return shown
    return [*shown, *stops.end()]


def completed(text: str, stops: list[str]) -> str:
    """What stands before the stop text that is complete first; all of the text if none is."""
    for end in range(1, len(text) + 1):
        places = [text[:end].find(stop) for stop in stops]
        if any(place >= 0 for place in places):
            return text[: min(place for place in places if place >= 0)]
    return text


@given(pieces=st.lists(st.text(alphabet="abE\n", min_size=1, max_size=1), max_size=14), stops=STOPS)
def test_an_answer_ends_before_the_first_text(pieces: list[str], stops: list[str]) -> None:
    shown = passed([TextDelta(0, piece) for piece in pieces], StopTexts(stops))
    assert "".join(one.text for one in shown if isinstance(one, TextDelta)) == completed("".join(pieces), stops)


@given(pieces=st.lists(LETTERS, max_size=6), stops=STOPS)
def test_no_piece_that_was_shown_has_one_and_nothing_is_lost_without_one(pieces: list[str], stops: list[str]) -> None:
    watch = StopTexts(stops)
    shown = passed([TextDelta(0, piece) for piece in pieces], watch)
    text, said = "".join(pieces), "".join(one.text for one in shown if isinstance(one, TextDelta))
    assert not any(stop in said for stop in stops)
    assert text.startswith(said + watch.met)
    assert watch.met or said == text


def test_thinking_calls_and_other_blocks_are_not_part_of_a_text() -> None:
    deltas: list[Delta] = [
        *(ReasoningDelta(0, "END"), TextDelta(1, "a E"), UsageReported(Usage(input=1))),
        *(TextDelta(2, "ND"), ToolCallOpened(3, "END", "END"), ENDED),
    ]
    watch = StopTexts(["END"])
    shown = passed(deltas, watch)
    assert watch.met == ""
    assert [one for one in shown if isinstance(one, TextDelta)] == [
        *(TextDelta(1, "a "), TextDelta(1, "E"), TextDelta(2, "ND"))
    ]
    assert shown[-1] == ENDED


async def test_the_rest_is_not_waited_for_and_an_error_gives_what_was_held() -> None:
    closed = []

    async def stream(*deltas: Delta | ProviderOverloaded) -> AsyncIterator[Delta]:
        try:
            for delta in deltas:
                if isinstance(delta, ProviderOverloaded):
                    raise delta
                yield delta
        finally:
            closed.append(len(deltas))

    stops = StopTexts(["END"])
    found = [one async for one in until_stop(stream(TextDelta(0, "a EN"), TextDelta(0, "D b"), ENDED), stops)]
    assert found == [TextDelta(0, "a "), Closed(StopReason.END_TURN, stopped_at="END")]
    assert (stops.cut, closed) == (True, [3])
    failing = until_stop(stream(TextDelta(0, "a EN"), ProviderOverloaded("No.")), StopTexts(["END"]))
    assert [await anext(failing), await anext(failing)] == [TextDelta(0, "a "), TextDelta(0, "EN")]
    with pytest.raises(ProviderOverloaded):
        await anext(failing)
