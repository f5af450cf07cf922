"""`ExecutionRequest`: one message to be answered, with all that was chosen for it.

It is made above the chat, which only puts its strings in their place. Who asks, and what they may, is not in it:
whoever runs it says that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamella.core.json import JsonObject
from lamella.core.records import LEAVE, Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """A message and how it is to be answered; what is left out is decided by the conversation, then the deployment.

    `conversation_id` None begins a conversation. `models` are one to three names. `parent_message_id` is the message or
    run that it follows: None for the beginning, LEAVE for where the conversation stands; `agent_id` None is no agent
    for this turn. `timezone` is an IANA name.

    `kb_meta_prompt` is the block about knowledge bases as it is to be sent: "" for none, None lets the server's backend
    build it. `dynamic_context` are the caller's own blocks; None is none, as everywhere.

    `metadata` are pairs of the caller's, which no model reads. `extra_fields` are fields that this version does not
    know, and `body_fields` what an OpenAI request says beside the message: both are kept, so that a request comes back
    from its other form as it was.
    """

    text: str
    conversation_id: str | None = None
    file_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    timezone: str = "UTC"
    parent_message_id: str | Leave | None = LEAVE
    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | Leave | None = LEAVE
    thinking_effort: str | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    kb_meta_prompt: str | None = None
    dynamic_context: tuple[str, ...] | None = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra_fields: JsonObject = field(default_factory=dict)
    body_fields: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Two requests that say the same are equal."""
        if self.dynamic_context is None:
            object.__setattr__(self, "dynamic_context", ())
