"""`Backend`: gives a message what goes with it by its sender, the place and the moment, and runs requests (SPEC W6).

Everything that differs from message to message and is not the user's own stands here, above the chat, which receives
finished strings and only puts them in their place. The doors of the server and a program that uses Lamella as a library
go the same way, `begin`, so that the same request sends the same bytes to the provider.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import App
from lamella.app.conversations import NewConversation
from lamella.app.request_map import MappedSegment, map_request
from lamella.backend.blocks import Blocks, BlockScope
from lamella.backend.kb_meta_prompt import KbMetaPrompts
from lamella.cache.why import Why
from lamella.chat import Message
from lamella.chat.execution import message_of
from lamella.core.access import Identity
from lamella.core.errors import LamellaError
from lamella.core.execution import ExecutionRequest
from lamella.core.packets import AnyPacket, decode_packet
from lamella.core.records import LEAVE, RequestRecord, TurnRecord


@dataclass(frozen=True, slots=True)
class RequestMap:
    """What stood in the window of a request, segment by segment with its tokens, and why it read what it read."""

    record: RequestRecord
    segments: tuple[MappedSegment, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Backend:
    """What builds the server's part of the dynamic context: of the knowledge bases, and by a deployment's providers."""

    app: App
    blocks: Blocks

    async def dressed(
        self, identity: Identity, conversation_id: str, message: Message, *, tells_bases: bool = True
    ) -> Message:
        """The message with the server's blocks; without `tells_bases`, with those of its providers alone.

        The block about knowledge bases stands first. Raises `NotFound` or what a provider raises.
        """
        conversation = await self.app.store.conversation(identity.caller, conversation_id)
        choices = message.choices
        agent_id = conversation.agent_id if choices.agent_id is LEAVE else choices.agent_id
        metadata = KbMetaPrompts(self.app.knowledge)
        bases = await metadata.block(identity.caller, conversation, agent_id, choices.knowledge_base_ids)
        if not tells_bases:  # what the bases are to the caller is the server's to say all the same
            bases = replace(bases, text="")
        told = (bases, *message.blocks) if bases.text or bases.prompt else message.blocks
        own = await self.blocks.build(BlockScope(identity, conversation, message.text))
        return replace(message, blocks=(*told, *own))

    async def begin(
        self, request: ExecutionRequest, identity: Identity = LOCAL_IDENTITY, *, key: str | None = None
    ) -> str:
        """Begin the turn of a request, in a new conversation where it names none; gives the turn's id.

        Raises as `Chat.send` does, `NotFound` for what is not the identity's, and what a provider of dynamic context
        raises; a request that is refused leaves no conversation behind.
        """
        caller, message = identity.caller, message_of(request, key)
        for base_id in request.knowledge_base_ids:
            await self.app.access.base(caller, base_id)
        conversation_id = request.conversation_id
        if conversation_id is None:
            asked = NewConversation(model=request.models[0] if request.models else None)
            # A key belongs to one thing that is made: the conversation has one that follows from the turn's.
            again = None if key is None else f"{key}#conversation"
            conversation_id = (await self.app.conversations.create(caller, asked, again)).id
        try:
            with self.app.chat.arriving(conversation_id) as arrival:
                arrival.becomes_message()
                tells_bases = request.kb_meta_prompt is None
                dressed = await self.dressed(identity, conversation_id, message, tells_bases=tells_bases)
                return await self.app.chat.send(caller, conversation_id, dressed, arrival)
        except LamellaError:
            if request.conversation_id is None and key is None:
                await self.app.chat.delete(caller, conversation_id)
            raise

    async def packets(self, turn_id: str, identity: Identity = LOCAL_IDENTITY) -> AsyncIterator[AnyPacket]:
        """The packets of a turn, to its end. Raises `NotFound`."""
        async for batch in self.app.chat.stream(identity.caller, turn_id):
            for _, data in batch:
                yield decode_packet(data)

    async def run(
        self, request: ExecutionRequest, identity: Identity = LOCAL_IDENTITY, *, key: str | None = None
    ) -> TurnRecord:
        """Begin the turn of a request and come back with it when it has ended, however it did. Raises as `begin`."""
        turn_id = await self.begin(request, identity, key=key)
        async for _ in self.packets(turn_id, identity):
            pass
        return await self.app.store.turn(identity.caller, turn_id)

    async def maps(self, turn_id: str, identity: Identity = LOCAL_IDENTITY) -> tuple[RequestMap, ...]:
        """The maps of the requests of a turn, in order. Raises `NotFound`."""
        caller, store = identity.caller, self.app.store
        return tuple(
            [
                RequestMap(
                    record,
                    map_request(record, await store.blocks(caller, record.id)),
                    await self.app.sessions.why(caller, record.id),
                )
                for record in await store.requests(caller, turn_id)
            ]
        )
