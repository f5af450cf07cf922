"""Agents, projects, summaries and dynamic context: the parts of the window that are not messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lamella.core.errors import InvalidRequest
from lamella.core.messages import Attachment


@dataclass(frozen=True, slots=True)
class Agent:
    """A custom agent. `prompt` may be empty, for example for an agent that only chooses tools, a model or a reminder.

    `replaces_system`: its prompt replaces the system prompt, in the same place. It then must not be empty.

    `tools` are the names of its tools, None for all. `model` and `layout` are the defaults of its conversations;
    `thinking_effort` holds if a conversation has none. `fallback_model` answers a turn whose model fails, None for the
    deployment's. `revision` counts its edits from 1.
    """

    id: str
    name: str
    prompt: str
    reminder: str = ""
    replaces_system: bool = False
    tools: tuple[str, ...] | None = None
    model: str | None = None
    layout: str | None = None
    revision: int = 1
    thinking_effort: str | None = None
    fallback_model: str | None = None


def check_prompt(prompt: str, *, replaces_system: bool) -> None:
    """Raises `InvalidRequest` for an agent that would leave a conversation without any system prompt."""
    if replaces_system and not prompt.strip():
        raise InvalidRequest(
            "The agent replaces the system prompt, and its prompt is empty.",
            hint="Write a prompt, or set replaces_system to false.",
            param="prompt",
        )


@dataclass(frozen=True, slots=True)
class Project:
    """Files and instructions that belong to every conversation of a project.

    The documents of `files` are numbered for one conversation. `revision` counts its edits from 1.
    """

    id: str
    name: str
    instructions: str = ""
    files: tuple[Attachment, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an earlier session. Summaries are never merged into each other.

    `made_from`, `withheld`: see `Step`.
    """

    id: str
    text: str
    tokens: int
    made_from: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


class KnowledgePrompt(StrEnum):
    """The static text about knowledge bases that a message needs: none, the normal one, or the stricter one."""

    NONE = ""
    NORMAL = "normal"
    RESTRICTED = "restricted"
    """Includes what the normal one says."""

    def covers(self, other: KnowledgePrompt) -> bool:
        """Whether this text includes `other`, so that a window with it does not need `other`."""
        return self in (other, KnowledgePrompt.RESTRICTED) or other is KnowledgePrompt.NONE


@dataclass(frozen=True, slots=True)
class DynamicBlock:
    """One block of dynamic context. `why` says where it comes from; people see it in the map, models do not.

    `prompt` is the static text that it needs. `hints` are texts in it that no answer may repeat. Both apply to a block
    without text too. `made_from` are the knowledge bases whose restricted content it contains.
    """

    text: str
    why: str
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    hints: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicContext:
    """The dynamic context of a message: its text, a reason for each block, and the sum of the blocks' other fields."""

    text: str = ""
    whys: tuple[str, ...] = ()
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    hints: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()


def joined(blocks: Iterable[DynamicBlock]) -> DynamicContext:
    """The blocks that say something, in order, a blank line between them."""
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
