"""The default layout: what never changes comes first, what moves comes last."""

from __future__ import annotations

from lamella.context.layout import Layout, OldResults, Slot
from lamella.core.prompt import Kind, Lifetime, Zone

LAMELLA = Layout(
    name="lamella",
    description="Everything in the order that keeps it cached: what never changes first, what moves last.",
    slots=(
        Slot(Kind.TOOLS, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SYSTEM, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.AGENT, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.PROJECT, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SUMMARY, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.FILES, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.USER, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.DYNAMIC, Zone.TURN, Lifetime.SESSION, when_changed=True),
        Slot(Kind.STEP, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.REMINDER, Zone.TRAILING, Lifetime.STEP, keep_for_bound_thinking=True, as_system=True),
    ),
    old_results=OldResults.STUB,
    names_ids=True,
    keeps_extracts=True,
    markers="planner",
    late_dynamic=Slot(Kind.DYNAMIC, Zone.TRAILING, Lifetime.STEP),
)
