"""One inference: deltas become packets at once, and data in the container.

`without_kept_back` removes what an answer must not repeat, before it is shown or stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace

from lamella.agent.citations import CitationWatch
from lamella.agent.container import OpenStep
from lamella.agent.hooks import Emitter
from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError
from lamella.core.packets import (
    Packet,
    ReasoningPacket,
    TextPacket,
    ToolArgsPacket,
    ToolCallPacket,
)
from lamella.guard.kept_back import KeptBack, Sieve

BURST = 16
"""Packets after which others get their turn: a provider's burst is read without waiting, and would be shown at once."""


class ShownBlocks:
    """Numbers the blocks of a run as they are shown: reasoning, text and each call are separate."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether a block was shown."""
        return self._count > 0

    def next(self) -> int:
        """The number of a new block."""
        self._count += 1
        return self._count - 1


async def run_step(
    stream: AsyncIterator[Delta],
    step: OpenStep,
    emitter: Emitter,
    shown: ShownBlocks,
    citations: CitationWatch,
    began: Callable[[], None],
) -> dict[int, int]:
    """Drain one inference. Returns the shown block of each provider block. Raises what the adapter raises.

    `began` is called once, when the provider began to answer.
    """
    places: dict[int, int] = {}
    sent = 0
    async with aclosing(stream) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
        async for delta in source:
            step.feed(delta)
            if isinstance(delta, deltas.Opened):
                began()
            packet, block = _packet(delta, step.call_ids)
            if packet is None or block is None:
                continue
            if block not in places:
                for cited, citation in await citations.end():
                    emitter.emit(citation, cited)
                places[block] = shown.next()
            emitter.emit(packet, places[block])
            if isinstance(delta, deltas.TextDelta):
                for citation in await citations.text(places[block], delta.text):
                    emitter.emit(citation, places[block])
            if sent % BURST == 0:
                await asyncio.sleep(0)
            sent += 1
    for cited, citation in await citations.end():
        emitter.emit(citation, cited)
    return places


def _packet(delta: Delta, call_ids: Mapping[int, str]) -> tuple[Packet | None, int | None]:
    match delta:
        case deltas.TextDelta(block, text):
            return TextPacket(text=text), block
        case deltas.ReasoningDelta(block, text):
            return ReasoningPacket(text=text), block
        case deltas.ToolCallOpened(block, _, name):
            return ToolCallPacket(call_id=call_ids[block], name=name), block
        case deltas.ToolArgsDelta(block, json):
            return ToolArgsPacket(call_id=call_ids[block], json=json), block
        case _:
            return None, None


async def without_kept_back(stream: AsyncIterator[Delta], kept: KeptBack) -> AsyncIterator[Delta]:
    """The same deltas without protected text. Held text is sent before the delta that ends its block.

    Thinking that lost text loses its signature too: the provider accepts it unchanged or not at all.
    """
    passing = _Passing(kept)
    async with aclosing(stream) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
        try:
            async for delta in source:
                for shown in passing.through(delta):
                    yield shown
        except LamellaError:
            for shown in passing.end():
                yield shown
            raise
    for shown in passing.end():
        yield shown


class _Passing:
    """The text or thinking that passes, block by block."""

    def __init__(self, kept: KeptBack) -> None:
        self._kept = kept
        self._sieve = Sieve(kept)
        self._last: deltas.TextDelta | deltas.ReasoningDelta | None = None
        self._changed: set[int] = set()
        """Blocks of thinking of which something was left out."""

    def through(self, delta: Delta) -> Iterator[Delta]:
        """What may be shown by now."""
        match delta:
            case deltas.TextDelta() | deltas.ReasoningDelta():
                if self._last is None or (type(delta), delta.block) != (type(self._last), self._last.block):
                    yield from self.end()
                self._last = delta
                if shown := self._sieve.feed(delta.text):
                    yield replace(delta, text=shown)
            case deltas.ReasoningSealed(block, redacted=redacted):
                yield from self.end()
                if block not in self._changed or redacted is not None:
                    yield delta
            case deltas.Opened() | deltas.UsageReported() | deltas.ThinkingDropped():
                yield delta  # it may come in the middle of a text
            case _:
                yield from self.end()
                yield delta

    def end(self) -> Iterator[Delta]:
        """The rest of the block."""
        if self._last is not None and (rest := self._sieve.end()):
            yield replace(self._last, text=rest)
        if isinstance(self._last, deltas.ReasoningDelta) and self._sieve.left_out:
            self._changed.add(self._last.block)
        self._last, self._sieve = None, Sieve(self._kept)
