"""The agent and the project of a conversation, as the store has them."""

from __future__ import annotations

from lamella.core.ports import Store
from lamella.core.records import Caller, Conversation, Surroundings


class StoredSurroundings:
    """A `SurroundingsSource` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> Surroundings:
        """See `SurroundingsSource.of`. A turn that has neither agent nor project costs no query."""
        if keep and conversation.agent_id is None and conversation.project_id is None:
            return Surroundings()
        return await self._store.surroundings(caller, conversation.id, conversation.agent_id, keep=keep)
