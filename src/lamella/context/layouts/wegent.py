"""The layout of the dynamic-context seed: a static system prompt, D as one message before the current one (W1, W2)."""

from __future__ import annotations

from lamella.context.layout import Layout, OldResults, Slot
from lamella.core.prompt import Kind, Lifetime, Zone

WEGENT = Layout(
    name="wegent",
    description="A static system prompt; dynamic context is one message before the newest question.",
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
    old_results=OldResults.KEEP,
)
