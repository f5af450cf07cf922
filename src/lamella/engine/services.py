"""What the engine is given: a store and what all runs share.

The agent and the project of a conversation, as the store has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lamella.agent.inputs import AgentServices
from lamella.core.ports import Store
from lamella.core.records import Caller, Conversation, Surroundings
from lamella.engine.approvals import Approvals


class SurroundingsSource(Protocol):
    """Where agent and project of a conversation come from (`app`)."""

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> Surroundings:
        """What surrounds the conversation now; without `keep`, as a look ahead that changes nothing.

        Raises `NotFound` for an agent that is gone.
        """
        ...


@dataclass(frozen=True, slots=True)
class Services(AgentServices):
    """The store, and where agent and project of a conversation come from."""

    store: Store
    surroundings: SurroundingsSource
    approvals: Approvals = field(default_factory=Approvals)


class StoredSurroundings:
    """A `SurroundingsSource` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> Surroundings:
        """See `SurroundingsSource.of`. A turn that has neither agent nor project costs no query."""
        if keep and conversation.agent_id is None and conversation.project_id is None:
            return Surroundings()
        return await self._store.surroundings(caller, conversation.id, conversation.agent_id, keep=keep)
