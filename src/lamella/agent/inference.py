"""One inference: the adapter's deltas become packets at once, and facts in the container.

`without_kept_back` takes out what an answer must not repeat, before anybody sees or stores it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing

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
    opened: OpenStep,
    emitter: Emitter,
    shown: ShownBlocks,
    citations: CitationWatch,
    began: Callable[[], None],
) -> dict[int, int]:
    """Drain one inference; gives the shown block of each provider block. Raises what the adapter raises.

    `began` is called once, when the provider has begun to answer.
    """
    places: dict[int, int] = {}
    sent = 0
    async with aclosing(stream) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
        async for delta in source:
            opened.feed(delta)
            if isinstance(delta, deltas.Opened):
                began()
            packet, block = _packet(delta, opened.call_ids)
            if packet is None or block is None:
                continue
            if block not in places:
                places[block] = shown.next()
            emitter.emit(packet, places[block])
            if isinstance(delta, deltas.TextDelta):
                for citation in await citations.text(places[block], delta.text):
                    emitter.emit(citation, places[block])
            if sent % BURST == 0:
                await asyncio.sleep(0)
            sent += 1
    for block, citation in await citations.end():
        emitter.emit(citation, block)
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


_BESIDE = (deltas.Opened, deltas.UsageReported, deltas.ThinkingDropped)
"""What may come in the middle of a text."""


async def without_kept_back(stream: AsyncIterator[Delta], kept: KeptBack) -> AsyncIterator[Delta]:
    """The same deltas, without that. Text that is held until more comes is given before what ends its block."""
    block, sieve = 0, Sieve(kept)
    async with aclosing(stream) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
        try:
            async for delta in source:
                is_more = isinstance(delta, deltas.TextDelta) and delta.block == block
                ends = not is_more and not isinstance(delta, _BESIDE)
                if ends and (rest := sieve.end()):
                    yield deltas.TextDelta(block, rest)
                if isinstance(delta, deltas.TextDelta):
                    if not is_more:
                        block, sieve = delta.block, Sieve(kept)
                    if shown := sieve.feed(delta.text):
                        yield deltas.TextDelta(block, shown)
                    continue
                yield delta
        except LamellaError:
            if rest := sieve.end():
                yield deltas.TextDelta(block, rest)
            raise
    if rest := sieve.end():
        yield deltas.TextDelta(block, rest)
