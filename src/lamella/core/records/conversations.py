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
from lamella.core.records.turns import UNCHANGED, Unchanged
from lamella.core.sessions import Session

TitledBy = Literal["nobody", "words", "model", "user"]
"""Who wrote a title: `nobody` yet, the first `words` of the conversation, a `model`, or the `user`."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as a frontend knows it. `turns` are those of its messages, by the ids that the frontend chose."""

    conversation_id: str | None
    turns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. System prompt and tools are pinned when it begins, so its window never changes silently.

    `forked`: its turns are not one line of single answers. `head` is the last turn of its current path, and
    `head_run_id` the run that is continued; None if none is chosen yet. `system_prompt` is the text of version
    `system_prompt_version` of the owner's system prompts. `session_id` is its current session; the store makes the
    first one with it. `thinking_effort` None leaves it to the agent, then to the deployment.
    `observed`: it is a client's line (`Line`), which the engine does not continue. `metadata` are the owner's pairs,
    which models do not see.
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
    observed: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Its current position in the tree."""
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
    """The totals of a conversation: its cost in US dollars; by session id the number of messages, their tokens by the
    local count, and the beginning of the first question.

    `estimated`: the providers did not report the whole usage of some requests. Sessions with content of a knowledge
    base have no token counts here: a reader who lost access must not learn their length.
    """

    cost: float
    messages: Mapping[str, int]
    estimated: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversationChange:
    """A change of a conversation; None leaves a field. A change of the window also stores a decision."""

    title: str | None = None
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    system_prompt: SystemPrompt | None = None
    tools: tuple[ToolSpec, ...] | None = None
    agent_id: str | Unchanged | None = UNCHANGED
    project_id: str | Unchanged | None = UNCHANGED
    thinking_effort: str | Unchanged | None = UNCHANGED
    metadata: Mapping[str, str] | None = None
    decisions: Sequence[Decision] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class AgentAndProject:
    """A conversation's agent and its project with numbered documents, when a turn begins."""

    agent: Agent | None = None
    project: Project | None = None

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The project's files."""
        return self.project.files if self.project is not None else ()


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """Everything that a turn of one model needs at `place`, read at one moment: the conversation, the window's part of
    the path, the decisions that hold on it, and the newest bill.

    `session` is the session of the path; the conversation may be in another. `summaries` precede its turns: those of
    the sessions that it continues, oldest first, and its own if it was closed and is open again. `documents` are those
    that tools brought, without text. `sent_before` are the times of the newest messages before the window, oldest
    first, so that a user's pace survives a summary. `session_changes` counts the decisions of all branches that changed
    the session.
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
