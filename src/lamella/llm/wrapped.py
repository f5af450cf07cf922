"""A model around another: everything goes through, but for what a kind of wrapper does in its own way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from lamella.core.deltas import Delta
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest


class WrappedModel:
    """A `ChatModel` that hands everything on."""

    def __init__(self, model: ChatModel) -> None:
        self.facts: ModelFacts = model.facts
        self._model = model

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return self._model.wire(prompt, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        return self._model.request(prompt, blocks, markers)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`."""
        return self._model.salts(sampling)

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return self._model.body(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        return self._model.stream(request, headers)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        return await self._model.count(request)

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._model.close()
