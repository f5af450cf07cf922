"""What stands around a conversation, kept as it was when something was asked."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.agents import Agent
from lamella.core.prompt import ToolSpec


@dataclass(frozen=True, slots=True)
class PinnedProject:
    """A project as it stood around a turn; its files by their ids."""

    id: str
    name: str
    instructions: str
    revision: int
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """What stood around a turn, or a request for a summary, as it was then: it can be edited and removed.

    `tools` are all that the conversation has, whatever its agent may use.
    """

    system: str
    tools: tuple[ToolSpec, ...] = ()
    agent: Agent | None = None
    project: PinnedProject | None = None
