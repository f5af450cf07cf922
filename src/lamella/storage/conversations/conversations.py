"""Conversations, and everything that was decided for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, or_, select, update

from lamella.core.errors import TurnInProgress
from lamella.core.records import (
    UNCHANGED,
    Caller,
    Conversation,
    ConversationChange,
    Page,
    PageQuery,
    StoredDecision,
)
from lamella.core.sessions import Session, SessionCause
from lamella.storage.conversations.decisions import Moment, decide, find_decision_page, find_decisions
from lamella.storage.database import Rows, reads, rows_changed, writes
from lamella.storage.grants import titles_held_back
from lamella.storage.jobs import forget_jobs
from lamella.storage.keys import forget_conversation_keys
from lamella.storage.library import find_agent, find_project
from lamella.storage.recall.sources import forget_said
from lamella.storage.rows import ask_row, find_row, owned_by, page_rows, recorder, values
from lamella.storage.tables import conversations, jobs, lines, recall_entries, sessions, turns

_conversation_of = recorder(Conversation, conversations.c)


def turn_in_progress(turn_id: str) -> TurnInProgress:
    """The error for a conversation that is still answering."""
    return TurnInProgress(
        "This conversation is still answering.",
        hint=f"Wait for the turn to end or stop it: POST /api/v1/turns/{turn_id}/stop.",
    )


def find_conversation(
    connection: Connection, caller: Caller, conversation_id: str, *, lock: bool = False
) -> Conversation:
    """The caller's conversation; `lock` keeps other writers away from it until the transaction ends."""
    return ask_conversation(connection, caller, conversation_id, lock=lock)()


def ask_conversation(
    connection: Connection, caller: Caller, conversation_id: str, *, lock: bool = False
) -> Callable[[], Conversation]:
    """Asks for it, see `ask_row`."""
    asked = ask_row(connection, conversations, caller, conversation_id, "conversation", lock=lock)
    return lambda: _conversation_of(asked())


def ask_conversation_of(connection: Connection, caller: Caller, turn_id: str) -> Callable[[], Conversation]:
    """Asks for the conversation of a turn, locked, see `ask_row`."""
    query = select(conversations).join(turns, turns.c.conversation_id == conversations.c.id)
    its = (turns.c.id == turn_id, turns.c.owner == caller.user_id)
    asked = connection.execute(query.where(*its).with_for_update(of=conversations)).mappings()
    return lambda: _conversation_of(asked.one())


def shown_conversation(connection: Connection, caller: Caller, conversation_id: str) -> Conversation:
    """As `find_conversation`, with its title as it may be read now."""
    [shown] = _shown(connection, caller, [find_row(connection, conversations, caller, conversation_id, "conversation")])
    return shown


def _shown(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> tuple[Conversation, ...]:
    titles = titles_held_back(connection, caller, rows)
    return tuple(replace(_conversation_of(row), title=titles[row["id"]]) for row in rows)


_WINDOW = frozenset({"layout", "system_prompt", "tools"})
"""Columns that a decision names as changed from one request to the next: none lies in the middle of a turn."""


def _check_mine(connection: Connection, caller: Caller, agent_id: str | None, project_id: str | None) -> None:
    """Raises `NotFound` for an agent or a project that is not the caller's."""
    if agent_id is not None:
        find_agent(connection, caller, agent_id)
    if project_id is not None:
        find_project(connection, caller, project_id)


def _changed(change: ConversationChange) -> dict[str, Any]:
    """The columns that a change names."""
    given = {name: getattr(change, name) for name in ("title", "model", "layout", "marker_policy", "tools", "metadata")}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if change.title is not None:
        changed |= {"titled_by": "user" if change.title.strip() else "nobody", "title_made_from": ()}
    if change.system_prompt is not None:
        changed["system_prompt"] = change.system_prompt.text
        changed["system_prompt_version"] = change.system_prompt.version
    left = {name: getattr(change, name) for name in ("agent_id", "project_id", "thinking_effort")}
    return changed | {name: value for name, value in left.items() if value is not UNCHANGED}


class ConversationRows(Rows):
    """Conversations and their decisions."""

    @writes
    def create_conversation(self, connection: Connection, caller: Caller, conversation: Conversation) -> None:
        """Store a new conversation of the caller, in a first session that the store names."""
        first = Session(self._ids.new("sess"), conversation.id, 1, conversation.created_at, SessionCause.CREATED)
        _check_mine(connection, caller, conversation.agent_id, conversation.project_id)
        begun, owner = replace(conversation, session_id=first.id), caller.user_id
        connection.execute(insert(conversations), values(conversations, begun, owner=owner))
        connection.execute(insert(sessions), values(sessions, first, owner=owner))

    @reads
    def conversation(self, connection: Connection, caller: Caller, conversation_id: str) -> Conversation:
        """One conversation."""
        return shown_conversation(connection, caller, conversation_id)

    @reads
    def conversations(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[Conversation]:
        """The caller's conversations, without the lines of clients."""
        of_clients = select(lines.c.id).where(lines.c.owner == caller.user_id)
        own = select(conversations).where(
            conversations.c.owner == caller.user_id, conversations.c.id.not_in(of_clients)
        )
        rows = page_rows(connection, own, conversations.c.id, query)
        return Page(_shown(connection, caller, rows.data), rows.has_more)

    @writes
    def change_conversation(
        self, connection: Connection, caller: Caller, conversation_id: str, change: ConversationChange, at: datetime
    ) -> Conversation:
        """Change it, with the decisions that say so; raises `TurnInProgress` for what a running turn stands on."""
        changed = _changed(change)
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        if conversation.running_turn is not None and not changed.keys().isdisjoint(_WINDOW):
            raise turn_in_progress(conversation.running_turn)
        _check_mine(connection, caller, changed.get("agent_id"), changed.get("project_id"))
        this = owned_by(conversations, caller, conversation_id)
        connection.execute(update(conversations).where(*this).values(updated_at=at, **changed))
        decide(connection, self._ids, caller, Moment(conversation_id, at, conversation.head), change.decisions)
        return shown_conversation(connection, caller, conversation_id)

    @writes
    def title_conversation(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        title: str,
        made_from: tuple[str, ...] = (),
    ) -> bool:
        """Give it a title that a model wrote from these bases; False, and nothing changes, where its title is not its
        first words.
        """
        titled = (
            update(conversations)
            .where(*owned_by(conversations, caller, conversation_id), conversations.c.titled_by == "words")
            .values(title=title, titled_by="model", title_made_from=made_from)
        )
        find_conversation(connection, caller, conversation_id)
        return rows_changed(connection, titled) > 0

    @writes
    def delete_conversation(self, connection: Connection, caller: Caller, conversation_id: str) -> None:
        """Remove it with everything that belongs to it; raises `TurnInProgress` while it answers."""
        own_turns = select(turns.c.id).where(turns.c.conversation_id == conversation_id)
        own_sessions = select(sessions.c.id).where(sessions.c.conversation_id == conversation_id)
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        if conversation.running_turn is not None:
            raise turn_in_progress(conversation.running_turn)
        forget_conversation_keys(connection, caller, conversation_id)
        subject = jobs.c.subject
        forget_jobs(
            connection,
            caller,
            or_(subject == conversation_id, subject.in_(own_sessions), subject.in_(own_turns)),
        )
        forget_said(connection, caller, recall_entries.c.conversation_id == conversation_id)
        connection.execute(delete(conversations).where(*owned_by(conversations, caller, conversation_id)))

    @reads
    def decisions(self, connection: Connection, caller: Caller, conversation_id: str) -> tuple[StoredDecision, ...]:
        """Everything that was decided for a conversation, oldest first."""
        find_conversation(connection, caller, conversation_id)
        return find_decisions(connection, caller, conversation_id)

    @reads
    def decision_page(
        self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery
    ) -> Page[StoredDecision]:
        """The same by pages."""
        find_conversation(connection, caller, conversation_id)
        return find_decision_page(connection, caller, conversation_id, query)
