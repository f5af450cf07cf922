"""The layout of the sessions seed: system, summaries, messages; old results are stubs up to the boundary (L4, L8)."""

from __future__ import annotations

from lamella.context.layout import Layout, OldResults, Slot
from lamella.core.prompt import Kind, Lifetime, SeedMarker, Zone

LIS = Layout(
    name="lis",
    description="System, summaries, messages; old results are stubs up to a recorded boundary.",
    slots=(
        Slot(Kind.TOOLS, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SYSTEM, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SUMMARY, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.AGENT, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.PROJECT, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.FILES, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.DYNAMIC, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.USER, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.STEP, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.REMINDER, Zone.TRAILING, Lifetime.STEP),
    ),
    old_results=OldResults.STUB,
    seed_markers=(SeedMarker.SYSTEM, SeedMarker.SUMMARY, SeedMarker.PRUNE, SeedMarker.TAIL),
    waits_for_thresholds=True,
    tells=True,
)
