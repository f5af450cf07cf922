"""Conversations, their sessions and what was spent in them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from lamella.core.records import (
    Caller,
    Conversation,
    ConversationChange,
    Job,
    Page,
    PageQuery,
    Totals,
)
from lamella.core.sessions import Session, SessionReturn, SessionStep, SessionSummary
from lamella.core.tokens import Usage


class ConversationStore(Protocol):
    """Conversations, their sessions and what was spent in them."""

    async def create_conversation(self, caller: Caller, conversation: Conversation) -> None:
        """Store a new conversation of the caller, in a first session that the store names."""
        ...

    async def conversation(self, caller: Caller, conversation_id: str) -> Conversation:
        """One conversation."""
        ...

    async def conversations(self, caller: Caller, query: PageQuery) -> Page[Conversation]:
        """The caller's conversations."""
        ...

    async def change_conversation(
        self, caller: Caller, conversation_id: str, change: ConversationChange, at: datetime
    ) -> Conversation:
        """Change it, with the decisions that say so; raises `TurnInProgress` for what a running turn stands on."""
        ...

    async def title_conversation(self, caller: Caller, conversation_id: str, title: str) -> bool:
        """Give it a title that a model wrote; False, and nothing changes, where its title is not its first words."""
        ...

    async def delete_conversation(self, caller: Caller, conversation_id: str) -> None:
        """Remove it with everything that belongs to it; raises `TurnInProgress` while it answers."""
        ...

    async def session(self, caller: Caller, session_id: str) -> Session:
        """One session."""
        ...

    async def sessions(self, caller: Caller, conversation_id: str) -> tuple[Session, ...]:
        """All sessions of a conversation, the oldest first."""
        ...

    async def session_page(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Session]:
        """Some of the sessions of a conversation."""
        ...

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """Close the current session and open the next, whose number the store counts; gives it as stored.

        The messages of the turns behind `begins_after` on the path, the running one's included, are the new session's.
        A summary that the closed one had before it was opened again gives way to a new one. Raises `SessionMoved` when
        the conversation is no longer in the expected session, or left it meanwhile, `NotFound` for a foreign parent or
        a `begins_after` off the path, `LeaseLost` when it is the work of a `job` that another worker has by now; then
        nothing is stored.
        """
        ...

    async def return_to_session(self, caller: Caller, back: SessionReturn) -> Session:
        """Close the current session and open an earlier one again, from another head; gives it as it is now.

        The messages of the turns that are in its window are its own again. Raises `SessionMoved`, `TurnInProgress`, or
        `NotFound` for a head that does not follow what the session begins after; then nothing is stored.
        """
        ...

    async def summarise_session(self, caller: Caller, closed: Session, summary: SessionSummary) -> bool:
        """Give a session that is closed as `closed` is its summary, and add what that cost.

        False when it is open, was closed at another moment, or has a summary of all of it; then nothing is stored.
        """
        ...

    async def spend(self, caller: Caller, session_id: str, purpose: str, usage: Usage) -> None:
        """Add to a session what was spent on it beside its turns."""
        ...

    async def totals(self, caller: Caller, conversation_id: str) -> Totals:
        """What the conversation cost, and how many messages each of its sessions has."""
        ...
