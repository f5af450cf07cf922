"""An `ExecutionRequest` as a message: its finished strings are put in their place, and none is built here (SPEC W6)."""

from __future__ import annotations

from lamella.chat.message import Message
from lamella.core.agents import DynamicBlock
from lamella.core.errors import InvalidRequest
from lamella.core.execution import ExecutionRequest
from lamella.core.models import effort_named
from lamella.core.records import Choices


def message_of(request: ExecutionRequest, key: str | None = None) -> Message:
    """The message; raises `InvalidRequest` for a field that this version does not know: it could mean anything."""
    unknown = next(iter(request.extra_fields), None)
    if unknown is not None:
        raise InvalidRequest(
            f"This version does not know the field “{unknown}” of an execution request.",
            hint="Leave it out, or update the server.",
            param=unknown,
        )
    told = request.kb_meta_prompt
    return Message(
        text=request.text,
        file_ids=request.file_ids,
        timezone=request.timezone,
        models=request.models,
        key=key,
        dynamic=request.dynamic_context or (),
        blocks=(DynamicBlock(told, "from the request's kb_meta_prompt"),) if told else (),
        choices=Choices(
            request.layout,
            request.marker_policy,
            request.agent_id,
            effort_named(request.thinking_effort) if request.thinking_effort is not None else None,
            request.knowledge_base_ids,
        ),
        parent_message_id=request.parent_message_id,
    )
