"""Embedding of texts, and the index by which old messages are found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lamella.core.recall import Embedded, Found, Passage, PassageText, RecallQuery, Source, Space
from lamella.core.records import (
    Caller,
)


class Embedder(Protocol):
    """Texts as vectors, so that near ones mean about the same (SPEC L1)."""

    space: Space
    is_local: bool
    """Whether it asks nobody: then vectors are made with the index, else afterwards."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, all of one dimension; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


class RecallIndex(Protocol):
    """The passages that can be found again. Every verb is one transaction; a foreign id is not found.

    What waits to be indexed follows from what is stored, so a crash loses none of it.
    """

    async def waiting(self, model: str) -> tuple[tuple[Caller, str], ...]:
        """The conversations of every owner of which something has no passages, or no vectors of `model`."""
        ...

    async def unindexed(self, caller: Caller, conversation_id: str | None, limit: int) -> tuple[tuple[str, str], ...]:
        """Turns that have ended and have no passages yet, oldest first, with their conversations."""
        ...

    async def index_turn(self, caller: Caller, turn_id: str, passages: Sequence[Passage], model: str) -> bool:
        """Store the passages of a turn; False when that was done before, or the turn is gone."""
        ...

    async def unembedded(self, caller: Caller, conversation_id: str, model: str, limit: int) -> tuple[PassageText, ...]:
        """Passages that have no vector of `model`."""
        ...

    async def embed(self, caller: Caller, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give passages their vectors, by entry; those that are gone are passed over."""
        ...

    async def unembedded_summaries(self, caller: Caller, conversation_id: str, model: str) -> tuple[Source, ...]:
        """Summaries of sessions that have no vector of `model`."""
        ...

    async def index_summary(
        self, caller: Caller, summary: Source, vector: bytes, passages: Sequence[Passage], model: str
    ) -> bool:
        """Store the vector of a session's summary, and its passages in the place of earlier ones.

        False when the session has another summary by now, or is gone.
        """
        ...

    async def search(self, caller: Caller, query: RecallQuery) -> Found:
        """What of the caller's fits the query best; raises `NotFound` for a foreign conversation."""
        ...

    async def source(self, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id (the newest such call) or `MESSAGE/CALL`."""
        ...
