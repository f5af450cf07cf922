"""Law 3: same data, same bytes, whatever was assembled before, in whatever order things were inserted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.context.assemble import Assembled, assemble
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.json import encode

from .conversations import Grown, Sent, grown, laws, raw_contexts
from .wires import WIRES, body


def bytes_of(assembled: Assembled, before: Assembled | None = None) -> list[bytes]:
    return [encode(body(assembled, wire, before)) for wire in WIRES]


def alike(first: Assembled, second: Assembled) -> bool:
    """Equal in everything but what only saves work."""
    return (first.prompt, first.report) == (second.prompt, second.report) and bytes_of(first) == bytes_of(second)


@laws
@given(grown())
def test_an_earlier_window_of_the_line_changes_nothing(conversation: Grown) -> None:
    """Every request of a grown line was assembled with the one before it: a fresh process makes the same."""
    for sent in conversation.sent:
        fresh = assemble(sent.context, sent.layout)
        assert alike(fresh, sent.assembled)
        assert fresh.decisions == sent.assembled.decisions
        assert bytes_of(sent.assembled, sent.before) == bytes_of(fresh)


@laws
@given(grown(), st.data())
def test_any_other_window_changes_nothing(conversation: Grown, data: st.DataObject) -> None:
    if not conversation.sent:
        return
    sent: Sequence[Sent] = conversation.sent
    other, mine = data.draw(st.sampled_from(sent)), data.draw(st.sampled_from(sent))
    assert alike(assemble(mine.context, mine.layout, other.assembled), mine.assembled)
    assert bytes_of(mine.assembled, other.assembled) == bytes_of(mine.assembled)


@laws
@given(grown(), raw_contexts())
def test_a_window_of_another_conversation_changes_nothing(conversation: Grown, foreign: ContextInput) -> None:
    """The generated conversations share their ids: only content tells them apart."""
    other = assemble(foreign, LAMELLA)
    for sent in conversation.sent:
        assert alike(assemble(sent.context, sent.layout, other), sent.assembled)
        assert bytes_of(sent.assembled, other) == bytes_of(sent.assembled)


@laws
@given(grown())
def test_equal_rows_are_as_good_as_the_same(conversation: Grown) -> None:
    """A restart reads the rows anew: equal objects, none of them identical."""
    for sent in conversation.sent:
        again = copy.deepcopy(sent.context)
        assert alike(assemble(again, sent.layout, sent.before), sent.assembled)


@laws
@given(grown(), st.randoms(use_true_random=False))
def test_the_order_in_which_tools_were_listed_changes_nothing(conversation: Grown, random: st.random.Random) -> None:  # type: ignore[name-defined]
    for sent in conversation.sent:
        tools = random.sample(sent.context.tools, len(sent.context.tools))
        shuffled = replace(sent.context, tools=tuple(tools))
        assert alike(assemble(shuffled, sent.layout), sent.assembled)


@laws
@given(grown())
def test_decisions_fed_back_change_nothing(conversation: Grown) -> None:
    for sent in conversation.sent:
        known = replace(sent.context, decisions=sent.context.decisions + sent.assembled.decisions)
        again = assemble(known, sent.layout)
        assert alike(again, sent.assembled)
        assert again.decisions == ()


@pytest.mark.parametrize("calibration", [0.5, 1.0, 4.0])
@laws
@given(grown())
def test_a_new_calibration_changes_no_byte_of_what_was_decided(calibration: float, conversation: Grown) -> None:
    for sent in conversation.sent:
        known = replace(
            sent.context,
            decisions=sent.context.decisions + sent.assembled.decisions,
            calibration=calibration,
            budget=10_000_000,
        )
        assert bytes_of(assemble(known, sent.layout)) == bytes_of(sent.assembled)
