"""Conversations: as they are, and as they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lamella.core.decisions import Decision
from lamella.core.prompt import ToolSpec
from lamella.core.records.places import Place
from lamella.core.records.turns import LEAVE, Leave

TitledBy = Literal["nobody", "words", "model", "user"]
"""Whose a title is: `nobody` has begun to speak; `words` are the first of the conversation; a `model` was asked."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. System prompt and tools are pinned when it begins, so that its window never changes silently.

    `forked`: its turns are more than one line of single answers.
    `head` is the last turn of its current path, and `head_run_id` the run whose answer is continued there; None while
    nobody chose and the turn runs. `system_prompt` is the text of version `system_prompt_version` of the
    owner's system prompts. `session_id` is the session that it is in: the store makes the first one with it.
    `thinking_effort` None leaves it to the agent, then to the deployment.
    """

    id: str
    title: str
    model: str
    layout: str
    marker_policy: str
    system_prompt: str
    tools: tuple[ToolSpec, ...]
    created_at: datetime
    updated_at: datetime
    head: str | None = None
    head_run_id: str | None = None
    running_turn: str | None = None
    agent_id: str | None = None
    project_id: str | None = None
    system_prompt_version: int = 0
    session_id: str = ""
    thinking_effort: str | None = None
    forked: bool = False
    titled_by: TitledBy = "nobody"

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.head, self.head_run_id)


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A version of an owner's system prompt, counted from 1. Version 0 ships and has no `created_at`."""

    version: int
    text: str
    note: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """What a conversation came to: its cost in US dollars; by session id its stored messages, their tokens by the local
    count, and how the first question begins.

    `estimated`: the providers did not say what some of its requests were billed. Sessions in which something of a
    knowledge base stands have no tokens here: a reader who lost access must not learn how long it was.
    """

    cost: float
    messages: Mapping[str, int]
    estimated: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversationChange:
    """What to change of a conversation; None leaves it. A decision is stored with a change of the window."""

    title: str | None = None
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    system_prompt: SystemPrompt | None = None
    tools: tuple[ToolSpec, ...] | None = None
    agent_id: str | Leave | None = LEAVE
    project_id: str | Leave | None = LEAVE
    thinking_effort: str | Leave | None = LEAVE
    decisions: Sequence[Decision] = field(default_factory=tuple)
