"""From canonical turns to segments: the one place where what a model reads is written (DESIGN 2)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import assert_never

from lamella.context.documents import files_message
from lamella.context.layout import Layout, Slot
from lamella.context.moments import time_suffix
from lamella.core.json import digest, encode
from lamella.core.messages import AnswerPart, Reasoning, Step, Text, ToolCall, ToolResult, Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, PromptMessage, Segment, ToolSpec, Zone

INTERRUPTED = "This call was interrupted; it has no result."
REMINDER_OPEN, REMINDER_CLOSE = "<system-reminder>", "</system-reminder>"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a turn's rendering depends on besides the turn: everything before it, as a fingerprint.

    `durable` chains the digests of all segments that stay; `reminder` is what the last step was sent with, where
    reminders stay in place.
    """

    durable: str
    reminder: str = ""

    def behind(self, segment: Segment) -> Standing:
        """The standing after `segment`."""
        return Standing(digest(self.durable.encode(), segment.digest.encode()), self.reminder)


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A turn as segments, with what it was made from, so that an equal one need not be made again."""

    turn: Turn
    listed: frozenset[str]
    before: Standing
    segments: tuple[Segment, ...]
    after: Standing


class _Out:
    """The segments of one turn as they are made, and the standing behind the last."""

    __slots__ = ("segments", "standing", "zone")

    def __init__(self, zone: Zone, standing: Standing) -> None:
        self.zone = zone
        self.standing = standing
        self.segments: list[Segment] = []

    def add(self, segment: Segment) -> None:
        """Append a segment that stays."""
        self.segments.append(segment)
        self.standing = self.standing.behind(segment)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders turns for one layout and model."""

    layout: Layout
    model: ModelFacts

    @property
    def keeps_reminders(self) -> bool:
        """Whether reminders stay where they were sent, because this model's thinking is bound to them."""
        return self.model.binds_thinking and any(slot.keep_for_bound_thinking for slot in self.layout.slots)

    def turn(self, turn: Turn, number: int, listed: Set[str], before: Standing, zone: Zone) -> RenderedTurn:
        """The segments of a turn, by the layout's slots of zone TURN; `zone` is where they stand in this request."""
        own = frozenset(a.file_id for a in turn.user.attachments) & listed
        out = _Out(zone, before)
        for slot in self.layout.of_zone(Zone.TURN):
            self._fill(slot, turn, number, own, out)
        return RenderedTurn(turn, own, before, tuple(out.segments), out.standing)

    def _fill(self, slot: Slot, turn: Turn, number: int, listed: Set[str], out: _Out) -> None:
        match slot.kind:
            case Kind.FILES if turn.user.attachments:
                out.add(files_segment(turn, listed, out.zone))
            case Kind.FILES:
                pass
            case Kind.USER:
                out.add(user_segment(turn, number, out.zone))
            case Kind.STEP:
                self._steps(turn, number, out)
            case _:
                raise ValueError(f"a layout can't put {slot.kind} into zone {slot.zone}")

    def _steps(self, turn: Turn, number: int, out: _Out) -> None:
        for index, step in enumerate(turn.steps):
            if self.keeps_reminders:
                self._keep_reminder(turn, index, step.reminder, out)
            made = step_segment(step, number, out.zone, with_thinking=self._thinking_of(step, out.standing))
            if made is not None:
                out.add(made)

    def _keep_reminder(self, turn: Turn, index: int, text: str, out: _Out) -> None:
        """Put a reminder that stays before step `index`, unless the step before it was sent with the same one."""
        if text and text != out.standing.reminder:
            out.add(reminder_segment(text, _reminder_id(turn, index), out.zone, Lifetime.SESSION))
        out.standing = Standing(out.standing.durable, text)

    def trailing_reminder(self, turn: Turn, text: str, standing: Standing) -> tuple[tuple[Segment, ...], Standing]:
        """The reminder behind the last step. Where reminders are kept, only a step that follows makes it stay."""
        if not self.keeps_reminders:
            return (reminder_segment(text, "reminder", Zone.TRAILING, Lifetime.STEP),), standing
        if text == standing.reminder:
            return (), standing
        made = reminder_segment(text, _reminder_id(turn, len(turn.steps)), Zone.TRAILING, Lifetime.STEP)
        return (made,), standing.behind(made)

    def _thinking_of(self, step: Step, standing: Standing) -> bool:
        """Thinking goes only to the model that made it, and only behind what it was made after (law 5)."""
        return step.model == self.model.name and step.made_after == standing.durable


def content_digest(messages: Sequence[PromptMessage]) -> str:
    """The fingerprint of messages, thinking left out: a provider may drop old thinking without a change of prefix."""
    shown = [(message.role, [p for p in message.parts if not isinstance(p, Reasoning)]) for message in messages]
    return digest(encode(shown))


def tools_segment(tools: Sequence[ToolSpec]) -> Segment:
    """The tool list, sorted by name: its order never depends on who listed them."""
    ordered = tuple(sorted(tools, key=lambda tool: tool.name))
    text = encode([[tool.name, tool.description, tool.input_schema] for tool in ordered])
    return Segment(
        id="tools",
        kind=Kind.TOOLS,
        zone=Zone.FIXED,
        lifetime=Lifetime.SESSION,
        source="tools",
        owner="deployment",
        label=f"{len(ordered)} tool{'s' if len(ordered) != 1 else ''}",
        letters="",
        tokens=len(text) // 4,
        digest=digest(text),
        tools=ordered,
    )


def system_segment(text: str) -> Segment:
    """The system prompt."""
    messages = (PromptMessage("system", (Text(text),)),)
    return Segment(
        id="system",
        kind=Kind.SYSTEM,
        zone=Zone.FIXED,
        lifetime=Lifetime.SESSION,
        source="system_prompt",
        owner="deployment",
        label="System prompt",
        letters="S",
        tokens=len(text) // 4,
        digest=content_digest(messages),
        messages=messages,
    )


def files_segment(turn: Turn, listed: Set[str], zone: Zone) -> Segment:
    """All files of a turn: one user message before the user's own (SPEC O3, O6)."""
    attachments = turn.user.attachments
    messages = (PromptMessage("user", (Text(files_message(attachments, listed)),)),)
    included = [a for a in attachments if a.text is not None and a.file_id not in listed]
    return Segment(
        id=f"{turn.id}/files",
        kind=Kind.FILES,
        zone=zone,
        lifetime=Lifetime.SESSION,
        source=",".join(a.file_id for a in attachments),
        owner="user",
        label="Files: " + ", ".join(a.title for a in attachments),
        letters="F",
        tokens=sum(a.tokens for a in included) + 40 * len(attachments),
        digest=content_digest(messages),
        messages=messages,
    )


def user_segment(turn: Turn, number: int, zone: Zone) -> Segment:
    """The user's message with its date and time (SPEC W3)."""
    user = turn.user
    text = f"{user.text}\n\n{time_suffix(user.sent_at, user.timezone)}"
    messages = (PromptMessage("user", (Text(text),)),)
    return Segment(
        id=f"{turn.id}/user",
        kind=Kind.USER,
        zone=zone,
        lifetime=Lifetime.SESSION,
        source=user.id,
        owner="user",
        label=f"Question {number}",
        letters=f"U{number}",
        tokens=user.tokens + 24,
        digest=content_digest(messages),
        messages=messages,
    )


def step_segment(step: Step, number: int, zone: Zone, *, with_thinking: bool) -> Segment | None:
    """An answer and the results of its calls; None when nothing of it can be shown to a model."""
    parts = sendable_parts(step, with_thinking=with_thinking)
    if not parts:
        return None
    calls = step.calls
    messages = [PromptMessage("assistant", parts)]
    if calls:
        messages.append(PromptMessage("tool", results_of(step)))
    return Segment(
        id=step.id,
        kind=Kind.STEP,
        zone=zone,
        lifetime=Lifetime.SESSION,
        source=step.id,
        owner=f"model:{step.model}",
        label="Calls " + ", ".join(call.name for call in calls) if calls else f"Answer {number}",
        letters="TC TR" if calls else f"A{number}",
        tokens=step.tokens + 8,
        digest=content_digest(messages),
        messages=tuple(messages),
    )


def sendable_parts(step: Step, *, with_thinking: bool) -> tuple[AnswerPart, ...]:
    """What of an answer may be sent back: no empty text, no thinking without a seal or with nothing behind it."""
    parts = [part for part in step.parts if _sendable(part, with_thinking)]
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    return tuple(parts)


def _sendable(part: AnswerPart, with_thinking: bool) -> bool:
    match part:
        case Text(text):
            return bool(text.strip())
        case Reasoning(_, signature, redacted):
            return with_thinking and bool(signature or redacted)
        case ToolCall():
            return True
        case _:
            assert_never(part)


def results_of(step: Step) -> tuple[ToolResult, ...]:
    """Exactly one result for each call, in the order of the calls; a missing one reads "interrupted" (law 5)."""
    given = {result.call_id: result for result in step.results}
    return tuple(
        given.get(call.id) or ToolResult(call.id, call.name, INTERRUPTED, is_error=True) for call in step.calls
    )


def _reminder_id(turn: Turn, index: int) -> str:
    """The id of the reminder that stays before step `index` of a turn."""
    return f"{turn.id}/reminder{index}"


def reminder_segment(text: str, id: str, zone: Zone, lifetime: Lifetime) -> Segment:
    """A reminder: a user message that says it is not the user's (SPEC O8)."""
    messages = (PromptMessage("user", (Text(f"{REMINDER_OPEN}\n{text}\n{REMINDER_CLOSE}"),)),)
    return Segment(
        id=id,
        kind=Kind.REMINDER,
        zone=zone,
        lifetime=lifetime,
        source="reminders",
        owner="deployment",
        label="Reminder",
        letters="R",
        tokens=len(text) // 4 + 12,
        digest=content_digest(messages),
        messages=messages,
    )
