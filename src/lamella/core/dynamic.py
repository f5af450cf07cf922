"""Dynamic context as it is built: blocks that say why they are there, and what they come to together (SPEC W4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class KnowledgePrompt(StrEnum):
    """Which of the static texts about knowledge bases a message needs (SPEC W1, W8): none, one, or the stricter one."""

    NONE = ""
    NORMAL = "normal"
    RESTRICTED = "restricted"
    """Says what the normal one says too."""

    def covers(self, other: KnowledgePrompt) -> bool:
        """Whether who was told this needs not be told the other."""
        return self in (other, KnowledgePrompt.RESTRICTED) or other is KnowledgePrompt.NONE


@dataclass(frozen=True, slots=True)
class DynamicBlock:
    """One block. `why` is for people who look at a request: where it comes from. No model reads it.

    `prompt` is the static text that it needs, `hints` are what of it no answer may repeat; both hold for a block
    without a text too. `made_from` are the knowledge bases of which it says what only those may know who read all of
    them.
    """

    text: str
    why: str
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    hints: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicContext:
    """The text that goes with a message, and for each block in it why it is there; what else they say, of all."""

    text: str = ""
    whys: tuple[str, ...] = ()
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    hints: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()


def joined(blocks: Iterable[DynamicBlock]) -> DynamicContext:
    """The blocks that say something, in order, a blank line between them (SPEC W4, W5)."""
    given = list(blocks)
    kept = [block for block in given if block.text.strip()]
    return DynamicContext(
        "\n\n".join(block.text for block in kept),
        tuple(block.why for block in kept),
        strictest(block.prompt for block in given),
        tuple(dict.fromkeys(hint for block in given for hint in block.hints)),
        tuple(dict.fromkeys(base for block in kept for base in block.made_from)),
    )


def strictest(prompts: Iterable[KnowledgePrompt]) -> KnowledgePrompt:
    """The one of several that covers the others."""
    found = set(prompts)
    return next(
        (one for one in (KnowledgePrompt.RESTRICTED, KnowledgePrompt.NORMAL) if one in found), KnowledgePrompt.NONE
    )
