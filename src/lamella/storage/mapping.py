"""The only place where rows and canonical data meet: the row of a dataclass, and the dataclass of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from lamella.core.agents import Agent
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import (
    AnswerPart,
    Attachment,
    Image,
    Step,
    StopReason,
    Text,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.records import (
    Caller,
    Conversation,
    File,
    Job,
    JobStatus,
    NewJob,
    NewRun,
    NewTurn,
    Place,
    QueuedMessage,
    QueueStatus,
    RequestEnd,
    RequestRecord,
    RunEnd,
    RunRecord,
    StoredAgent,
    StoredBlock,
    StoredDecision,
    StoredProject,
    StoredSegment,
    SystemPrompt,
    TurnEnd,
    TurnRecord,
)
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.storage.columns import (
    ABSENT,
    ERROR,
    HEAD,
    MARKERS,
    NAMES,
    NOTES,
    NUMBERS,
    SEGMENTS,
    SPENT,
    TOOLS,
    ZONES,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    parts_of,
    parts_text,
    word_of,
)
from lamella.storage.failures import damaged, unicode_only

Row = dict[str, Any]
"""Columns by name, as they are written."""

Attached = Mapping[str, tuple[Attachment, ...]]
"""Attachments by the id of their message."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The texts and the pictures of some files, by id."""

    texts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)


# Usage and errors

_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
USAGE_COLUMNS = (*(f"{name}_tokens" for name in _USAGE), "usage_estimated")


def _usage_row(usage: Usage) -> Row:
    return {**{f"{name}_tokens": getattr(usage, name) for name in _USAGE}, "usage_estimated": usage.estimated}


def usage_of(row: RowMapping) -> Usage:
    """The usage of a row that has one."""
    figures = {name: row[f"{name}_tokens"] for name in _USAGE}
    return Usage(**figures, estimated=bool(row["usage_estimated"]))


def error_text(error: Mapping[str, str | None] | None) -> str | None:
    """The column of an error object."""
    return None if error is None else json_text(error)


def _error_of(value: str | None, what: str) -> Mapping[str, str | None] | None:
    return None if value is None else json_of(ERROR, value, what)


# Conversations


def conversation_row(owner: str, conversation: Conversation) -> Row:
    """The row of a conversation."""
    return {
        "id": conversation.id,
        "owner": owner,
        "title": conversation.title,
        "model": conversation.model,
        "layout": conversation.layout,
        "marker_policy": conversation.marker_policy,
        "system_prompt": conversation.system_prompt,
        "tools": json_text(conversation.tools),
        "created_at": moment_text(conversation.created_at),
        "updated_at": moment_text(conversation.updated_at),
        "head": conversation.head,
        "head_run_id": conversation.head_run_id,
        "running_turn": conversation.running_turn,
        "agent_id": conversation.agent_id,
        "project_id": conversation.project_id,
        "system_prompt_version": conversation.system_prompt_version,
        "session_id": conversation.session_id,
        "thinking_effort": conversation.thinking_effort,
        "forked": conversation.forked,
        "titled_by": conversation.titled_by,
    }


def conversation_of(row: RowMapping) -> Conversation:
    """The conversation of a row."""
    return Conversation(
        id=row["id"],
        title=row["title"],
        model=row["model"],
        layout=row["layout"],
        marker_policy=row["marker_policy"],
        system_prompt=row["system_prompt"],
        tools=json_of(TOOLS, row["tools"], f"conversation {row['id']}"),
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
        head=row["head"],
        head_run_id=row["head_run_id"],
        running_turn=row["running_turn"],
        agent_id=row["agent_id"],
        project_id=row["project_id"],
        system_prompt_version=row["system_prompt_version"],
        session_id=row["session_id"],
        thinking_effort=row["thinking_effort"],
        forked=row["forked"],
        titled_by=row["titled_by"],
    )


# Sessions


def session_row(owner: str, session: Session) -> Row:
    """The row of a session, without the embedding of its summary."""
    return {
        "id": session.id,
        "owner": owner,
        "conversation_id": session.conversation_id,
        "number": session.number,
        "parent_id": session.parent_id,
        "begins_after": session.begins_after,
        "inherits": session.inherits,
        "opened_at": moment_text(session.opened_at),
        "opened_by": session.opened_by.value,
        "closed_at": None if session.closed_at is None else moment_text(session.closed_at),
        "closed_by": None if session.closed_by is None else session.closed_by.value,
        "ends_with": session.ends_with,
        "why": session.why,
        "summary": session.summary,
        "summary_tokens": session.summary_tokens,
        "summary_ends_with": session.summary_ends_with,
        "summary_check": json_text(session.check),
        "usage": json_text(session.usage),
    }


def session_of(row: RowMapping) -> Session:
    """The session of a row."""
    what = f"session {row['id']}"
    return Session(
        id=row["id"],
        conversation_id=row["conversation_id"],
        number=row["number"],
        opened_at=datetime.fromisoformat(row["opened_at"]),
        opened_by=word_of(SessionCause, row["opened_by"], what),
        parent_id=row["parent_id"],
        begins_after=row["begins_after"],
        inherits=row["inherits"],
        closed_at=None if row["closed_at"] is None else datetime.fromisoformat(row["closed_at"]),
        closed_by=None if row["closed_by"] is None else word_of(SessionCause, row["closed_by"], what),
        ends_with=row["ends_with"],
        why=row["why"],
        summary=row["summary"],
        summary_tokens=row["summary_tokens"],
        summary_ends_with=row["summary_ends_with"],
        check=json_of(HEAD, row["summary_check"], what),
        usage=json_of(SPENT, row["usage"], what),
    )


# Jobs and the queue


def job_row(owner: str, job_id: str, job: NewJob, at: datetime) -> Row:
    """The row of a job that waits."""
    return {
        "id": job_id,
        "owner": owner,
        "kind": job.kind,
        "subject": job.subject,
        "payload": json_text(job.payload),
        "cause": job.cause,
        "status": JobStatus.WAITING.value,
        "attempts": 0,
        "token": 0,
        "due_at": moment_text(job.not_before),
        "created_at": moment_text(at),
    }


def job_of(row: RowMapping) -> Job:
    """The job of a row."""
    what = f"job {row['id']}"
    return Job(
        id=row["id"],
        caller=Caller(row["owner"]),
        kind=row["kind"],
        subject=row["subject"],
        cause=row["cause"],
        payload=json_of(HEAD, row["payload"], what),
        status=word_of(JobStatus, row["status"], what),
        due_at=datetime.fromisoformat(row["due_at"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        attempts=row["attempts"],
        token=row["token"],
        error=_error_of(row["error"], what),
        ended_at=None if row["ended_at"] is None else datetime.fromisoformat(row["ended_at"]),
    )


def queued_row(owner: str, message: QueuedMessage) -> Row:
    """The row of a message that waits."""
    return {
        "id": message.id,
        "owner": owner,
        "conversation_id": message.conversation_id,
        "seq": message.seq,
        "sender": message.sender,
        "text": message.text,
        "sent_at": local_moment_text(message.sent_at),
        "timezone": message.timezone,
        "payload": json_text(message.payload),
        "status": message.status.value,
        "turn_id": message.turn_id,
    }


def queued_of(row: RowMapping) -> QueuedMessage:
    """The queued message of a row."""
    what = f"queued message {row['id']}"
    return QueuedMessage(
        id=row["id"],
        conversation_id=row["conversation_id"],
        sender=row["sender"],
        text=row["text"],
        sent_at=datetime.fromisoformat(row["sent_at"]),
        timezone=row["timezone"],
        payload=json_of(HEAD, row["payload"], what),
        seq=row["seq"],
        status=word_of(QueueStatus, row["status"], what),
        turn_id=row["turn_id"],
    )


# Agents, projects, system prompts


def agent_row(agent: Agent) -> Row:
    """The columns of an agent, without its owner and moments."""
    return {
        "id": agent.id,
        "name": agent.name,
        "prompt": agent.prompt,
        "reminder": agent.reminder,
        "replaces_system": agent.replaces_system,
        "tools": None if agent.tools is None else json_text(agent.tools),
        "model": agent.model,
        "layout": agent.layout,
        "thinking_effort": agent.thinking_effort,
        "fallback_model": agent.fallback_model,
        "revision": agent.revision,
    }


def agent_of(row: RowMapping) -> StoredAgent:
    """The agent of a row."""
    agent = Agent(
        id=row["id"],
        name=row["name"],
        prompt=row["prompt"],
        reminder=row["reminder"],
        replaces_system=row["replaces_system"],
        tools=None if row["tools"] is None else json_of(NAMES, row["tools"], f"agent {row['id']}"),
        model=row["model"],
        layout=row["layout"],
        revision=row["revision"],
        thinking_effort=row["thinking_effort"],
        fallback_model=row["fallback_model"],
    )
    return StoredAgent(agent, datetime.fromisoformat(row["created_at"]), datetime.fromisoformat(row["updated_at"]))


def project_of(row: RowMapping, files: Sequence[File]) -> StoredProject:
    """The project of a row, with its files in order."""
    return StoredProject(
        id=row["id"],
        name=row["name"],
        instructions=row["instructions"],
        files=tuple(files),
        revision=row["revision"],
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )


def system_prompt_of(row: RowMapping) -> SystemPrompt:
    """The version of a row."""
    return SystemPrompt(row["version"], row["text"], row["note"], datetime.fromisoformat(row["created_at"]))


# Files


def file_row(owner: str, file: File) -> Row:
    """The row of a file."""
    return {
        "id": file.id,
        "owner": owner,
        "name": file.name,
        "media_type": file.media_type,
        "size": file.size,
        "status": file.status,
        "tokens": file.tokens,
        "created_at": moment_text(file.created_at),
        "pages": file.pages,
        "code": file.code,
        "reason": file.reason,
        "width": file.width,
        "height": file.height,
    }


def file_of(row: RowMapping) -> File:
    """The file of a row."""
    return File(
        id=row["id"],
        name=row["name"],
        media_type=row["media_type"],
        size=row["size"],
        status=row["status"],
        tokens=row["tokens"],
        created_at=datetime.fromisoformat(row["created_at"]),
        pages=row["pages"],
        code=row["code"],
        reason=row["reason"],
        width=row["width"],
        height=row["height"],
    )


def file_text_row(owner: str, file_id: str, text: str) -> Row:
    """The row of a file's text."""
    with unicode_only():
        return {"file_id": file_id, "owner": owner, "data": text.encode()}


def file_text_of(row: RowMapping) -> str:
    """The text of a file."""
    try:
        return bytes(row["data"]).decode()
    except UnicodeDecodeError as error:
        raise damaged(f"the text of {row['file_id']}", error) from error


def image_row(owner: str, image: Image) -> Row:
    """The row of a picture."""
    return {
        "file_id": image.file_id,
        "owner": owner,
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "digest": image.digest,
        "data": image.data,
    }


def image_of(row: RowMapping) -> Image:
    """The picture of a row."""
    return Image(row["file_id"], row["media_type"], row["width"], row["height"], row["digest"], data=bytes(row["data"]))


def attachment_of(file: File, document: int, contents: Contents) -> Attachment:
    """A file as an attachment with its number."""
    return Attachment(
        file_id=file.id,
        document=document,
        title=file.name,
        media_type=file.media_type,
        size=file.size,
        tokens=file.tokens,
        text=contents.texts.get(file.id),
        reason=file.reason,
        image=contents.images.get(file.id),
    )


# Turns and messages


def turn_row(owner: str, turn: NewTurn, parent: Place, at: datetime) -> Row:
    """The row of a turn that begins."""
    return {
        "id": turn.id,
        "owner": owner,
        "conversation_id": turn.conversation_id,
        "parent_id": parent.turn_id,
        "parent_run_id": parent.run_id,
        "status": TurnStatus.RUNNING.value,
        "started_at": moment_text(at),
    }


def run_row(owner: str, turn_id: str, number: int, run: NewRun) -> Row:
    """The row of a run that begins."""
    return {
        "id": run.id,
        "owner": owner,
        "turn_id": turn_id,
        "number": number,
        "model": run.model,
        "status": TurnStatus.RUNNING.value,
    }


def user_message_row(owner: str, turn: NewTurn) -> Row:
    """The row of a turn's user message, its session still to come."""
    return {
        "id": turn.user_message_id,
        "owner": owner,
        "turn_id": turn.id,
        "seq": 0,
        "role": "user",
        "parts": parts_text([Text(turn.text)]),
        "tokens": turn.tokens,
        "sent_at": local_moment_text(turn.sent_at),
        "timezone": turn.timezone,
        "dynamic": turn.dynamic,
    }


def end_row(end: TurnEnd | RunEnd) -> Row:
    """What the end of a turn or a run changes in its row; a request that was told of twice counts once."""
    spent = list({one.request_id: one for one in end.requests}.values())
    return {
        "status": end.status.value,
        "finished_at": moment_text(end.finished_at),
        "error": error_text(end.error),
        "cost": sum(one.cost for one in spent),
        **_usage_row(sum((one.usage for one in spent), Usage())),
    }


def step_row(owner: str, turn_id: str, run_id: str, seq: int, step: Step) -> Row:
    """The row of a step, its session and usage still to come."""
    return {
        "id": step.id,
        "owner": owner,
        "turn_id": turn_id,
        "run_id": run_id,
        "seq": seq,
        "role": "assistant",
        "model": step.model,
        "parts": parts_text(step.parts),
        "results": parts_text(step.results),
        "stop_reason": step.stop_reason.value,
        "made_after": step.made_after,
        "reminder": step.reminder,
        "tokens": step.tokens,
        "cost": None,
        **dict.fromkeys(USAGE_COLUMNS),
    }


def _answer_parts(row: RowMapping) -> tuple[AnswerPart, ...]:
    parts = parts_of(row["parts"], f"message {row['id']}")
    answer = tuple(part for part in parts if not isinstance(part, ToolResult))
    if len(answer) != len(parts):
        raise damaged(f"message {row['id']}", "a tool result in an answer")
    return answer


def step_of(row: RowMapping) -> Step:
    """The step of a message row."""
    results = parts_of(row["results"], f"message {row['id']}") if row["results"] != "[]" else ()
    return Step(
        id=row["id"],
        model=row["model"],
        parts=_answer_parts(row),
        stop_reason=word_of(StopReason, row["stop_reason"], f"message {row['id']}"),
        made_after=row["made_after"],
        tokens=row["tokens"],
        reminder=row["reminder"],
        results=tuple(part for part in results if isinstance(part, ToolResult)),
    )


def user_message_of(row: RowMapping, attachments: tuple[Attachment, ...]) -> UserMessage:
    """The user message of a message row."""
    text = "".join(part.text for part in _answer_parts(row) if isinstance(part, Text))
    sent_at = datetime.fromisoformat(row["sent_at"])
    return UserMessage(row["id"], text, sent_at, row["timezone"], row["tokens"], attachments, row["dynamic"] or "")


def turn_of(turn_id: str, status: str, rows: Sequence[RowMapping], attached: Attached) -> Turn:
    """The canonical turn of its message rows, the user message first."""
    if not rows:
        raise damaged(f"turn {turn_id}", "no messages")
    user, *steps = rows
    return Turn(
        turn_id,
        user_message_of(user, attached.get(user["id"], ())),
        tuple(map(step_of, steps)),
        word_of(TurnStatus, status, f"turn {turn_id}"),
    )


def run_record_of(row: RowMapping, steps: Iterable[RowMapping]) -> RunRecord:
    """The run as clients see it, of its row and the rows of its steps."""
    what = f"run {row['id']}"
    return RunRecord(
        id=row["id"],
        index=row["number"],
        model=row["model"],
        status=word_of(TurnStatus, row["status"], what),
        steps=tuple(map(step_of, steps)),
        finished_at=None if row["finished_at"] is None else datetime.fromisoformat(row["finished_at"]),
        error=_error_of(row["error"], what),
        usage=usage_of(row),
        cost=row["cost"],
    )


def turn_record_of(
    row: RowMapping, runs: Sequence[RowMapping], rows: Sequence[RowMapping], attached: Attached
) -> TurnRecord:
    """The turn as clients see it, of its row, the rows of its runs in order, and its message rows."""
    if not runs:
        raise damaged(f"turn {row['id']}", "no runs")
    turn = turn_of(row["id"], row["status"], rows[:1], attached)
    return TurnRecord(
        id=turn.id,
        conversation_id=row["conversation_id"],
        parent=Place(row["parent_id"], row["parent_run_id"]),
        status=turn.status,
        user_message_id=turn.user.id,
        text=turn.user.text,
        sent_at=turn.user.sent_at,
        timezone=turn.user.timezone,
        attachments=turn.user.attachments,
        dynamic=turn.user.dynamic,
        runs=tuple(run_record_of(run, [step for step in rows if step["run_id"] == run["id"]]) for run in runs),
        started_at=datetime.fromisoformat(row["started_at"]),
        finished_at=None if row["finished_at"] is None else datetime.fromisoformat(row["finished_at"]),
        error=_error_of(row["error"], f"turn {turn.id}"),
        usage=usage_of(row),
        cost=row["cost"],
    )


# Requests


def request_row(owner: str, record: RequestRecord, base: str | None, shared: int, depth: int) -> Row:
    """The row of a request that is about to be sent: its segments behind the first `shared`."""
    return {
        "id": record.id,
        "owner": owner,
        "conversation_id": record.conversation_id,
        "turn_id": record.turn_id,
        "run_id": record.run_id,
        "step": record.step,
        "purpose": record.purpose,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "thinking_effort": record.thinking_effort,
        "at": moment_text(record.at),
        "head": json_text(record.head),
        "letters": record.letters,
        "base": base,
        "shared": shared,
        "depth": depth,
        "length": len(record.segments),
        "segments": json_text(record.segments[shared:]),
        "zones": json_text(record.zones),
        "markers": json_text(record.markers),
        "notes": json_text(record.notes),
        "protocol": record.protocol,
        "local_tokens": record.local_tokens,
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted_read": record.predicted_read,
        "predicted_written": record.predicted_written,
        "predicted_hit": record.predicted_hit,
        "provider_request_id": record.provider_request_id,
        "dropped_thinking": record.dropped_thinking,
        "cost": record.cost,
        "error": error_text(record.error),
        "absent": json_text(record.absent),
        **({} if record.usage is None else _usage_row(record.usage)),
    }


def segments_of(value: str, what: str) -> tuple[StoredSegment, ...]:
    """The segments of a column; raises `StoreFailed` naming `what` when it is damaged."""
    return json_of(SEGMENTS, value, what)


def request_of(row: RowMapping, segments: tuple[StoredSegment, ...]) -> RequestRecord:
    """The request of a row and all its segments."""
    what = f"request {row['id']}"
    return RequestRecord(
        id=row["id"],
        conversation_id=row["conversation_id"],
        turn_id=row["turn_id"],
        step=row["step"],
        purpose=row["purpose"],
        model=row["model"],
        layout=row["layout"],
        marker_policy=row["marker_policy"],
        at=datetime.fromisoformat(row["at"]),
        head=json_of(HEAD, row["head"], what),
        letters=row["letters"],
        segments=segments,
        zones=json_of(ZONES, row["zones"], what),
        markers=json_of(MARKERS, row["markers"], what),
        notes=json_of(NOTES, row["notes"], what),
        protocol=row["protocol"],
        local_tokens=row["local_tokens"],
        estimate=row["estimate"],
        budget=row["budget"],
        predicted_read=row["predicted_read"],
        predicted_written=row["predicted_written"],
        predicted_hit=row["predicted_hit"],
        provider_request_id=row["provider_request_id"],
        dropped_thinking=row["dropped_thinking"],
        usage=None if row["input_tokens"] is None else usage_of(row),
        cost=row["cost"],
        error=_error_of(row["error"], what),
        absent=json_of(ABSENT, row["absent"], what),
        thinking_effort=row["thinking_effort"],
        run_id=row["run_id"],
    )


def bill_row(end: RequestEnd) -> Row:
    """What a request was billed."""
    return {**_usage_row(end.usage), "cost": end.cost}


def request_end_row(end: RequestEnd) -> Row:
    """What the end of a request changes in its row."""
    named = {} if end.provider_request_id is None else {"provider_request_id": end.provider_request_id}
    return {**bill_row(end), **named, "error": error_text(end.error), "dropped_thinking": end.dropped_thinking}


def block_row(owner: str, conversation_id: str, block: StoredBlock) -> Row:
    """The row of a wire block."""
    return {
        "conversation_id": conversation_id,
        "digest": block.digest,
        "owner": owner,
        "level": block.level,
        "role": block.role,
        "data": block.data,
    }


def block_of(row: RowMapping) -> StoredBlock:
    """The wire block of a row."""
    return StoredBlock(row["digest"], row["level"], row["role"], bytes(row["data"]))


# Decisions


def decision_row(
    owner: str,
    conversation_id: str,
    decision_id: str,
    at: datetime,
    decision: Decision,
    turn_id: str | None,
    run_id: str | None = None,
) -> Row:
    """The row of a decision that was made while the conversation stood at the turn `turn_id`."""
    return {
        "turn_id": turn_id,
        "run_id": run_id,
        "id": decision_id,
        "owner": owner,
        "conversation_id": conversation_id,
        "at": moment_text(at),
        "kind": decision.kind.value,
        "subject": decision.subject,
        "outcome": decision.outcome,
        "who": decision.who,
        "why": decision.why,
        "numbers": json_text(decision.numbers),
        "first_changed": decision.first_changed,
    }


def decision_of(row: RowMapping) -> StoredDecision:
    """The decision of a row."""
    decision = Decision(
        kind=word_of(DecisionKind, row["kind"], f"decision {row['id']}"),
        subject=row["subject"],
        outcome=row["outcome"],
        who=row["who"],
        why=row["why"],
        numbers=json_of(NUMBERS, row["numbers"], f"decision {row['id']}"),
        first_changed=row["first_changed"],
    )
    at = datetime.fromisoformat(row["at"])
    return StoredDecision(row["id"], at, decision, row["turn_id"], row["run_id"])
