"""Agents, projects, summaries and dynamic context: what stands in the window besides the conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lamella.core.errors import InvalidRequest
from lamella.core.messages import Attachment


@dataclass(frozen=True, slots=True)
class Agent:
    """A custom agent. `prompt` may be empty: an agent can be tools, a model or a reminder alone.

    `replaces_system`: its prompt stands in place of the system prompt, and does not move. Then it has one.

    `tools` are the names of the tools it may use, None for all. `model` and `layout` are what its conversations begin
    with where nothing else is asked for; `thinking_effort` holds where a conversation has none of its own.
    `fallback_model` answers a turn whose model fails, None for the deployment's. `revision` counts its edits from 1.
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
    """Which of the static texts about knowledge bases a message needs: none, one, or the stricter one."""

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
