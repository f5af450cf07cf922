"""What each kind of segment looks like: the one place where what a model reads is written (DESIGN 2)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from lamella.context.documents import files_message, key_of
from lamella.context.moments import date_line, time_suffix
from lamella.core.agents import Agent, Project, Summary
from lamella.core.json import digest, encode
from lamella.core.messages import AnswerPart, Part, Reasoning, Step, Text, ToolCall, ToolResult, Turn
from lamella.core.prompt import Kind, Lifetime, PromptMessage, Role, Segment, ToolSpec, Zone

INTERRUPTED = "This call was interrupted; it has no result."
NO_LONGER_THERE = "The result of this call is no longer available. Call the tool again if it is needed."
"""What stands for every tool result of an earlier turn in layout `onyx` (SPEC O9)."""

REMINDER_OPEN, REMINDER_CLOSE = "<system-reminder>", "</system-reminder>"


def content_digest(messages: Sequence[PromptMessage]) -> str:
    """The fingerprint of messages, thinking left out: a provider may drop old thinking without a change of prefix."""
    return digest(encode([(message.role, _shown(message)) for message in messages]))


def _shown(message: PromptMessage) -> Sequence[Part]:
    """What of a message is in its fingerprint; only answers have thinking."""
    if message.role != "assistant":
        return message.parts
    return [part for part in message.parts if not isinstance(part, Reasoning)]


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
    included = [a for a in attachments if a.text is not None and key_of(a) not in listed]
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


def step_segment(
    step: Step,
    number: int,
    zone: Zone,
    instead: tuple[ToolResult, ...] | None,
    *,
    with_thinking: bool,
    lifetime: Lifetime,
) -> Segment | None:
    """An answer and, behind its calls, its results or what is shown `instead`; None when there is nothing to show."""
    parts = sendable_parts(step, with_thinking=with_thinking)
    if not parts:
        return None
    calls = step.calls
    messages = [PromptMessage("assistant", parts)]
    if calls:
        messages.append(PromptMessage("tool", results_of(step) if instead is None else instead))
    return Segment(
        id=step.id,
        kind=Kind.STEP,
        zone=zone,
        lifetime=lifetime,
        source=step.id,
        owner=f"model:{step.model}",
        label="Calls " + ", ".join(call.name for call in calls) if calls else f"Answer {number}",
        letters=("TC TR" if instead is None else "TC tr") if calls else f"A{number}",
        tokens=8 + (step.tokens if instead is None else _said(step) + sum(len(r.content) // 4 for r in instead)),
        digest=content_digest(messages),
        messages=tuple(messages),
    )


def _said(step: Step) -> int:
    """Local tokens of a step without its results, from the count of the whole and the share of its letters."""
    results = sum(len(result.content) for result in step.results)
    said = sum(len(part.arguments if isinstance(part, ToolCall) else part.text) for part in step.parts)
    return step.tokens * said // (said + results) if said + results else step.tokens


def sendable_parts(step: Step, *, with_thinking: bool) -> tuple[AnswerPart, ...]:
    """What of an answer may be sent back: no empty text, no thinking without a seal or with nothing behind it."""
    parts = [part for part in step.parts if _sendable(part, with_thinking)]
    while parts and isinstance(parts[-1], Reasoning):
        parts.pop()
    return tuple(parts)


def _sendable(part: AnswerPart, with_thinking: bool) -> bool:
    if isinstance(part, Text):
        return bool(part.text) and not part.text.isspace()
    if isinstance(part, Reasoning):
        return with_thinking and bool(part.signature or part.redacted)
    return True


def results_of(step: Step) -> tuple[ToolResult, ...]:
    """Exactly one result for each call, in the order of the calls; a missing one reads "interrupted" (law 5)."""
    given = {result.call_id: result for result in step.results}
    return tuple(
        given.get(call.id) or ToolResult(call.id, call.name, INTERRUPTED, is_error=True) for call in step.calls
    )


def stubs_of(step: Step) -> tuple[ToolResult, ...]:
    """Each result as the bare name of its function; call id, name and arguments stay (SPEC L8)."""
    return tuple(ToolResult(call.id, call.name, call.name) for call in step.calls)


def notices_of(step: Step) -> tuple[ToolResult, ...]:
    """Each result as the fixed string (SPEC O9)."""
    return tuple(ToolResult(call.id, call.name, NO_LONGER_THERE) for call in step.calls)


def _text_segment(
    id: str,
    kind: Kind,
    role: Role,
    text: str,
    tokens: int,
    *,
    zone: Zone,
    lifetime: Lifetime,
    labels: tuple[str, str, str],
) -> Segment:
    """A segment of one text; `labels` are owner, label and letters."""
    messages = (PromptMessage(role, (Text(text),)),)
    owner, label, letters = labels
    return Segment(id, kind, zone, lifetime, id, owner, label, letters, tokens, content_digest(messages), messages)


def sections_segment(turn: Turn, tools: Sequence[ToolSpec], *, searched: bool, lifetime: Lifetime) -> Segment:
    """The dynamic sections of the system prompt in layout `onyx`: date, tools of this step, citations (SPEC O1)."""
    parts = [f"# Date\n{date_line(turn.user.sent_at)}"]
    if tools:
        guidance = "\n".join(f"- {tool.name}: {_first_sentence(tool.description)}" for tool in sorted(tools, key=_name))
        parts.append(f"# Tools of this step\n{guidance}\n{MORE_TOOLS}")
    if searched:
        parts.append(f"# Citations\n{CITE}")
    text = "\n\n".join(parts)
    labels = ("deployment", "Date, tools and citations", "")
    return _text_segment(
        "sections", Kind.SECTIONS, "system", text, len(text) // 4, zone=Zone.FIXED, lifetime=lifetime, labels=labels
    )


MORE_TOOLS = "If you used tools and find that you need more information, or need to call others, you are encouraged to."
CITE = "Put the number of each document that a statement rests on in square brackets behind the statement, such as [1]."


def _name(tool: ToolSpec) -> str:
    return tool.name


def _first_sentence(text: str) -> str:
    return text.split(". ", 1)[0].rstrip(".") + "." if text else ""


def agent_segment(agent: Agent, role: Role, zone: Zone, lifetime: Lifetime) -> Segment:
    """The prompt of a custom agent (SPEC O2)."""
    labels = ("user", f"Agent {agent.name}", "CA")
    tokens = len(agent.prompt) // 4 + 8
    return _text_segment(agent.id, Kind.AGENT, role, agent.prompt, tokens, zone=zone, lifetime=lifetime, labels=labels)


def project_segment(project: Project, listed: Set[str], zone: Zone, lifetime: Lifetime) -> Segment | None:
    """A project's instructions and documents as one message; None for an empty project (SPEC O4, O6)."""
    parts = [f"Instructions of the project “{project.name}”:\n{project.instructions}"] if project.instructions else []
    if project.files:
        parts.append(files_message(project.files, listed))
    if not parts:
        return None
    tokens = project_tokens(project, listed)
    labels = ("user", f"Project {project.name}", "P")
    text = "\n\n".join(parts)
    return _text_segment(project.id, Kind.PROJECT, "user", text, tokens, zone=zone, lifetime=lifetime, labels=labels)


def project_tokens(project: Project, listed: Set[str]) -> int:
    """Local tokens of a project in the window."""
    included = [file for file in project.files if file.text is not None and key_of(file) not in listed]
    return sum(file.tokens for file in included) + 40 * len(project.files) + len(project.instructions) // 4


def summary_segment(summary: Summary) -> Segment:
    """The summary of an earlier session: a user message that says what it is (SPEC L4)."""
    text = f"{SUMMARY_OPEN}\n{summary.text}\n{SUMMARY_CLOSE}"
    return _text_segment(
        summary.id,
        Kind.SUMMARY,
        "user",
        text,
        summary.tokens + 16,
        zone=Zone.FIXED,
        lifetime=Lifetime.SESSION,
        labels=("engine", "Summary of an earlier session", "Σ"),
    )


SUMMARY_OPEN, SUMMARY_CLOSE = "<conversation-summary>", "</conversation-summary>"


def dynamic_segment(turn: Turn, zone: Zone, lifetime: Lifetime) -> Segment:
    """The dynamic context of a turn: one user message (SPEC W2, W4)."""
    text, id = turn.user.dynamic, f"{turn.id}/dynamic"
    labels = ("deployment", "Dynamic context", "D")
    return _text_segment(
        id, Kind.DYNAMIC, "user", text, len(text) // 4 + 8, zone=zone, lifetime=lifetime, labels=labels
    )


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
