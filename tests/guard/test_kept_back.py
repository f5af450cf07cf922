"""What a model was shown and nobody is to read is left out of its answer, however that comes in pieces (W8)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.guard.kept_back import LEFT_OUT, RUN, KeptBack, Sieve
from lamella.guard.letters import fold, words_of

HINT = "Ask for clauses about the rent of mills, and who repairs the roof of the northern barn."


def sieved(text: str, kept: KeptBack, pieces: int = 1) -> str:
    sieve = Sieve(kept)
    out = [sieve.feed(text[at : at + pieces]) for at in range(0, len(text), pieces)]
    return "".join(out) + sieve.end()


CASES = {
    "all of it": (f"It says: {HINT}", f"It says: {LEFT_OUT}."),
    "a part of it": ("So, clauses about the rent of mills. Yes?", f"So, {LEFT_OUT}. Yes?"),
    "in other letters": ("CLAUSES\nabout – the “Rent” of   mílls!", f"{LEFT_OUT}!"),
    "five words in a row": ("Clauses about the rent of boats.", "Clauses about the rent of boats."),
    "words that tell nothing": ("and who of the about it", "and who of the about it"),
}


@pytest.mark.parametrize(("said", "shown"), CASES.values(), ids=CASES.keys())
def test_a_run_of_a_hint_is_left_out(said: str, shown: str) -> None:
    assert {sieved(said, KeptBack([HINT]), pieces) for pieces in (1, 3, 1000)} == {shown}


def test_a_short_hint_is_left_out_whole_and_a_name_is_not() -> None:
    kept = KeptBack(["Rents, barns, mills, geese", "Northern barn"])
    assert sieved("Rents, barns, mills, geese; the northern barn.", kept) == f"{LEFT_OUT}; the northern barn."


def test_what_the_user_said_may_be_said_again() -> None:
    kept = KeptBack([HINT], ["Tell me who repairs the roof of the northern barn!"])
    assert sieved("Who repairs the roof of the northern barn?", kept) == "Who repairs the roof of the northern barn?"


def test_only_what_may_become_a_run_waits() -> None:
    sieve = Sieve(KeptBack([HINT]))
    assert sieve.feed("Geese are loud. ") == "Geese are loud. "
    assert sieve.feed("The xylo") == "The xylo", "no word of the hint begins so"
    assert sieve.feed("phone. Ask for clauses about the ") == "phone. "
    assert sieve.feed("moon") == "Ask for clauses about the moon"


HINT_WORDS = [word.text for word in words_of(fold(HINT))]
SAID = st.lists(st.sampled_from([*HINT.split(), "moon", "x-ray", "\n", "日本", "…", "a"]), max_size=40).map(" ".join)


@given(SAID, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_no_run_is_left_and_pieces_change_nothing(said: str, pieces: int) -> None:
    kept = KeptBack([HINT])
    shown = sieved(said, kept, pieces)
    assert shown == sieved(said, kept, 1000)
    keys = [word.text for word in words_of(fold(shown))]
    assert not any(tuple(keys[at : at + RUN]) in kept.runs for at in range(len(keys)))
    if LEFT_OUT not in shown:
        assert shown == said
