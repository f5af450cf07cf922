"""`Backend`: gives a message what goes with it by its sender, the place and the moment (SPEC W6).

Everything that differs from message to message and is not the user's own stands here, above the chat, which receives
finished strings and only puts them in their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lamella.app.app import App
from lamella.backend.blocks import Blocks, BlockScope
from lamella.backend.kb_meta_prompt import KbMetaPrompts
from lamella.chat import Message
from lamella.core.access import Identity
from lamella.core.records import LEAVE


@dataclass(frozen=True, slots=True)
class Backend:
    """What builds the server's part of the dynamic context: of the knowledge bases, and by a deployment's providers."""

    app: App
    blocks: Blocks

    async def dressed(self, identity: Identity, conversation_id: str, message: Message) -> Message:
        """The message with the server's blocks in front of what it has. Raises `NotFound` or what a provider raises."""
        conversation = await self.app.store.conversation(identity.caller, conversation_id)
        choices = message.choices
        agent_id = conversation.agent_id if choices.agent_id is LEAVE else choices.agent_id
        metadata = KbMetaPrompts(self.app.knowledge)
        bases = await metadata.block(identity.caller, conversation, agent_id, choices.knowledge_base_ids)
        own = await self.blocks.build(BlockScope(identity, conversation, message.text))
        told = (bases,) if bases.text else ()
        return replace(message, blocks=(*told, *own, *message.blocks))
