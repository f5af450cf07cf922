"""The reminders of a step: a registry, merged into one message in the order of the registry (SPEC O8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
SAID_NOTHING = "You ended your answer without saying anything. Answer the user now, in words."
LAST_STEP = "This is the last step of this turn: answer now with what you have. No tool can be called any more."


@dataclass(frozen=True, slots=True)
class ReminderView:
    """What a reminder may depend on. `steps` are those of the running turn, `configured` the deployment's texts."""

    steps: Sequence[Step]
    registry: Registry
    agent: Agent | None
    layout: Layout
    configured: Sequence[str]
    last_step: bool
    said_nothing: bool = False
    """The model was asked this already and ended without a word."""


@dataclass(frozen=True, slots=True)
class Reminder:
    """Something that a model is reminded of at the end of the window; "" when there is no reason to."""

    name: str
    text: Callable[[ReminderView], str]


def searched(steps: Sequence[Step], registry: Registry) -> bool:
    """Whether a search-like tool was called in these steps."""
    return any(registry.is_search(call.name) for step in steps for call in step.calls)


def _citation(view: ReminderView) -> str:
    """From the first search-like call to the end of the turn."""
    return CITATION if searched(view.steps, view.registry) else ""


def _last_step(view: ReminderView) -> str:
    return LAST_STEP if view.last_step else ""


def _said_nothing(view: ReminderView) -> str:
    return SAID_NOTHING if view.said_nothing else ""


def _agent(view: ReminderView) -> str:
    """The agent's own reminder, behind a short re-assertion where its prompt stands far from the end."""
    agent = view.agent
    if agent is None:
        return ""
    far = view.layout.is_fixed(Kind.AGENT) or agent.replaces_system
    return "\n\n".join(text for text in (REASSERTION.format(name=agent.name) if far else "", agent.reminder) if text)


def _configured(view: ReminderView) -> str:
    return "\n\n".join(text for text in view.configured if text)


REMINDERS: tuple[Reminder, ...] = (
    Reminder("citation", _citation),
    Reminder("last step", _last_step),
    Reminder("said nothing", _said_nothing),
    Reminder("agent", _agent),
    Reminder("configured", _configured),
)
"""In the order in which they are merged."""


def merged(view: ReminderView, reminders: Sequence[Reminder] = REMINDERS) -> str:
    """The text of this step's reminder, or ""."""
    return "\n\n".join(text for text in (reminder.text(view) for reminder in reminders) if text)
