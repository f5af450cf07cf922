"""Turns, their runs and branches."""

from __future__ import annotations

import msgspec

from lamella.core.packets import UsageBody
from lamella.core.records import (
    Branch,
    RunRecord,
    TurnOnPath,
    TurnRecord,
)
from lamella.core.tokens import Usage
from lamella.server.schemas.lists import Json


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
