"""Conversations and sessions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.records import (
    Conversation,
)
from lamella.core.sessions import Session, SessionCause
from lamella.storage.columns import (
    CARRIED,
    HEAD,
    NAMES,
    SPENT,
    TOOLS,
    json_of,
    json_text,
    moment_text,
    word_of,
)
from lamella.storage.mapping.values import Row


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
