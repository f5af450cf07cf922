"""Conversations, sessions, notices and what waits."""

from __future__ import annotations

from lamella.cache.ledger import CacheLoss
from lamella.chat import Queued
from lamella.chat.waiting import Words, sent_of
from lamella.core.models import tokens_of
from lamella.core.records import (
    Conversation,
    Notice,
    NoticeKind,
    StoredDecision,
)
from lamella.core.sessions import Carried, Session
from lamella.server.schemas.lists import Json
from lamella.server.schemas.turn_objects import usage_json
from lamella.sessions.sessions import SessionFigures
from lamella.sessions.window import EffortChoice


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


def unread_json(lost: CacheLoss | None) -> Json | None:
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
    """A message or command of the queue; `place` counts from 1, null when it waits no more.

    `begins`: its turn is about to be stored, which may wait for a compaction; it can't be changed any more.
    """
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
        "begins": queued.begins,
        "turn_id": row.turn_id,
    }


def _carried_json(carried: Carried) -> Json:
    return {"session_id": carried.session_id, "lines": None if carried.lines is None else list(carried.lines)}


def session_json(session: Session, figures: SessionFigures) -> Json:
    """A session; `numbers` are the figures of the compaction that opened it, in tokens.

    `check` says how its summary compares with what it stands for, and who made it.
    """
    return {
        "id": session.id,
        "object": "session",
        "conversation_id": session.conversation_id,
        "number": session.number,
        "current": session.id == figures.current_id,
        "parent_id": session.parent_id,
        "begins_after": session.begins_after,
        "inherits": session.inherits,
        "carries": None if session.carries is None else [_carried_json(one) for one in session.carries],
        "opened_at": session.opened_at.isoformat(),
        "opened_by": session.opened_by.value,
        "closed_at": session.closed_at.isoformat() if session.closed_at else None,
        "closed_by": session.closed_by.value if session.closed_by else None,
        "why": session.why,
        "summary": session.summary,
        "summary_tokens": session.summary_tokens,
        "check": dict(session.check),
        "messages": figures.messages.get(session.id, 0),
        "numbers": dict(figures.numbers.get(session.id, {})),
        "usage": {purpose: usage_json(usage) for purpose, usage in session.usage.items()},
    }
