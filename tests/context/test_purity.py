"""Law 3, beyond the line of a conversation: no other window, of whatever conversation, changes a byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA

from .growing import Grown, grown
from .laws import expect_alike
from .plans import laws, raw_contexts
from .wires import WIRES, blocks_of


@laws
@given(grown(), st.data())
def test_any_other_window_changes_nothing(conversation: Grown, data: st.DataObject) -> None:
    if not conversation.sent:
        return
    other, mine = (data.draw(st.sampled_from(conversation.sent)) for _ in range(2))
    expect_alike(conversation, assemble(mine.context, mine.layout, other.assembled), mine)
    for wire in WIRES:
        assert blocks_of(mine.assembled, wire, other.assembled) == blocks_of(mine.assembled, wire)


@laws
@given(grown(), raw_contexts())
def test_a_window_of_another_conversation_changes_nothing(conversation: Grown, foreign: ContextInput) -> None:
    """The generated conversations share their ids: only content tells them apart."""
    other = assemble(foreign, LAMELLA)
    for sent in conversation.sent:
        expect_alike(conversation, assemble(sent.context, sent.layout, other), sent)
        for wire in WIRES:
            assert blocks_of(sent.assembled, wire, other) == blocks_of(sent.assembled, wire)
