"""Dynamic context: the text that the server adds to a message. It depends on the sender, the place and the moment.

It stands next to the message and never in the system prompt, so that it spoils no cached prefix. It has two sources:

- the block about the knowledge bases that can be searched here (`kb_meta_prompt.py`), always first;
- a deployment's providers: classes that write one block each, such as who the user is. An entry point of the group
  `lamella.dynamic_context` or the setting `LAMELLA_DYNAMIC_CONTEXT` names them (example:
  docs/how-to/dynamic-context.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

import structlog

from lamella.chat.kb_meta_prompt import KbMetaPrompts
from lamella.chat.message import Message
from lamella.core.access import Identity
from lamella.core.agents import DynamicBlock
from lamella.core.errors import ConfigurationError, DynamicContextFailed, LamellaError
from lamella.core.records import UNCHANGED, Caller, Conversation
from lamella.storage import Store

log = structlog.get_logger()

SECONDS = 5.0
"""The default time limit of a provider, in seconds."""


@dataclass(frozen=True, slots=True)
class BlockScope:
    """The data for a block: the authenticated sender, the conversation, and the message's text."""

    identity: Identity
    conversation: Conversation
    text: str

    @property
    def caller(self) -> Caller:
        """Whose data may be read for it."""
        return self.identity.caller


@runtime_checkable
class DynamicContextProvider(Protocol):
    """Writes one block of dynamic context, for example who the user is and what they may do.

    Blocks are sorted by `order`, then by `name`; names are unique. Equal facts should give equal text: a block that
    changes with every message is sent and paid with every message.
    """

    name: str
    order: int

    async def block(self, scope: BlockScope) -> str | None:
        """The block for this message; None or an empty text leaves it out.

        The sender is told a `LamellaError` as it is, and of any other failure only the provider's name.
        """
        ...


class Blocks:
    """The providers of a deployment; raises `ConfigurationError` when two have one name."""

    def __init__(self, providers: Iterable[DynamicContextProvider] = (), seconds: float = SECONDS) -> None:
        self._providers = sorted(providers, key=lambda provider: (provider.order, provider.name))
        self._seconds = seconds
        for before, after in pairwise(sorted(provider.name for provider in self._providers)):
            if before == after:
                raise ConfigurationError(
                    f"There are two providers of dynamic context named “{after}”.", hint="Rename one."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The providers, in the order of their blocks."""
        return tuple(provider.name for provider in self._providers)

    async def build(self, scope: BlockScope) -> tuple[DynamicBlock, ...]:
        """All blocks of a message, in order; providers are asked at the same time.

        Raises a `LamellaError` that names the first provider that fails: a message without what belongs to it, such as
        the user's permissions, is not sent.
        """
        made = await asyncio.gather(*(self._one(provider, scope) for provider in self._providers))
        return tuple(block for block in made if block.text)

    async def _one(self, provider: DynamicContextProvider, scope: BlockScope) -> DynamicBlock:
        try:
            async with asyncio.timeout(self._seconds) as limit:
                text = _checked(await provider.block(scope))
        except LamellaError:
            raise
        except Exception as error:  # the border where a deployment's own code becomes an error of ours
            if isinstance(error, TimeoutError) and limit.expired():
                raise DynamicContextFailed(
                    f"The dynamic context “{provider.name}” was not there after {self._seconds:g} seconds; the message "
                    "was not sent.",
                    hint="Send it again; LAMELLA_DYNAMIC_CONTEXT_SECONDS sets the limit.",
                ) from None
            log.exception("a provider of dynamic context failed", provider=provider.name)
            raise DynamicContextFailed(
                f"The dynamic context “{provider.name}” could not be made; the message was not sent.",
                hint="The server's log has the cause.",
            ) from None
        return DynamicBlock(text, f"from the provider {provider.name}")


def _checked(block: object) -> str:
    """The text of a block; raises `TypeError` or `UnicodeEncodeError` if it is not a text."""
    if block is None:
        return ""
    if not isinstance(block, str):
        raise TypeError(f"a block is a text or None, not {type(block).__name__}")
    block.encode()
    return block.strip()


@dataclass(frozen=True, slots=True)
class DynamicContexts:
    """Adds the server's blocks to a message; without `bases`, none about knowledge bases."""

    store: Store
    blocks: Blocks = field(default_factory=Blocks)
    bases: KbMetaPrompts | None = None

    async def added(
        self, identity: Identity, conversation_id: str, message: Message, kb_meta_prompt: str | None = None
    ) -> Message:
        """The message with its blocks: knowledge bases first, then those of the providers.

        `kb_meta_prompt` replaces the block about knowledge bases; "" leaves it out. Raises `NotFound` for a
        conversation that is not the sender's, and what a provider raises.
        """
        conversation = await self.store.conversations.conversation(identity.caller, conversation_id)
        bases = await self._bases(identity.caller, conversation, message)
        told = [*bases, *message.blocks]
        if kb_meta_prompt is not None:
            # Which static text the bases need, and what no answer may repeat, holds all the same.
            told = [replace(block, text="") for block in bases]
            told += [DynamicBlock(kb_meta_prompt, "from the request's kb_meta_prompt"), *message.blocks]
        own = await self.blocks.build(BlockScope(identity, conversation, message.text))
        kept = (block for block in told if block.text or block.prompt)
        return replace(message, blocks=(*kept, *own))

    async def _bases(self, caller: Caller, conversation: Conversation, message: Message) -> tuple[DynamicBlock, ...]:
        if self.bases is None:
            return ()
        choices = message.choices
        agent_id = conversation.agent_id if choices.agent_id is UNCHANGED else choices.agent_id
        return (await self.bases.block(caller, conversation.id, agent_id, choices.knowledge_base_ids),)
