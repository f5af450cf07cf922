"""The reminders of a step, merged into one message in a fixed order (SPEC O8)."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.context.layout import Layout
from lamella.core.agents import Agent
from lamella.core.messages import Step
from lamella.core.prompt import Kind
from lamella.tools.tool import Registry

CITATION = (
    "Cite the documents that an answer rests on: put their numbers in square brackets right behind the statement, "
    "such as [1] or [2][3]. Cite only documents that you have seen."
)
REASSERTION = "The instructions for “{name}” at the beginning of this conversation still apply."
LAST_STEP = "This is the last step of this turn: answer now with what you have. No tool can be called any more."


def searched(steps: Sequence[Step], registry: Registry) -> bool:
    """Whether a search-like tool was called in these steps."""
    return any(registry.is_search(call.name) for step in steps for call in step.calls)


def of_agent(agent: Agent | None, layout: Layout) -> tuple[str, ...]:
    """What an agent adds: its own reminder, and a short re-assertion where its prompt stands far from the end."""
    if agent is None:
        return ()
    far = layout.is_fixed(Kind.AGENT) or agent.replaces_system
    texts = (REASSERTION.format(name=agent.name) if far else "", agent.reminder)
    return tuple(text for text in texts if text)


def merged(steps: Sequence[Step], registry: Registry, *, last_step: bool, configured: Sequence[str] = ()) -> str:
    """The text of this step's reminder, or "": citation from the first search-like call on, last step, configured."""
    texts = []
    if searched(steps, registry):
        texts.append(CITATION)
    if last_step:
        texts.append(LAST_STEP)
    return "\n\n".join([*texts, *configured])
