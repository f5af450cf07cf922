"""Bodies that come in, and rows as clients see them (API.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lamella.app.app import App
from lamella.context.admission import MARGIN
from lamella.core.packets import UsageBody
from lamella.core.records import Conversation, File, Page, RequestRecord, TurnRecord
from lamella.core.tokens import Usage

Title = Annotated[str, StringConstraints(max_length=200)]
Id = Annotated[str, StringConstraints(max_length=80)]


class Body(BaseModel):
    """A request body: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


class NewConversation(Body):
    """`POST /api/v1/conversations`."""

    title: Title = ""
    model: Id | None = None
    layout: Id = "lamella"
    marker_policy: Id | None = None


class ConversationPatch(Body):
    """`PATCH /api/v1/conversations/{id}`."""

    title: Title | None = None
    model: Id | None = None


class NewTurnBody(Body):
    """`POST /api/v1/conversations/{id}/turns`."""

    text: str
    file_ids: list[Id] = Field(default_factory=list)
    timezone: Annotated[str, StringConstraints(max_length=80)] = "UTC"
    models: Annotated[list[Id], Field(min_length=1, max_length=1)] | None = None
    dynamic_context: Annotated[list[str], Field(max_length=20)] = Field(default_factory=list)


class PageParameters(BaseModel):
    """The query of a list."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=80)
    order: Literal["asc", "desc"] = "desc"


Json = dict[str, Any]
ItemT = TypeVar("ItemT")


def list_json(page: Page[ItemT], shape: Callable[[ItemT], Json]) -> Json:
    """A page of a list."""
    data = [shape(item) for item in page.data]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": page.has_more,
    }


def conversation_json(conversation: Conversation) -> Json:
    """A conversation."""
    return {
        "id": conversation.id,
        "object": "conversation",
        "title": conversation.title,
        "model": conversation.model,
        "layout": conversation.layout,
        "marker_policy": conversation.marker_policy,
        "created_at": conversation.created_at.isoformat(),
        "updated_at": conversation.updated_at.isoformat(),
        "running_turn": conversation.running_turn,
    }


def usage_json(usage: Usage) -> Json:
    """Measured tokens; `input` is the whole prompt."""
    body: Json = msgspec.to_builtins(UsageBody.of(usage))
    return body


def turn_json(turn: TurnRecord) -> Json:
    """A turn; its answer is told by its packets, and summed up in `answer`."""
    return {
        "id": turn.id,
        "object": "turn",
        "conversation_id": turn.conversation_id,
        "parent_id": turn.parent_id,
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
        "answer": turn.steps[-1].text if turn.steps else "",
        "error": dict(turn.error) if turn.error else None,
        "usage": usage_json(turn.usage),
        "cost": turn.cost,
        "started_at": turn.started_at.isoformat(),
        "finished_at": turn.finished_at.isoformat() if turn.finished_at else None,
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
        "created_at": file.created_at.isoformat(),
    }


def request_json(record: RequestRecord) -> Json:
    """A request without its segments."""
    return {
        "id": record.id,
        "object": "request",
        "turn_id": record.turn_id,
        "step": record.step,
        "purpose": record.purpose,
        "letters": record.letters,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "at": record.at.isoformat(),
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted": {"read": record.predicted_read, "written": record.predicted_written},
        "usage": usage_json(record.usage) if record.usage else None,
        "cost": record.cost,
        "error": dict(record.error) if record.error else None,
        "provider_request_id": record.provider_request_id,
    }
