"""Embedding of texts, and the index by which old messages are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lamella.core.recall import Embedded, Space


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
