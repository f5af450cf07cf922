"""What the simulator remembers is bounded, and requests at one moment cost no more the more there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.cache.ledger import Ledger, Outcome, Write
from lamella_simulator.settings import Settings
from lamella_simulator.state import MOST_THOUGHT_CALLS, Minutes, Simulator
from lamella_simulator.testing import EXACT, InProcess

from .texts import FIVE_MINUTES, at, counters, tokens, user

pytestmark = pytest.mark.anyio


def written(key: int) -> Outcome:
    return Outcome(1_000, writes=(Write(b"%d" % key, 1_000, 300),))


def test_the_ledger_keeps_the_entries_that_were_used_last() -> None:
    ledger = Ledger()
    for key in range(3):
        ledger.commit(written(key), start=0, available_at=0)
    ledger.commit(Outcome(1_000, read=1_000, renews=(b"0",)), start=1, available_at=1)
    ledger.keep(2)
    assert {entry.key for entry in ledger.entries()} == {b"0", b"2"}


def test_a_use_never_shortens_a_life() -> None:
    """A parallel write of a shorter life, and a read whose own time lies before."""
    ledger = Ledger()
    ledger.commit(Outcome(9, writes=(Write(b"a", 9, 3_600),)), start=100, available_at=103)
    ledger.commit(Outcome(9, writes=(Write(b"a", 9, 300),)), start=101, available_at=104)
    ledger.commit(Outcome(9, renews=(b"a",)), start=50, available_at=50)
    (entry,) = ledger.entries()
    assert (entry.available_at, entry.expires) == (103, 3_700)


async def test_an_option_bounds_the_ledger() -> None:
    provider = InProcess(replace(EXACT, keep_entries=2))
    for word in ("red", "blue", "green"):
        await provider.messages({"messages": [user(tokens(1_000, word))], "cache_control": FIVE_MINUTES}, now=at(0))
    assert len((await provider.get("/_sim/ledger")).json["entries"]) == 2
    again = await provider.messages({"messages": [user(tokens(1_000))], "cache_control": FIVE_MINUTES}, now=at(0))
    assert counters(again.usage)[0] == 0


def test_a_minute_is_told_in_one_sum_and_forgotten_after_it() -> None:
    minutes = Minutes()
    for _ in range(1_000):
        minutes.add("a", 100.0, 7)
    minutes.add("a", 130.0, 5)
    minutes.add("b", 130.0, 1)
    assert minutes.held == 3
    assert minutes.spent("a", 130.0) == (1_001, 7_005, 100.0)
    assert minutes.spent("a", 160.0) == (1, 5, 130.0)
    assert minutes.spent("a", 120.0) == (0, 0, 120.0), "a time before what was spent knows nothing of it"
    assert minutes.spent("nobody", 0.0) == (0, 0, 0.0)


def test_calls_that_came_after_thinking_are_remembered_up_to_a_number() -> None:
    simulator = Simulator(Settings())
    simulator.remember_thought(b"%d" % index for index in range(MOST_THOUGHT_CALLS + 9))
    assert len(simulator.thought_calls) == MOST_THOUGHT_CALLS
    assert b"9" in simulator.thought_calls
    assert b"8" not in simulator.thought_calls
