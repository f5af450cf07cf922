"""Conversations: as they are, and as they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lamella.core.agents import Agent, Project, Summary
from lamella.core.decisions import Decision
from lamella.core.messages import Attachment, Turn
from lamella.core.prompt import ToolSpec
from lamella.core.records.library import Place
from lamella.core.records.requests import LastBill, StoredDecision
from lamella.core.records.turns import LEAVE, Leave
from lamella.core.sessions import Session

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


@dataclass(frozen=True, slots=True)
class AgentAndProject:
    """What a conversation is surrounded by when a turn begins: its agent, and its project with numbered documents."""

    agent: Agent | None = None
    project: Project | None = None

    @property
    def files(self) -> tuple[Attachment, ...]:
        """Those of the project."""
        return self.project.files if self.project is not None else ()


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """What a turn of one model begins from at `place`: its conversation, the window's part of the path that leads
    there, the decisions that hold on it and the newest bill, of one moment.

    `session` is the one that the path stands in; the conversation may be in another. `summaries` stand before the turns
    of it: those of the sessions that it continues, the oldest first, and its own when it was closed once and is open
    again. `documents` are those that tools brought into the conversation, without their texts.
    `sent_before` is when the newest messages before the window were sent, the oldest first: how often somebody writes
    is not forgotten with a summary. `session_changes` counts the decisions that moved the conversation from one session
    to another, of every branch.
    """

    conversation: Conversation
    path: tuple[Turn, ...]
    decisions: tuple[StoredDecision, ...]
    last_bill: LastBill | None
    session: Session
    summaries: tuple[Summary, ...]
    place: Place
    documents: tuple[Attachment, ...] = ()
    session_changes: int = 0
    sent_before: tuple[datetime, ...] = ()
