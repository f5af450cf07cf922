"""Bodies that conversations take: turns, commands, changes."""

from __future__ import annotations

from typing import Annotated, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lamella.chat import Message, Patience
from lamella.core.models import effort_named
from lamella.core.records import (
    LEAVE,
    Choices,
)
from lamella.server.schemas.lists import Json

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
    dynamic_context: Annotated[list[str], Field(max_length=20)] | None = None
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
        dynamic=tuple(body.dynamic_context or ()),
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


def effort_field(sent: Json) -> Json:
    """The effort that was sent, if any, in its one spelling."""
    return {"thinking_effort": effort_given(sent["thinking_effort"])} if "thinking_effort" in sent else {}
