"""Why something that a layout has a place for is not in the window."""

from __future__ import annotations

from collections.abc import Iterator, Set

from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.prompt import Absence, Kind


def absences(context: ContextInput, layout: Layout, present: Set[Kind]) -> Iterator[Absence]:
    """One reason for each kind of the layout's slots that no segment is of."""
    for slot in layout.slots:
        if slot.kind not in present:
            why = _why(slot.kind, context, layout)
            if why:
                yield Absence(slot.kind, why)


def _why(kind: Kind, context: ContextInput, layout: Layout) -> str:
    match kind:
        case Kind.TOOLS:
            if context.tools and context.last_step:
                return f"layout {layout.name} sends no tools with the last step"
            return "no tool can be called in this conversation"
        case Kind.SYSTEM:
            return "the system prompt is empty"
        case Kind.SECTIONS if context.agent is not None and context.agent_replaces_system:
            return f"the prompt of “{context.agent.name}” stands in place of the whole system prompt"
        case Kind.SECTIONS:
            return "no section applies to this step"
        case Kind.SUMMARY:
            return "there is no summary of an earlier session"
        case Kind.AGENT:
            return _no_agent(context)
        case Kind.PROJECT:
            return _no_project(context)
        case Kind.FILES:
            return "no file came with a message"
        case Kind.DYNAMIC:
            return "no dynamic context came with this message"
        case Kind.REMINDER:
            return "there is nothing to remind of in this step, or it stands there already"
        case Kind.USER | Kind.STEP:
            return ""


def _no_agent(context: ContextInput) -> str:
    if context.agent is None:
        return "no agent is chosen"
    if context.agent.replaces_system:
        return f"the prompt of “{context.agent.name}” stands in place of the system prompt"
    return f"the prompt of “{context.agent.name}” is empty"


def _no_project(context: ContextInput) -> str:
    if context.project is None:
        return "the conversation belongs to no project"
    return f"the project “{context.project.name}” is empty"
