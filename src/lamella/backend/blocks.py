"""The open hook of the dynamic context: providers write blocks, in their order, each within a time (SPEC W4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import structlog

from lamella.core.access import Identity
from lamella.core.agents import DynamicBlock
from lamella.core.errors import ConfigurationError, DynamicContextFailed, LamellaError
from lamella.core.records import Caller, Conversation

log = structlog.get_logger()

SECONDS = 5.0
"""How long a provider may take where nothing else is set."""


@dataclass(frozen=True, slots=True)
class BlockScope:
    """For whom and for what a block is written: who asks as the server knows them, where, and the message's text."""

    identity: Identity
    conversation: Conversation
    text: str

    @property
    def caller(self) -> Caller:
        """Whose data may be read for it."""
        return self.identity.caller


@runtime_checkable
class DynamicContextProvider(Protocol):
    """Writes one block of the dynamic context, such as who the user is and what they may do.

    Blocks stand in the order of `order`, of the same one in the order of `name`, which no other provider has. The same
    facts should give the same text: what changes with every message is sent, and paid, with every message.
    """

    name: str
    order: int

    async def block(self, scope: BlockScope) -> str | None:
        """The block for this message; None or an empty text leaves it out.

        A `LamellaError` is told to whoever sent the message as it is; of any other failure only the provider's name.
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

        Raises what the first provider that fails raises, as a `LamellaError` that names it: a message without what
        belongs to it, such as the user's permissions, is not sent.
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
    """The text of a block; raises `TypeError` or `UnicodeEncodeError` for what is none."""
    if block is None:
        return ""
    if not isinstance(block, str):
        raise TypeError(f"a block is a text or None, not {type(block).__name__}")
    block.encode()
    return block.strip()
