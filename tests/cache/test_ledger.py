"""How long a cached prefix can be read: from the start of the request that wrote or read it last."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lamella.cache.ledger import Entry, Ledger
from lamella.core.prompt import Ttl

from .windows import CLAUDE, FREE, GPT, START, history, send

LIVES = {Ttl.FIVE_MINUTES: 300, Ttl.THIRTY_MINUTES: 1_800, Ttl.ONE_HOUR: 3_600}


@pytest.mark.parametrize(("ttl", "seconds"), LIVES.items())
def test_an_entry_lives_to_the_second(ttl: Ttl, seconds: int) -> None:
    ledger = Ledger()
    ledger.write(Entry("key", 1_000, ttl, START, exact=True))
    assert ledger.live("key", START)
    assert ledger.live("key", START + timedelta(seconds=seconds - 0.001))
    assert ledger.live("key", START + timedelta(seconds=seconds)) is None
    assert ledger.live("another", START) is None


def test_a_use_starts_its_life_anew() -> None:
    ledger = Ledger()
    ledger.write(Entry("key", 1_000, Ttl.FIVE_MINUTES, START, exact=True))
    ledger.renew("key", START + timedelta(minutes=4))
    assert ledger.live("key", START + timedelta(minutes=8, seconds=59))
    assert ledger.live("key", START + timedelta(minutes=9)) is None
    ledger.renew("nobody", START)
    assert ledger.live("nobody", START) is None


def test_what_is_forgotten_is_gone() -> None:
    ledger = Ledger()
    ledger.write(Entry("key", 1_000, Ttl.ONE_HOUR, START, exact=True))
    ledger.forget("key")
    ledger.forget("key")
    assert ledger.live("key", START) is None


def test_only_what_has_expired_is_swept() -> None:
    ledger = Ledger()
    for number in range(3_000):
        old = number < 2_000
        when = START if old else START + timedelta(minutes=30)
        ledger.write(Entry(f"key{number}", 1_000, Ttl.FIVE_MINUTES, when, exact=True))
    later = START + timedelta(minutes=31)
    assert all(ledger.live(f"key{number}", later) for number in range(2_000, 3_000))
    assert not any(ledger.live(f"key{number}", later) for number in range(2_000))


@pytest.mark.parametrize(("model", "minutes"), [(CLAUDE, 5), (GPT, 30), (FREE, 5)])
def test_a_request_is_read_again_within_the_life_of_its_entry(model: object, minutes: int) -> None:
    window = history(3)
    for later, read in ((minutes - 0.01, True), (minutes, False)):
        ledger = Ledger()
        assert send(window, ledger, model=model).hit is None  # type: ignore[arg-type]
        again = send(window, ledger, model=model, minutes=later)  # type: ignore[arg-type]
        assert (again.hit is not None) == read


def test_reading_keeps_an_entry_alive_for_ever() -> None:
    window, ledger = history(3), Ledger()
    send(window, ledger)
    for minutes in (4, 8, 12, 16):
        assert send(window, ledger, minutes=minutes).hit == 2
    assert send(window, ledger, minutes=21).hit is None


def test_what_is_written_is_known_for_another_conversation_of_the_account() -> None:
    """The ledger is shared: the same beginning is read by whoever has it."""
    ledger, shared = Ledger(), history(2)
    send(shared, ledger)
    made = send([*shared, *history(1, start=9)], ledger, minutes=1)
    assert (made.hit, made.read, made.written) == (1, 2_000, 1_000)


def test_a_clock_that_was_set_back_makes_nothing_live_for_longer() -> None:
    """What was used a moment ahead is a difference of clocks; an hour ahead, nobody knows how long it still lives."""
    ledger = Ledger()
    ledger.write(Entry("key", 1_000, Ttl.FIVE_MINUTES, START, exact=True))
    assert ledger.live("key", START - timedelta(seconds=59))
    assert ledger.live("key", START - timedelta(hours=1)) is None
    window, back = history(3), Ledger()
    send(window, back, minutes=60)
    assert send(window, back).hit is None
    assert send(window, back, minutes=1).hit == 2


def test_what_was_noted_is_taken_once_and_can_be_given_back() -> None:
    heard: list[str] = []
    ledger = Ledger(changed=lambda: heard.append("changed"))
    old = Entry("old", 1_000, Ttl.FIVE_MINUTES, START, exact=False)
    new = Entry("new", 2_000, Ttl.ONE_HOUR, START, exact=True)
    ledger.write(old)
    ledger.write(new)
    ledger.forget("old")
    ledger.renew("nobody", START)
    assert len(heard) == 3
    changes = ledger.take()
    assert (changes.entries, changes.forgotten) == ((new,), ("old",))
    assert ledger.take() == type(changes)((), ())
    ledger.give_back(changes)
    assert ledger.take() == changes


def test_a_ledger_begins_with_what_was_known() -> None:
    known = Entry("key", 1_000, Ttl.ONE_HOUR, START, exact=True)
    ledger = Ledger([known])
    assert ledger.live("key", START) == known
    assert ledger.take().entries == ()
