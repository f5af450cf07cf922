"""The layout of the chat-turn seed: dynamic system sections, CA and P above the newest message, R last (O1–O9)."""

from __future__ import annotations

from lamella.context.layout import Layout, OldResults, Slot
from lamella.core.prompt import Kind, Lifetime, Zone

ONYX = Layout(
    name="onyx",
    description="Agent and project move along above the newest message; reminders come last; old results are dropped.",
    slots=(
        Slot(Kind.TOOLS, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SYSTEM, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SECTIONS, Zone.FIXED, Lifetime.STEP),
        Slot(Kind.SUMMARY, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.AGENT, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.PROJECT, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.FILES, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.DYNAMIC, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.USER, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.STEP, Zone.TURN, Lifetime.TURN),
        Slot(Kind.REMINDER, Zone.TRAILING, Lifetime.STEP),
    ),
    old_results=OldResults.NOTICE,
    drops_tools_at_end=True,
)
