"""Law 2, by the table: in layout `lamella` nothing that lives longer stands behind something that lives shorter."""

from __future__ import annotations

from itertools import pairwise

from lamella.context.layouts import LAYOUTS
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.prompt import Kind, Zone

from .laws import RANK, ZONES


def test_the_table_is_in_the_order_of_lifetimes() -> None:
    assert LAYOUTS["lamella"] is LAMELLA
    for first, second in pairwise(LAMELLA.slots):
        assert (ZONES[first.zone], RANK[first.lifetime]) <= (ZONES[second.zone], RANK[second.lifetime])
    assert [slot.kind for slot in LAMELLA.of_zone(Zone.TURN)] == [
        Kind.FILES,
        Kind.USER,
        Kind.DYNAMIC,
        Kind.STEP,
    ]
