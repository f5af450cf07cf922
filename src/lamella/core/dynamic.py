"""Dynamic context as it is built: blocks that say why they are there, and what they come to together (SPEC W4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DynamicBlock:
    """One block. `why` is for people who look at a request: where it comes from. No model reads it."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class DynamicContext:
    """The text that goes with a message, and for each block in it why it is there."""

    text: str = ""
    whys: tuple[str, ...] = ()


def joined(blocks: Iterable[DynamicBlock]) -> DynamicContext:
    """The blocks that say something, in order, a blank line between them (SPEC W4, W5)."""
    kept = [block for block in blocks if block.text.strip()]
    return DynamicContext("\n\n".join(block.text for block in kept), tuple(block.why for block in kept))
