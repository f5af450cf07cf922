"""Law 2: in layout `lamella` nothing that lives longer stands behind something that lives shorter."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from lamella.context.layouts import LAYOUTS
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.prompt import Kind, Lifetime, Zone

from .conversations import Grown, grown, in_lamella, laws
from .wires import WIRES, wired

RANK = {Lifetime.SESSION: 0, Lifetime.TURN: 1, Lifetime.STEP: 2}
ZONES = {Zone.FIXED: 0, Zone.HISTORY: 1, Zone.TRAVELLING: 2, Zone.TURN: 3, Zone.TRAILING: 4}


@laws
@given(grown(layouts=in_lamella))
def test_segments_stand_in_the_order_of_their_lifetimes(conversation: Grown) -> None:
    for sent in conversation.sent:
        for first, second in pairwise(sent.assembled.prompt.segments):
            assert RANK[first.lifetime] <= RANK[second.lifetime]
            assert ZONES[first.zone] <= ZONES[second.zone]


@pytest.mark.parametrize("wire", WIRES)
@laws
@given(grown(layouts=in_lamella))
def test_so_do_the_blocks_on_the_wire(wire: str, conversation: Grown) -> None:
    for sent in conversation.sent:
        lifetime = {segment.id: segment.lifetime for segment in sent.assembled.prompt.segments}
        for first, second in pairwise(wired(sent, wire).blocks):
            assert RANK[lifetime[first.segment]] <= RANK[lifetime[second.segment]]


@laws
@given(grown(layouts=in_lamella))
def test_segment_ids_are_unique_in_a_window(conversation: Grown) -> None:
    for sent in conversation.sent:
        ids = [segment.id for segment in sent.assembled.prompt.segments]
        assert len(ids) == len(set(ids))


def test_the_table_says_the_same() -> None:
    assert LAYOUTS["lamella"] is LAMELLA
    for first, second in pairwise(LAMELLA.slots):
        assert (ZONES[first.zone], RANK[first.lifetime]) <= (ZONES[second.zone], RANK[second.lifetime])
    assert [slot.kind for slot in LAMELLA.of_zone(Zone.TURN)] == [
        Kind.FILES,
        Kind.USER,
        Kind.DYNAMIC,
        Kind.STEP,
    ]
