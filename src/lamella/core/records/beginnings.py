"""What a turn begins from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lamella.core.agents import Agent, Project, Summary
from lamella.core.messages import Attachment, Turn
from lamella.core.records.conversations import Conversation
from lamella.core.records.places import Place
from lamella.core.records.requests import LastBill, StoredDecision
from lamella.core.sessions import Session


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
    again (SPEC L4). `documents` are those that tools brought into the conversation, without their texts.
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
