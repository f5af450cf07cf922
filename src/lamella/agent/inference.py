"""One inference: deltas become packets at once, and data in the container.

`without_kept_back` removes what an answer must not repeat, before it is shown or stored. `until_stop` ends an answer
before a text that its caller named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from lamella.agent.citations import CitationWatch
from lamella.agent.container import OpenStep
from lamella.agent.hooks import Emitter
from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError
from lamella.core.messages import StopReason
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


class StopTexts:
    """The texts before which an answer ends. Text waits as long as one of them may begin in it. `met` is the one that
    came; `cut`: the answer was ended here, and not by its provider.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.met = ""
        self.cut = False
        self._texts, self._longest = texts, max(map(len, texts), default=0)
        self._held: deltas.TextDelta | None = None

    def through(self, delta: Delta) -> Iterator[Delta]:
        """What may be shown by now."""
        match delta:
            case deltas.TextDelta():
                if self._held is not None and self._held.block != delta.block:
                    yield from self.end()
                text = self._held.text + delta.text if self._held is not None else delta.text
                found = [(place, one) for one in self._texts if (place := text.find(one)) >= 0]
                if found:
                    place, self.met = min(found)
                else:
                    places = range(max(0, len(text) - self._longest + 1), len(text))
                    waiting = (n for n in places if any(one.startswith(text[n:]) for one in self._texts))
                    place = next(waiting, len(text))
                if text[:place]:
                    yield replace(delta, text=text[:place])
                self._held = replace(delta, text=text[place:]) if text[place:] and not found else None
            case deltas.Opened() | deltas.UsageReported() | deltas.ThinkingDropped():
                yield delta  # it may come in the middle of a text
            case _:
                yield from self.end()
                yield delta

    def end(self) -> Iterator[Delta]:
        """The text that waits: the block has ended."""
        held, self._held = self._held, None
        if held is not None:
            yield held


async def until_stop(stream: AsyncIterator[Delta], stops: StopTexts) -> AsyncIterator[Delta]:
    """The same deltas up to the first of some texts. The rest of the answer is not waited for."""
    async with aclosing(stream) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
        try:
            async for delta in source:
                for shown in stops.through(delta):
                    yield shown
                if stops.met:
                    stops.cut = True
                    yield deltas.Closed(StopReason.END_TURN, stopped_at=stops.met)
                    return
        except LamellaError:
            for shown in stops.end():
                yield shown
            raise
    for shown in stops.end():
        yield shown
