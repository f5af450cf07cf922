"""Between rows and the records of conversations, sessions, the library, files and background work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from lamella.core.agents import Agent
from lamella.core.messages import (
    Attachment,
    Image,
)
from lamella.core.records import (
    Caller,
    Conversation,
    File,
    Job,
    JobStatus,
    NewJob,
    QueuedMessage,
    QueueStatus,
    StoredAgent,
    StoredProject,
    SystemPrompt,
)
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.storage.columns import (
    CARRIED,
    ERROR,
    HEAD,
    NAMES,
    SPENT,
    TOOLS,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    word_of,
)
from lamella.storage.failures import damaged, unicode_only

Row = dict[str, Any]
"""Columns by name, as they are written."""


_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


USAGE_COLUMNS = (*(f"{name}_tokens" for name in _USAGE), "usage_estimated", "input_estimated")


def usage_row(usage: Usage) -> Row:
    figures = {f"{name}_tokens": getattr(usage, name) for name in _USAGE}
    return {**figures, "usage_estimated": usage.estimated, "input_estimated": usage.input_estimated}


def usage_of(row: RowMapping) -> Usage:
    """The usage of a row that has one."""
    figures = {name: row[f"{name}_tokens"] for name in _USAGE}
    return Usage(**figures, estimated=bool(row["usage_estimated"]), input_estimated=bool(row["input_estimated"]))


def error_text(error: Mapping[str, str | None] | None) -> str | None:
    """The column of an error object."""
    return None if error is None else json_text(error)


def error_of(value: str | None, what: str) -> Mapping[str, str | None] | None:
    return None if value is None else json_of(ERROR, value, what)


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
        "carries": None if session.carries is None else json_text(session.carries),
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
        carries=None if row["carries"] is None else json_of(CARRIED, row["carries"], what),
        closed_at=None if row["closed_at"] is None else datetime.fromisoformat(row["closed_at"]),
        closed_by=None if row["closed_by"] is None else word_of(SessionCause, row["closed_by"], what),
        ends_with=row["ends_with"],
        why=row["why"],
        summary=row["summary"],
        summary_tokens=row["summary_tokens"],
        summary_ends_with=row["summary_ends_with"],
        check=json_of(HEAD, row["summary_check"], what),
        made_from=json_of(NAMES, row["made_from"], what),
        usage=json_of(SPENT, row["usage"], what),
    )


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


Attached = Mapping[str, tuple[Attachment, ...]]
"""Attachments by the id of their message."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The texts and the pictures of some files, by id."""

    texts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)


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


def attachment_of(file: File, document: int, use: int, contents: Contents) -> Attachment:
    """A file as an attachment with its number, and which use of it in the conversation this is."""
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
        use=use,
    )


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
        "asked_at": moment_text(at),
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
        error=error_of(row["error"], what),
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
