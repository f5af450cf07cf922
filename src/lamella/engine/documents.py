"""The documents that tools bring into a conversation while a turn runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lamella.core.clock import Clock
from lamella.core.messages import Attachment
from lamella.core.ports import Store
from lamella.core.records import FoundDocument
from lamella.core.tokens import TokenCounter
from lamella.engine.inputs import TurnInput


class KeptDocuments:
    """The `Documents` of a turn's calls, over a store; `kept` are those of this turn, with their texts.

    `made_from` are the knowledge bases of which something stands in the window that the running calls come from.
    """

    def __init__(self, store: Store, clock: Clock, counter: TokenCounter, turn: TurnInput) -> None:
        self._store = store
        self._clock = clock
        self._counter = counter
        self._turn = turn
        self.kept: tuple[Attachment, ...] = ()
        self.made_from: frozenset[str] = frozenset()

    async def keep(self, found: FoundDocument) -> Attachment:
        """See `Documents`."""
        turn = self._turn
        tokens = await asyncio.to_thread(self._counter.count, found.text)
        made = replace(found, made_from=tuple(sorted(self.made_from.union(found.made_from))))
        kept = await self._store.keep_document(turn.caller, turn.conversation.id, made, tokens, self._clock.now())
        self.kept = (*(other for other in self.kept if other.file_id != kept.file_id), kept)
        return kept

    async def text(self, document_id: str) -> str:
        """See `Documents`."""
        return (await self._store.document(self._turn.caller, document_id)).text or ""
