"""Bodies that come in, and rows as clients see them (API.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeGuard, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lamella.app.app import App
from lamella.app.request_map import MappedSegment
from lamella.cache.difference import Difference
from lamella.cache.unread import Unread
from lamella.cache.why import Why
from lamella.chat import Message, Patience, Queued
from lamella.chat.waiting import Words, sent_of
from lamella.context.choices import MARGIN
from lamella.context.layout import Layout
from lamella.core.effort import effort_named, tokens_of
from lamella.core.packets import UsageBody
from lamella.core.records import (
    LEAVE,
    Branch,
    Choices,
    Conversation,
    File,
    Notice,
    NoticeKind,
    Page,
    ProjectContent,
    RequestRecord,
    RunRecord,
    StoredAgent,
    StoredDecision,
    StoredProject,
    SystemPrompt,
    TurnOnPath,
    TurnRecord,
)
from lamella.core.sessions import Session
from lamella.core.tokens import Usage
from lamella.sessions.efforts import EffortChoice
from lamella.sessions.sessions import SessionView

Title = Annotated[str, StringConstraints(max_length=200)]
Id = Annotated[str, StringConstraints(max_length=80)]
Effort = Annotated[str, StringConstraints(max_length=20)] | Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A thinking effort: off, a level, or tokens as a number or its digits."""


class Body(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewConversationBody(Body):
    """`POST /api/v1/conversations`."""

    title: Title = ""
    model: Id | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    agent_id: Id | None = None
    project_id: Id | None = None
    thinking_effort: Effort | None = None


class ConversationPatch(Body):
    """`PATCH /api/v1/conversations/{id}`; null lets agent, project and effort go, and leaves all else."""

    title: Title | None = None
    model: Id | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    system_prompt_version: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    agent_id: Id | None = None
    project_id: Id | None = None
    thinking_effort: Effort | None = None


class MessageBody(Body):
    """What a message is made of. `agent_id` null is no agent for this turn; left out, it is the conversation's."""

    text: str
    file_ids: list[Id] = Field(default_factory=list)
    timezone: Annotated[str, StringConstraints(max_length=80)] = "UTC"
    dynamic_context: Annotated[list[str], Field(max_length=20)] = Field(default_factory=list)
    layout: Id | None = None
    marker_policy: Id | None = None
    agent_id: Id | None = None
    thinking_effort: Effort | None = None
    knowledge_base_ids: Annotated[list[Id], Field(max_length=20)] = Field(default_factory=list)


class NewTurnBody(MessageBody):
    """`POST /api/v1/conversations/{id}/turns`. `queue` false: answered now or refused. `debounce_ms`: in place of the
    setting; 0 answers at once, with what waits already. `parent_message_id` is what it follows: null for the beginning,
    left out for where the conversation stands. `regenerate` is a turn to ask again, in place of a text.
    """

    text: str = ""
    models: Annotated[list[Id], Field(min_length=1, max_length=3)] | None = None
    parent_message_id: Id | None = None
    regenerate: Id | None = None
    queue: bool = True
    debounce_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None

    def patience(self) -> Patience:
        """How long the message may wait."""
        return Patience(self.queue, None if self.debounce_ms is None else self.debounce_ms / 1000)


class CommandBody(Body):
    """`POST /api/v1/conversations/{id}/commands`."""

    text: Annotated[str, StringConstraints(max_length=4000)]
    queue: bool = True


class QueuedPatch(Body):
    """`PATCH /api/v1/conversations/{id}/queue/{message_id}`."""

    text: str


class CompactBody(Body):
    """`POST /api/v1/conversations/{id}/compact`."""

    focus: Annotated[str, StringConstraints(max_length=2000)] = ""


class PreviewBody(MessageBody):
    """`POST /api/v1/context/preview`."""

    conversation_id: Id
    model: Id | None = None


def _names_parent(body: NewTurnBody | PreviewBody) -> TypeGuard[NewTurnBody]:
    return isinstance(body, NewTurnBody) and "parent_message_id" in body.model_fields_set


class PreferBody(Body):
    """`POST /api/v1/turns/{id}/prefer`. `run_id` left out is the answer that is followed there; `latest`: go on to the
    newest turn that came after it.
    """

    run_id: Id | None = None
    latest: bool = False


def message_of(body: NewTurnBody | PreviewBody) -> Message:
    """The message of a body."""
    models = ([body.model] if body.model else []) if isinstance(body, PreviewBody) else body.models
    agent_id = body.agent_id if "agent_id" in body.model_fields_set else LEAVE
    return Message(
        text=body.text,
        file_ids=tuple(body.file_ids),
        timezone=body.timezone,
        models=tuple(models or ()),
        parent_message_id=body.parent_message_id if _names_parent(body) else LEAVE,
        dynamic=tuple(body.dynamic_context),
        choices=Choices(
            body.layout,
            body.marker_policy,
            agent_id,
            effort_given(body.thinking_effort),
            tuple(body.knowledge_base_ids),
        ),
    )


def effort_given(effort: str | int | None) -> str | None:
    """The effort of a body in its one spelling; raises `InvalidRequest`."""
    return effort_named(effort) if effort is not None else None


Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Names = Annotated[list[Id], Field(max_length=200)]
FileIds = Annotated[list[Id], Field(max_length=1000)]


class NewAgent(Body):
    """`POST /api/v1/agents`."""

    name: Name
    prompt: str
    reminder: str = ""
    replaces_system: bool = False
    tools: Names | None = None
    model: Id | None = None
    layout: Id | None = None
    thinking_effort: Effort | None = None
    fallback_model: Id | None = None

    def given(self) -> Json:
        """The fields, as `Agent` has them."""
        return _agent_fields(self.model_dump())


class AgentPatch(Body):
    """`PATCH /api/v1/agents/{id}`; what is left out stays."""

    name: Name = ""
    prompt: str = ""
    reminder: str = ""
    replaces_system: bool = False
    tools: Names | None = None
    model: Id | None = None
    layout: Id | None = None
    thinking_effort: Effort | None = None
    fallback_model: Id | None = None

    def given(self) -> Json:
        """The fields that were sent, as `Agent` has them."""
        return _agent_fields(self.model_dump(exclude_unset=True))


def _agent_fields(sent: Json) -> Json:
    tools = {"tools": tuple(sent["tools"])} if sent.get("tools") is not None else {}
    return sent | tools | effort_field(sent)


def effort_field(sent: Json) -> Json:
    """The effort that was sent, if any, in its one spelling."""
    return {"thinking_effort": effort_given(sent["thinking_effort"])} if "thinking_effort" in sent else {}


class NewProject(Body):
    """`POST /api/v1/projects`."""

    name: Name
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)


class ProjectPatch(Body):
    """`PATCH /api/v1/projects/{id}`; what is left out stays, `file_ids` is the whole list."""

    name: Name = ""
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)

    def edit(self, now: ProjectContent) -> ProjectContent:
        """The project with what was sent."""
        sent = self.model_dump(exclude_unset=True)
        if "file_ids" in sent:
            sent["file_ids"] = tuple(sent["file_ids"])
        return replace(now, **sent)


class ProjectFile(Body):
    """`POST /api/v1/projects/{id}/files`."""

    file_id: Id


class NewSystemPrompt(Body):
    """`POST /api/v1/system-prompts`."""

    text: str
    note: Annotated[str, StringConstraints(max_length=1000)] = ""


class PageParameters(BaseModel):
    """The query of a list."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=80)
    order: Literal["asc", "desc"] = "desc"


Json = dict[str, Any]
ItemT = TypeVar("ItemT")


def list_json(page: Page[ItemT], shape: Callable[[ItemT], Json], key: str = "id") -> Json:
    """A page of a list; `key` names the field that the next page's `after` takes."""
    return _list([shape(item) for item in page.data], key, has_more=page.has_more)


def whole_list_json(data: list[Json], key: str = "id") -> Json:
    """A list that is always given whole."""
    return _list(data, key, has_more=False)


def _list(data: list[Json], key: str, *, has_more: bool) -> Json:
    first, last = (str(data[0][key]), str(data[-1][key])) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more}


def conversation_json(conversation: Conversation) -> Json:
    """A conversation."""
    return {
        "id": conversation.id,
        "object": "conversation",
        "title": conversation.title,
        "titled_by": conversation.titled_by,
        "model": conversation.model,
        "layout": conversation.layout,
        "marker_policy": conversation.marker_policy,
        "agent_id": conversation.agent_id,
        "project_id": conversation.project_id,
        "system_prompt_version": conversation.system_prompt_version,
        "thinking_effort": conversation.thinking_effort,
        "created_at": conversation.created_at.isoformat(),
        "updated_at": conversation.updated_at.isoformat(),
        "running_turn": conversation.running_turn,
        "head": conversation.head,
        "head_run_id": conversation.head_run_id,
    }


def effort_json(choice: EffortChoice) -> Json:
    """A thinking effort to choose: what the model is asked of it, and what changing to it loses of the cache now.

    Of `asked` one is set: a level, a budget in tokens, or `without`; none of them: nothing is said to the model.
    """
    asked = choice.asked
    return {
        "object": "effort",
        "name": choice.effort,
        "tokens": tokens_of(choice.effort),
        "current": choice.current,
        "asked": {"level": asked.level, "budget": asked.budget or None, "without": asked.without},
        "note": asked.note or None,
        "cache_lost": unread_json(choice.lost),
    }


def unread_json(lost: Unread | None) -> Json | None:
    """What the next request can't read any more: from which level on, about how many tokens, at which cost (USD)."""
    return {"level": lost.level, "tokens": lost.tokens, "cost": lost.cost} if lost is not None else None


def decision_json(stored: StoredDecision) -> Json:
    """A decision; `first_changed` is the segment from which on the window is another, if any."""
    decision = stored.decision
    return {
        "id": stored.id,
        "object": "decision",
        "at": stored.at.isoformat(),
        "kind": decision.kind.value,
        "subject": decision.subject,
        "outcome": decision.outcome,
        "who": decision.who,
        "why": decision.why,
        "numbers": dict(decision.numbers),
        "first_changed": decision.first_changed,
    }


def notice_json(notice: Notice) -> Json:
    """A command with its answer, or a notification; it stands behind the turn `turn_id`."""
    shared = {
        "id": notice.id,
        "conversation_id": notice.conversation_id,
        "turn_id": notice.turn_id,
        "data": dict(notice.data),
        "at": notice.at.isoformat(),
    }
    if notice.kind is NoticeKind.COMMAND:
        return shared | {
            "object": "command",
            "name": notice.name,
            "argument": notice.argument,
            "answer": notice.text,
        }
    return shared | {"object": "notification", "name": notice.kind.value, "text": notice.text}


def queued_json(queued: Queued) -> Json:
    """A message or command of the queue; `place` counts from 1, null when it waits no more."""
    row, sent = queued.row, sent_of(queued.row)
    words = sent if isinstance(sent, Words) else None
    return {
        "id": row.id,
        "object": "queued_message",
        "conversation_id": row.conversation_id,
        "kind": "message" if words else "command",
        "place": queued.place or None,
        "sender": row.sender,
        "text": row.text,
        "file_ids": list(words.file_ids) if words else [],
        "model": words.models[0] if words else None,
        "models": list(words.models) if words else [],
        "sent_at": row.sent_at.isoformat(),
        "timezone": row.timezone,
        "due_at": words.due.isoformat() if words else None,
        "status": row.status.value,
        "turn_id": row.turn_id,
    }


def session_json(session: Session, view: SessionView) -> Json:
    """A session; `numbers` are the figures of the compaction that opened it, in tokens.

    `check` says how its summary compares with what it stands for, and who made it.
    """
    return {
        "id": session.id,
        "object": "session",
        "conversation_id": session.conversation_id,
        "number": session.number,
        "current": session.id == view.current.id,
        "parent_id": session.parent_id,
        "begins_after": session.begins_after,
        "inherits": session.inherits,
        "opened_at": session.opened_at.isoformat(),
        "opened_by": session.opened_by.value,
        "closed_at": session.closed_at.isoformat() if session.closed_at else None,
        "closed_by": session.closed_by.value if session.closed_by else None,
        "why": session.why,
        "summary": session.summary,
        "summary_tokens": session.summary_tokens,
        "check": dict(session.check),
        "messages": view.messages.get(session.id, 0),
        "numbers": dict(view.numbers.get(session.id, {})),
        "usage": {purpose: usage_json(usage) for purpose, usage in session.usage.items()},
    }


def agent_json(stored: StoredAgent) -> Json:
    """An agent."""
    agent = stored.agent
    return {
        "id": agent.id,
        "object": "agent",
        "name": agent.name,
        "prompt": agent.prompt,
        "reminder": agent.reminder,
        "replaces_system": agent.replaces_system,
        "tools": None if agent.tools is None else list(agent.tools),
        "model": agent.model,
        "layout": agent.layout,
        "thinking_effort": agent.thinking_effort,
        "fallback_model": agent.fallback_model,
        "revision": agent.revision,
        "created_at": stored.created_at.isoformat(),
        "updated_at": stored.updated_at.isoformat(),
    }


def project_json(project: StoredProject) -> Json:
    """A project; `tokens` are those of its files."""
    return {
        "id": project.id,
        "object": "project",
        "name": project.name,
        "instructions": project.instructions,
        "files": [
            {
                "id": file.id,
                "name": file.name,
                "media_type": file.media_type,
                "tokens": file.tokens,
                "status": file.status,
            }
            for file in project.files
        ],
        "tokens": sum(file.tokens for file in project.files),
        "revision": project.revision,
        "created_at": project.created_at.isoformat(),
        "updated_at": project.updated_at.isoformat(),
    }


def system_prompt_json(prompt: SystemPrompt, shipped: str) -> Json:
    """A version of the system prompt; `shipped` says whether its text is the one that ships."""
    return {
        "object": "system_prompt",
        "version": prompt.version,
        "text": prompt.text,
        "note": prompt.note,
        "shipped": prompt.text == shipped,
        "created_at": prompt.created_at.isoformat() if prompt.created_at else None,
    }


def layout_json(layout: Layout) -> Json:
    """A layout as its table, in the order of the window."""
    return {
        "object": "layout",
        "name": layout.name,
        "description": layout.description,
        "slots": [
            {
                "kind": slot.kind.value,
                "zone": slot.zone.value,
                "lifetime": slot.lifetime.value,
                "when_changed": slot.when_changed,
            }
            for slot in layout.slots
        ],
        "old_results": layout.old_results.value,
        "markers": layout.markers,
    }


def usage_json(usage: Usage) -> Json:
    """Tokens, measured unless they are marked as `estimated`; `input` is the whole prompt."""
    body: Json = msgspec.to_builtins(UsageBody.of(usage))
    return body


def run_json(run: RunRecord) -> Json:
    """One model's answer; `message_id` is its last message, which a turn can follow, `stop_reason` why that ended."""
    return {
        "id": run.id,
        "object": "run",
        "model_index": run.index,
        "model": run.model,
        "status": run.status.value,
        "message_id": run.steps[-1].id if run.steps else None,
        "answer": run.answer,
        "stop_reason": run.steps[-1].stop_reason.value if run.steps else None,
        "error": dict(run.error) if run.error else None,
        "usage": usage_json(run.usage),
        "cost": run.cost,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
    }


def turn_json(turn: TurnRecord) -> Json:
    """A turn; its answer is told by its packets, and summed up in `answer`."""
    return {
        "id": turn.id,
        "object": "turn",
        "conversation_id": turn.conversation_id,
        "parent_id": turn.parent.turn_id,
        "parent_run_id": turn.parent.run_id,
        "status": turn.status.value,
        "model": turn.model,
        "user_message_id": turn.user_message_id,
        "text": turn.text,
        "sent_at": turn.sent_at.isoformat(),
        "timezone": turn.timezone,
        "documents": [
            {
                "document": a.document,
                "file_id": a.file_id,
                "title": a.title,
                "media_type": a.media_type,
                "size": a.size,
                "tokens": a.tokens,
                "reason": a.reason,
            }
            for a in turn.attachments
        ],
        "answer": turn.run.answer,
        "runs": [run_json(run) for run in turn.runs],
        "error": dict(turn.error) if turn.error else None,
        "usage": usage_json(turn.usage),
        "cost": turn.cost,
        "started_at": turn.started_at.isoformat(),
        "finished_at": turn.finished_at.isoformat() if turn.finished_at else None,
    }


def path_turn_json(found: TurnOnPath) -> Json:
    """A turn of the current path: `run_id` is the answer that is followed, `siblings` follow the same as it does."""
    return turn_json(found.turn) | {"run_id": found.run_id, "siblings": list(found.siblings)}


def branch_json(branch: Branch) -> Json:
    """A turn as a node of the tree."""
    return {
        "id": branch.id,
        "object": "branch",
        "parent_id": branch.parent.turn_id,
        "parent_run_id": branch.parent.run_id,
        "text": branch.text,
        "status": branch.status.value,
        "started_at": branch.started_at.isoformat(),
        "runs": [{"id": run.id, "model": run.model, "status": status.value} for run, status in branch.runs],
    }


def file_json(file: File, app: App) -> Json:
    """A file. `fits` says whether its text has room in the default model's window; if not, it is read in pieces."""
    facts = app.models.facts(app.models.default)
    budget = app.engine_settings.budget(facts)
    estimate = round(file.tokens * facts.token_factor * (1 + MARGIN))
    fits = estimate <= budget
    reason = file.reason
    if file.status == "ready" and not fits:
        reason = (
            f"About {estimate:,} tokens do not fit the {budget:,} of {facts.name}: "
            "the file is listed, and read in pieces when a question needs it."
        )
    return {
        "id": file.id,
        "object": "file",
        "name": file.name,
        "size": file.size,
        "media_type": file.media_type,
        "status": file.status,
        "code": file.code,
        "reason": reason,
        "tokens": file.tokens,
        "fits": fits if file.status == "ready" else False,
        "pages": file.pages,
        "width": file.width,
        "height": file.height,
        "created_at": file.created_at.isoformat(),
    }


def request_json(record: RequestRecord) -> Json:
    """A request without its segments."""
    return {
        "id": record.id,
        "object": "request",
        "turn_id": record.turn_id,
        "run_id": record.run_id,
        "step": record.step,
        "purpose": record.purpose,
        "letters": record.letters,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "thinking_effort": record.thinking_effort,
        "at": record.at.isoformat(),
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted": {"read": record.predicted_read, "written": record.predicted_written},
        "usage": usage_json(record.usage) if record.usage else None,
        "cost": record.cost,
        "error": dict(record.error) if record.error else None,
        "provider_request_id": record.provider_request_id,
        "dropped_thinking": record.dropped_thinking,
    }


def diff_json(request_id: str, before: RequestRecord | None, found: Difference | None, why: Why) -> Json:
    """Where a request stops beginning as the one before it; `difference` is null where it begins with all of it."""
    place = None
    if found is not None:
        place = {
            "segment": found.segment.id,
            "label": found.segment.label,
            "kind": found.segment.kind,
            "owner": found.segment.owner,
            "now": found.now.id if found.now is not None else None,
            "block": found.block,
            "byte": found.byte,
            "was": found.was,
            "becomes": found.becomes,
            "reordered": found.reordered,
        }
    return {
        "object": "request.diff",
        "request_id": request_id,
        "before_id": before.id if before is not None else None,
        "difference": place,
        "cause": why.cause.value,
        "by": why.by.value if why.by is not None else None,
        "text": why.text,
    }


def map_json(record: RequestRecord, segments: Sequence[MappedSegment]) -> Json:
    """A request with its window, segment by segment; `measured` is false where tokens are an estimate."""
    return request_json(record) | {
        "segments": [
            {
                "id": s.segment.id,
                "kind": s.segment.kind,
                "zone": s.zone,
                "lifetime": s.segment.lifetime,
                "source": s.segment.source,
                "owner": s.segment.owner,
                "label": s.segment.label,
                "letters": s.segment.letters,
                "tokens": s.tokens,
                "measured": s.measured,
                "read": s.read,
                "written": s.written,
                "fresh": s.fresh,
                "blocks": len(s.segment.blocks),
                "markers": [{"ttl": m.ttl, "why": m.why} for m in s.markers],
                "text_preview": s.preview,
            }
            for s in segments
        ],
        "notes": [{"segment": segment, "text": text} for segment, text in record.notes],
        "absent": [{"kind": kind, "why": why} for kind, why in record.absent],
    }
