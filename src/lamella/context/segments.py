"""The text of each kind of segment. Everything that a model reads is written here."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from lamella.context.documents import files_message, frame_of, key_of, listed_picture, parts_tokens, picture_parts
from lamella.context.results import expanded, results_of, said_tokens
from lamella.context.system_prompt import STEP_SECTIONS, StepView, step_text, time_suffix
from lamella.core.agents import Agent, Project, Summary
from lamella.core.counting import MESSAGE_TOKENS, count_tokens
from lamella.core.json import digest, encode
from lamella.core.knowledge import bases_of_steps
from lamella.core.messages import (
    AnswerPart,
    Attachment,
    Image,
    Part,
    Reasoning,
    Step,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, PromptMessage, Role, Segment, ToolSpec, Zone

REMINDER_OPEN, REMINDER_CLOSE = "<system-reminder>", "</system-reminder>"
CUT_OFF = {
    StopReason.USER_CANCELLED: "The user stopped the answer above before it was finished.",
    StopReason.INTERRUPTED: "The answer above was cut off before it was finished.",
    StopReason.ERROR: "The answer above was cut off before it was finished.",
    StopReason.MAX_TOKENS: "The answer above reached the limit of its length before it was finished.",
}
"""Follows an answer that was cut off, so that the model does not take its end for its own choice."""
SUMMARY_OPEN, SUMMARY_CLOSE = "<conversation-summary>", "</conversation-summary>"

WITHDRAWN = "The context that was given above, such as who the user is and what may be used, no longer applies."
"""Withdraws dynamic context that is still in the window."""


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """The place of a segment, and how long it stays."""

    zone: Zone
    lifetime: Lifetime


FIXED = SegmentPlace(Zone.FIXED, Lifetime.SESSION)


def content_digest(messages: Sequence[PromptMessage]) -> str:
    """The fingerprint of messages, thinking left out: a provider may drop old thinking without a change of prefix."""
    return digest(encode([(message.role, _shown(message)) for message in messages]))


def _shown(message: PromptMessage) -> Sequence[object]:
    """The parts of a message in its fingerprint: the text that a model reads; an image by its own fingerprint."""
    return [_fingerprint(part) for part in message.parts if not isinstance(part, Reasoning)]


def _fingerprint(part: Part) -> object:
    match part:
        case ToolResult(call_id, name, content, is_error):
            return ("result", call_id, name, content, is_error)
        case Image(file_id, digest=fingerprint):
            return ("image", file_id, fingerprint)
        case _:
            return part


# What stands for the whole session


def tools_segment(tools: Sequence[ToolSpec], model: ModelFacts) -> Segment:
    """The tool list, sorted by name so that its order is stable. Tokens that the provider adds are counted."""
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
        tokens=len(text) // 4 + int(model.tool_prompt / model.token_factor),
        digest=digest(text),
        tools=ordered,
    )


@dataclass(frozen=True, slots=True)
class _Named:
    """The label of a segment in the map of a request. Without `source`, the source has the segment's id."""

    id: str
    kind: Kind
    owner: str
    label: str
    letters: str
    source: str = ""
    made_from: frozenset[str] = frozenset()


def _text_segment(
    named: _Named, text: str, place: SegmentPlace, *, role: Role = "user", tokens: int | None = None
) -> Segment:
    """A segment of one message of one text; without `tokens`, local ones are counted."""
    counted = count_tokens(text) + MESSAGE_TOKENS if tokens is None else tokens
    return _segment(named, (PromptMessage(role, (Text(text),)),), place, counted)


def _segment(named: _Named, messages: tuple[PromptMessage, ...], place: SegmentPlace, tokens: int) -> Segment:
    return Segment(
        id=named.id,
        kind=named.kind,
        zone=place.zone,
        lifetime=place.lifetime,
        source=named.source or named.id,
        owner=named.owner,
        label=named.label,
        letters=named.letters,
        tokens=tokens,
        digest=content_digest(messages),
        messages=messages,
        made_from=named.made_from,
    )


def system_segment(text: str) -> Segment:
    """The system prompt."""
    named = _Named("system", Kind.SYSTEM, "deployment", "System prompt", "S", "system_prompt")
    return _text_segment(named, text, FIXED, role="system")


def sections_segment(view: StepView, lifetime: Lifetime) -> Segment | None:
    """The sections of the system prompt that are written for each step. Returns None if there are none."""
    text = step_text(view, STEP_SECTIONS)
    if not text:
        return None
    named = _Named("sections", Kind.SECTIONS, "deployment", "Date, tools and citations", "")
    return _text_segment(named, text, SegmentPlace(Zone.FIXED, lifetime), role="system")


def agent_segment(agent: Agent, place: SegmentPlace) -> Segment:
    """The prompt of a custom agent: system text if it is fixed, else a user message."""
    role: Role = "system" if place.zone is Zone.FIXED else "user"
    named = _Named(agent.id, Kind.AGENT, "user", f"Agent {agent.name}", "CA")
    return _text_segment(named, agent.prompt, place, role=role)


def project_segment(project: Project, listed: Set[str], place: SegmentPlace, model: ModelFacts) -> Segment | None:
    """A project's pictures, instructions and documents as one message. Returns None for an empty project.

    The instructions and the names of all files are always included, even if the files do not fit.
    """
    parts = [part for file in project.files for part in _project_picture(file, listed, model)]
    tokens = parts_tokens(tuple(parts), model)
    texts = [f"Instructions of the project “{project.name}”:\n{project.instructions}"] if project.instructions else []
    tokens += count_tokens(project.instructions) + MESSAGE_TOKENS if project.instructions else 0
    documents = [file for file in project.files if file.image is None]
    if documents:
        texts.append(files_message(documents, listed))
        tokens += documents_tokens(documents, listed)
    parts += [Text("\n\n".join(texts))] if texts else []
    if not parts:
        return None
    named = _Named(project.id, Kind.PROJECT, "user", f"Project {project.name}", "P")
    return _segment(named, (PromptMessage("user", tuple(parts)),), place, tokens if texts else tokens + MESSAGE_TOKENS)


def _project_picture(file: Attachment, listed: Set[str], model: ModelFacts) -> tuple[Part, ...]:
    if file.image is None:
        return ()
    stand = listed_picture if key_of(file) in listed else picture_parts
    return stand(file, file.image, model)


def documents_tokens(attachments: Sequence[Attachment], listed: Set[str]) -> int:
    """Local tokens of documents and their frames. Those whose key is in `listed` count without text."""
    included = [a for a in attachments if a.text is not None and key_of(a) not in listed]
    return sum(a.tokens for a in included) + count_tokens(frame_of(attachments, listed)) + MESSAGE_TOKENS


def summary_segment(summary: Summary) -> Segment:
    """The summary of an earlier session: a user message that says so."""
    made_from = frozenset(summary.made_from)
    named = _Named(summary.id, Kind.SUMMARY, "engine", "Summary of an earlier session", "Σ", made_from=made_from)
    text = f"{SUMMARY_OPEN}\n{summary.text}\n{SUMMARY_CLOSE}"
    return _text_segment(named, text, FIXED, tokens=summary.tokens + 2 * MESSAGE_TOKENS)


# What a turn is made of


def files_segment(turn: Turn, listed: Set[str], zone: Zone) -> Segment:
    """All files of a turn: one user message before the user's own."""
    attachments = turn.user.files
    label = "Files: " + ", ".join(a.title for a in attachments)
    source = ",".join(a.file_id for a in attachments)
    named = _Named(f"{turn.id}/files", Kind.FILES, "user", label, "F", source)
    place = SegmentPlace(zone, Lifetime.SESSION)
    return _text_segment(named, files_message(attachments, listed), place, tokens=documents_tokens(attachments, listed))


def user_segment(turn: Turn, number: int, zone: Zone, model: ModelFacts) -> Segment:
    """The user's message with its date and time, its pictures before it, each after its name."""
    user = turn.user
    text = f"{user.text}\n\n{time_suffix(user.sent_at, user.timezone)}"
    tokens = user.tokens + 24
    parts: tuple[Part, ...] = (Text(text),)
    if user.images:
        shown = [picture_parts(a, a.image, model) for a in user.attachments if a.image is not None]
        parts = (*(part for picture in shown for part in picture), *parts)
        tokens += sum(parts_tokens(picture, model) for picture in shown)
    messages = (PromptMessage("user", parts),)
    return Segment(
        id=f"{turn.id}/user",
        kind=Kind.USER,
        zone=zone,
        lifetime=Lifetime.SESSION,
        source=user.id,
        owner="user",
        label=f"Question {number}",
        letters=f"U{number}",
        tokens=tokens,
        digest=content_digest(messages),
        messages=messages,
    )


def dynamic_id(turn: Turn) -> str:
    """The name of the segment with a turn's dynamic context."""
    return f"{turn.id}/dynamic"


def dynamic_segment(turn: Turn, place: SegmentPlace) -> Segment:
    """The dynamic context of a turn, or the word that the earlier one no longer holds."""
    made_from = frozenset(turn.user.made_from)
    named = _Named(dynamic_id(turn), Kind.DYNAMIC, "deployment", "Dynamic context", "D", made_from=made_from)
    return _text_segment(named, turn.user.dynamic or WITHDRAWN, place)


def step_segment(
    step: Step,
    number: int,
    place: SegmentPlace,
    instead: tuple[ToolResult, ...] | None,
    *,
    stubbed: bool,
    with_thinking: bool,
) -> Segment | None:
    """An answer, then the results of its calls or the replacement in `instead`. Returns None if it is empty.

    `stubbed`: the replacements are stubs or notices, not cut results.
    """
    parts = sendable_parts(step, with_thinking=with_thinking)
    if not parts:
        return None
    calls = step.calls
    messages = [PromptMessage("assistant", parts)]
    tokens = MESSAGE_TOKENS + step.tokens
    # What the limit broke off in the middle of a call goes on: the call's result says so.
    goes_on = calls and step.stop_reason is StopReason.MAX_TOKENS
    cut_off = CUT_OFF.get(step.stop_reason) if not goes_on else None
    if calls:
        shown = instead if instead is not None else results_of(step)
        messages.append(PromptMessage("tool", shown))
        if instead is not None:
            tokens = MESSAGE_TOKENS + said_tokens(step) + sum(count_tokens(result.content) for result in shown)
    if cut_off is not None:
        note = f"{REMINDER_OPEN}\n{cut_off}\n{REMINDER_CLOSE}"
        messages.append(PromptMessage("user", (Text(note),)))
        tokens += MESSAGE_TOKENS + count_tokens(note)
    return Segment(
        id=step.id,
        kind=Kind.STEP,
        zone=place.zone,
        lifetime=place.lifetime,
        source=step.id,
        owner=f"model:{step.model}",
        label="Calls " + ", ".join(call.name for call in calls) if calls else f"Answer {number}",
        letters=("TC tr" if stubbed else "TC TR") if calls else f"A{number}",
        tokens=tokens,
        digest=content_digest(messages),
        messages=tuple(messages),
        made_from=bases_of_steps([step]),
    )


def sendable_parts(step: Step, *, with_thinking: bool) -> tuple[AnswerPart, ...]:
    """The parts of an answer that may be sent back: no empty text, no thinking without a seal, none at the end.

    A call shows every query that ran for it.
    """
    parts = [
        expanded(part, step) if isinstance(part, ToolCall) else part
        for part in step.parts
        if _sendable(part, with_thinking)
    ]
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    return tuple(parts)


def _sendable(part: AnswerPart, with_thinking: bool) -> bool:
    if isinstance(part, Text):
        return bool(part.text) and not part.text.isspace()
    if isinstance(part, Reasoning):
        return with_thinking and bool(part.signature or part.redacted)
    return True


def reminder_segment(text: str, id: str, place: SegmentPlace, role: Role) -> Segment:
    """A reminder: a message that says that it is not from the user, in any role."""
    named = _Named(id, Kind.REMINDER, "deployment", "Reminder", "R", "reminders")
    return _text_segment(named, f"{REMINDER_OPEN}\n{text}\n{REMINDER_CLOSE}", place, role=role)
