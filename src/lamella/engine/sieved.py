"""A model's stream without what its answer must not repeat: taken out before anybody sees or stores it (SPEC W8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError
from lamella.guard.kept_back import KeptBack, Sieve

_BESIDE = (deltas.Opened, deltas.UsageReported, deltas.ThinkingDropped)
"""What may come in the middle of a text."""


async def sieved(stream: AsyncIterator[Delta], kept: KeptBack) -> AsyncIterator[Delta]:
    """The same deltas, the texts of answers sieved. What waits comes before whatever ends its text."""
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
