"""A way to a provider's model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lamella.core.deltas import Delta
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest


class ChatModel(Protocol):
    """A provider's wire protocol (`llm/`). Knows nothing of conversations."""

    facts: ModelFacts

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """The wire blocks of `prompt`, in cache order; `previous` only saves work where it is the same."""
        ...

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """The request of these blocks with these cache markers; at most 4, each on a markable block."""
        ...

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """What of the settings beside the blocks is part of the cache key, by the level that it changes first."""
        ...

    def body(self, request: WireRequest) -> dict[str, object]:
        """The JSON body, as it is handed to the provider's SDK."""
        ...

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """Send it and yield what comes back; raises a `ProviderError` and nothing else.

        Closing the iterator closes the connection.
        """
        ...

    async def count(self, request: WireRequest) -> int:
        """The provider's own count of the input, in tokens; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that can be asked, and the account whose cache it shares."""

    model: ChatModel
    account: str


class ModelSource(Protocol):
    """Where models come from (`app`)."""

    async def open(self, name: str) -> OpenModel:
        """The model of this name; raises `InvalidRequest` when none is configured that serves it."""
        ...
