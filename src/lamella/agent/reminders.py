"""The reminders of a step: a registry, merged into one message in the order of the registry.

Example: after a search whose results have web addresses the model is reminded to open the pages (`has_web_hits`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from lamella.context.layout import Layout
from lamella.core.agents import Agent
from lamella.core.json import Json, decode
from lamella.core.messages import Step, ToolResult
from lamella.core.prompt import Kind, ToolSpec
from lamella.tooling.tool import Registry

OPEN_URL = "open_url"
"""The tool that opens an address."""

_OPENED = frozenset({OPEN_URL, "read_file"})
"""Tools whose results are pages that are open already."""

_FIELDS = ("url", "link", "href")
_ADDRESS = re.compile(r"https?://[^\s/]", re.IGNORECASE)


def has_web_hits(result: ToolResult) -> bool:
    """Whether a search result names web addresses: in a field of its JSON, or anywhere in plain text.

    An address inside a document's passage does not count.
    """
    if result.is_error or result.name in _OPENED:
        return False
    try:
        found = decode(result.content)
    except (msgspec.DecodeError, RecursionError):
        return _ADDRESS.search(result.content) is not None
    return any(_ADDRESS.match(address) for address in _addresses(found))


def _addresses(value: Json) -> Iterator[str]:
    """The addresses in the fields of a JSON value, at any depth that JSON is read to."""
    if isinstance(value, dict):
        yield from (field for name in _FIELDS if isinstance(field := value.get(name), str))
        for inner in value.values():
            yield from _addresses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _addresses(inner)


CITATION = (
    "Cite the documents that an answer rests on: put their numbers in square brackets right behind the statement, "
    "such as [1] or [2][3]. Cite only documents that you have seen."
)
OPEN_PAGES = (
    "The search found web addresses. An excerpt seldom says enough: open the pages that promise most with open_url "
    "before you answer, unless the excerpts answer the question in full."
)
REASSERTION = "The instructions for “{name}” at the beginning of this conversation still apply."
SAID_NOTHING = "You ended your answer without saying anything. Answer the user now, in words."
LAST_STEP = "This is the last step of this turn: answer now with what you have. No tool can be called any more."


@dataclass(frozen=True, slots=True)
class ReminderView:
    """The data for reminders.

    `steps` are those of the running turn, `tools` those of the conversation, `configured` the deployment's texts.
    """

    steps: Sequence[Step]
    registry: Registry
    agent: Agent | None
    layout: Layout
    configured: Sequence[str]
    last_step: bool
    tools: Sequence[ToolSpec] = ()
    said_nothing: bool = False
    """The model was already asked and ended without a word."""


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder at the end of the window; "" if none is due."""

    name: str
    text: Callable[[ReminderView], str]


def has_found(steps: Sequence[Step], registry: Registry) -> bool:
    """Whether a search-like tool gave a result in these steps."""
    return any(registry.is_search(result.name) and not result.is_error for step in steps for result in step.results)


def _citation(view: ReminderView) -> str:
    """From the first search-like call to the end of the turn."""
    is_search = view.registry.is_search
    return CITATION if any(is_search(call.name) for step in view.steps for call in step.calls) else ""


def _next_tool(view: ReminderView) -> str:
    """The tool to call next: after web hits, the tool that opens pages, if available."""
    if view.last_step or not view.steps or all(tool.name != OPEN_URL for tool in view.tools):
        return ""
    results = view.steps[-1].results
    return OPEN_PAGES if any(view.registry.is_search(one.name) and has_web_hits(one) for one in results) else ""


def _last_step(view: ReminderView) -> str:
    return LAST_STEP if view.last_step else ""


def _said_nothing(view: ReminderView) -> str:
    return SAID_NOTHING if view.said_nothing else ""


def _agent(view: ReminderView) -> str:
    """The agent's own reminder, after a line that re-asserts its prompt.

    An agent that replaces the system prompt needs no such line.
    """
    agent = view.agent
    if agent is None:
        return ""
    far = view.layout.is_fixed(Kind.AGENT) and agent.prompt.strip() and not agent.replaces_system
    return "\n\n".join(text for text in (REASSERTION.format(name=agent.name) if far else "", agent.reminder) if text)


def _configured(view: ReminderView) -> str:
    return "\n\n".join(text for text in view.configured if text)


REMINDERS: tuple[Reminder, ...] = (
    Reminder("citation", _citation),
    Reminder("next tool", _next_tool),
    Reminder("last step", _last_step),
    Reminder("said nothing", _said_nothing),
    Reminder("agent", _agent),
    Reminder("configured", _configured),
)
"""In the order in which they are merged."""


def merged(view: ReminderView, reminders: Sequence[Reminder] = REMINDERS) -> str:
    """The text of this step's reminder, or ""."""
    return "\n\n".join(text for text in (reminder.text(view) for reminder in reminders) if text)
