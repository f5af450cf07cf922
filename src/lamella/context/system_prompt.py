"""The system prompt in sections, each registered with the tier of the cache that it may stand in.

A static section is a text and nothing else: it can't ask for the request, the user, the date or the tools, so nothing
of them can enter it. What depends on a step is a function of `StepView`, and stands only in layouts that have a slot
for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from lamella.core.agents import KnowledgePrompt
from lamella.core.errors import ConfigurationError
from lamella.core.prompt import ToolSpec

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def time_suffix(sent_at: datetime, timezone: str) -> str:
    """`[Sent: Sunday 2026-03-01 09:00 +01:00, Europe/Berlin]`; raises ValueError for a moment without offset.

    The offset was stored with the message, so no zone database is asked and the bytes never change.
    """
    offset = sent_at.utcoffset()
    if offset is None:
        raise ValueError("sent_at needs an offset")
    text = sent_at.isoformat(" ", "minutes")
    moment, shift = text[:16], text[16:]
    if len(shift) > len("+01:00"):  # an offset with seconds, from before there were time zones
        minutes = round(offset.total_seconds() / 60)
        hours, rest = divmod(abs(minutes), 60)
        shift = f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
    return f"[Sent: {_WEEKDAYS[sent_at.weekday()]} {moment} {shift}, {timezone}]"


def date_line(sent_at: datetime) -> str:
    """`The current date is Sunday 2026-03-01, the time 09:00.`, for system prompts that carry it."""
    day = f"{_WEEKDAYS[sent_at.weekday()]} {sent_at.year:04d}-{sent_at.month:02d}-{sent_at.day:02d}"
    return f"The current date is {day}, the time {sent_at.hour:02d}:{sent_at.minute:02d}."


_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\$\{.*?\}|\{[a-z_]+\}|%\([a-z_]+\)s|<%.*?%>")


@dataclass(frozen=True, slots=True)
class StaticSection:
    """A section whose bytes never change. Raises `ConfigurationError` for a text with a placeholder in it."""

    name: str
    text: str

    def __post_init__(self) -> None:
        found = _PLACEHOLDER.search(self.text)
        if found is not None:
            raise ConfigurationError(
                f"The static section “{self.name}” has a placeholder, {found[0]}.",
                hint="Write its text out, or register it as a section of the step.",
                param=self.name,
            )


@dataclass(frozen=True, slots=True)
class StepView:
    """The data for sections of a step. `tools` are those that can be called in this step."""

    sent_at: datetime
    tools: tuple[ToolSpec, ...]
    searched: bool


@dataclass(frozen=True, slots=True)
class StepSection:
    """A section that is written for every step; "" leaves it out."""

    name: str
    write: Callable[[StepView], str]


def static_text(sections: Sequence[StaticSection]) -> str:
    """The static sections as one text."""
    return "\n\n".join(section.text.strip() for section in sections if section.text.strip())


def step_text(view: StepView, sections: Sequence[StepSection]) -> str:
    """The sections of a step as one text."""
    return "\n\n".join(text for text in (section.write(view) for section in sections) if text)


MORE_TOOLS = "If you used tools and find that you need more information, or need to call others, you are encouraged to."
CITE = "Put the number of each document that a statement rests on in square brackets behind the statement, such as [1]."


def _date(view: StepView) -> str:
    return f"# Date\n{date_line(view.sent_at)}"


def _tools(view: StepView) -> str:
    if not view.tools:
        return ""
    lines = [_line(tool) for tool in sorted(view.tools, key=_name)]
    return "\n".join(["# Tools of this step", *lines, MORE_TOOLS])


def _citations(view: StepView) -> str:
    return f"# Citations\n{CITE}" if view.searched else ""


def _name(tool: ToolSpec) -> str:
    return tool.name


def _line(tool: ToolSpec) -> str:
    sentence = _first_sentence(tool.description)
    return f"- {tool.name}: {sentence}" if sentence else f"- {tool.name}"


def _first_sentence(text: str) -> str:
    return text.split(". ", 1)[0].rstrip(".") + "." if text else ""


def _shipped(name: str) -> StaticSection:
    return StaticSection(name, files("lamella.context").joinpath(f"prompts/{name}.md").read_text("utf-8"))


STATIC_SECTIONS: tuple[StaticSection, ...] = tuple(
    _shipped(name) for name in ("introduction", "writing", "conversation", "documents", "tools")
)
"""The system prompt that ships, in order."""

_CITATIONS_SECTION = next(section for section in STATIC_SECTIONS if section.name == "documents")


def without_citations(text: str) -> str:
    """A system prompt without the shipped section about citations. An edited section stays."""
    before, _, after = text.partition(_CITATIONS_SECTION.text.strip())
    return "\n\n".join(part for part in (before.rstrip("\n"), after.lstrip("\n")) if part)


KNOWLEDGE_SECTIONS: Mapping[KnowledgePrompt, StaticSection] = {
    prompt: _shipped(f"knowledge_{prompt.value}") for prompt in (KnowledgePrompt.NORMAL, KnowledgePrompt.RESTRICTED)
}
"""The system prompt's section about knowledge bases, in sessions that have any."""


def knowledge_text(prompt: KnowledgePrompt) -> str:
    """The text of that section; "" for none."""
    return static_text([KNOWLEDGE_SECTIONS[prompt]]) if prompt is not KnowledgePrompt.NONE else ""


STEP_SECTIONS: tuple[StepSection, ...] = (
    StepSection("date", _date),
    StepSection("tools", _tools),
    StepSection("citations", _citations),
)
"""The sections that layouts with a slot for them add in every step, in order."""
