"""What a conversation is surrounded by, found once when a turn begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lamella.core.agents import Agent, Project
from lamella.core.records import Caller, Conversation


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a conversation is surrounded by when a turn begins."""

    agent: Agent | None = None
    project: Project | None = None


class SurroundingsSource(Protocol):
    """Where agent and project of a conversation come from (`app`)."""

    async def of(self, caller: Caller, conversation: Conversation) -> Surroundings:
        """What surrounds the conversation now."""
        ...


class NoSurroundings:
    """A deployment without agents and projects."""

    async def of(self, caller: Caller, conversation: Conversation) -> Surroundings:
        """Nothing."""
        return Surroundings()
