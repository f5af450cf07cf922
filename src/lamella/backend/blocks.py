"""Dynamic context: blocks from registered providers, in the order of their names (SPEC W4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import structlog

from lamella.core.errors import ConfigurationError, LamellaError
from lamella.core.records import Caller, Conversation

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BlockScope:
    """For whom and for what a block is written."""

    caller: Caller
    conversation: Conversation
    text: str


class BlockProvider(Protocol):
    """Writes one block of the dynamic context, such as who the user is and what they may do.

    `name` gives the block its place: blocks stand in the order of the names.
    """

    name: str

    async def block(self, scope: BlockScope) -> str | None:
        """The block for this message; None or an empty text leaves it out."""
        ...


class Blocks:
    """The providers of a deployment; raises `ConfigurationError` when two have one name."""

    def __init__(self, providers: Iterable[BlockProvider] = ()) -> None:
        self._providers = sorted(providers, key=lambda provider: provider.name)
        for before, after in pairwise(self._providers):
            if before.name == after.name:
                raise ConfigurationError(
                    f"There are two providers of dynamic context named “{after.name}”.", hint="Rename one."
                )

    async def build(self, scope: BlockScope) -> tuple[str, ...]:
        """All blocks of a message, in order.

        Raises what a provider raises, as a `LamellaError` that names it: a message without what belongs to it, such as
        the user's permissions, is not sent.
        """
        made = await asyncio.gather(*(self._one(provider, scope) for provider in self._providers))
        return tuple(block for block in made if block)

    async def _one(self, provider: BlockProvider, scope: BlockScope) -> str:
        try:
            block = await provider.block(scope)
        except LamellaError:
            raise
        except Exception:  # the border where a deployment's own code becomes an error of ours; the cause is in the log
            log.exception("a provider of dynamic context failed", provider=provider.name)
            raise LamellaError(
                f"The dynamic context “{provider.name}” could not be made; the message was not sent.",
                hint="The server's log has the cause.",
            ) from None
        return block.strip() if block else ""
