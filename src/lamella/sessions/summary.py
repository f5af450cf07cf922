"""What a summary is asked for, and when what came back is one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from lamella.core.counting import count_tokens
from lamella.core.messages import StopReason, Turn
from lamella.core.sessions import SessionSummary
from lamella.core.withheld import bases_of_window
from lamella.sessions.material import framed, neutral
from lamella.sessions.summary_check import TOP, Check

MAX_OUTPUT = 6_000
"""Tokens of a summary's answer, thinking included: its length is most of what a compaction costs."""

LONGEST = 4_000
"""Local tokens of a summary."""

LITERAL = 250
"""Local tokens of a session that is its own summary: asking a model for a shorter one would cost more than it saves."""

_PROMPTS = files("lamella.sessions").joinpath("prompts")
INSTRUCTION = _PROMPTS.joinpath("summary.md").read_text("utf-8").strip()
STAYS = (
    "The messages behind the last one in the index stay in the new window word for word: leave out what only they say."
)
SYSTEM = _PROMPTS.joinpath("summariser.md").read_text("utf-8").strip()
"""The system prompt of a second model, which reads the conversation as data."""


def instruction(
    turns: Sequence[Turn], focus: str = "", *, material: str = "", before: Check | None = None, stays: bool = False
) -> str:
    """The message that asks for the summary of `turns`.

    Data comes first, in frames that nothing in it can close: `material` and an index of the messages. What is asked
    stands last. `focus` is what the user wants most room for; `before` says what the summary before this one lacked;
    `stays`: newer messages stand between these and the instruction, and are kept.
    """
    index = "\n".join(f"- {turn.user.id}: “{_beginning(turn.user.text)}”" for turn in turns)
    parts = [framed("material", material)] if material else []
    parts += [framed("index", index), INSTRUCTION]
    if stays:
        parts.append(STAYS)
    if focus:
        parts.append(f"Give most room to this: {focus}")
    if before is not None:
        parts.append(_lacked(before))
    return "\n\n".join(parts)


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:60] + "…"


def _lacked(check: Check) -> str:
    """What an earlier summary left out or made up. The items are quoted from the material."""
    lines = ["You wrote a summary of this before, which was not kept. Write it again, whole."]
    asked = [item for item in check.missing if item.rank <= TOP]
    if asked:
        lines.append("It left out what the user asked for in general, or to remember:")
        lines += [f"- “{neutral(item.sentence)}” [{item.message_id}]" for item in asked[:10]]
    others = [item for item in check.missing if item.rank > TOP]
    if others:
        lines.append("It left out: " + ", ".join(f"“{neutral(item.text)}” [{item.message_id}]" for item in others[:20]))
    if check.invented:
        lines.append("This is nowhere in the conversation: " + ", ".join(f"“{text}”" for text in check.invented[:20]))
    return "\n".join(lines)


def literal(turns: Sequence[Turn]) -> SessionSummary:
    """The summary of a session that hardly said anything: what was said."""
    lines = ["# Said"]
    for turn in turns:
        lines.append(f"- User: “{turn.user.text.strip()}” [{turn.user.id}]")
        lines += [f"- Answer: “{step.text.strip()}” [{turn.user.id}]" for step in turn.steps if step.text.strip()]
        called = ", ".join(dict.fromkeys(call.name for step in turn.steps for call in step.calls))
        lines += [f"- Tools: {called} [{turn.user.id}]"] if called else []
    text = neutral("\n".join(lines))
    return SessionSummary(text, count_tokens(text), made_from=tuple(sorted(bases_of_window(turns))))


@dataclass(frozen=True, slots=True)
class Refused:
    """What came back is no summary, and why."""

    why: str


def checked(text: str, stop: StopReason | None, *, called_tools: bool, source_tokens: int) -> str | Refused:
    """The summary, or why it is none: empty, cut off, a call, or not shorter than what it stands for (X-LEASE)."""
    text = neutral(text.strip())
    size = count_tokens(text)
    if called_tools:
        return Refused("the model called a tool instead of answering")
    if stop is not StopReason.END_TURN:
        return Refused(f"the summary was cut off ({stop.value if stop else 'broken'})")
    if not text:
        return Refused("the summary is empty")
    if size > LONGEST:
        return Refused(f"the summary has {size} tokens, more than {LONGEST}")
    if size >= source_tokens:
        return Refused(f"the summary has {size} tokens, what it stands for has {source_tokens}")
    return text
