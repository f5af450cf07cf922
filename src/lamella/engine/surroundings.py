"""What a conversation is surrounded by, found once when a turn begins."""

from __future__ import annotations

from typing import Protocol

from lamella.core.records import Caller, Conversation, Surroundings

__all__ = ["NoSurroundings", "Surroundings", "SurroundingsSource"]


class SurroundingsSource(Protocol):
    """Where agent and project of a conversation come from (`app`)."""

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> Surroundings:
        """What surrounds the conversation now; without `keep`, as a look ahead that changes nothing.

        Raises `NotFound` for an agent that is gone.
        """
        ...


class NoSurroundings:
    """A deployment without agents and projects."""

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> Surroundings:
        """Nothing."""
        return Surroundings()
