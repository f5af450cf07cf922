"""What a turn begins from, read in one transaction: it stands between a message and its first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lamella.core.agents import Summary
from lamella.core.decisions import window_start
from lamella.core.errors import NotFound
from lamella.core.records import Beginning, Caller
from lamella.core.sessions import Session, summaries_in_window
from lamella.storage.conversations import find_conversation, find_decisions
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.documents import find_documents
from lamella.storage.failures import damaged
from lamella.storage.requests import find_last_bill
from lamella.storage.sessions import find_sessions
from lamella.storage.turns import find_path

_SUMMARY_TOKENS = 8_000
"""The most that the summaries of earlier sessions hold together, the parent's aside (SPEC X-CHAIN)."""


def _summaries(sessions: Sequence[Session], current: Session) -> tuple[Summary, ...]:
    """The summaries before the turns of `current`: its ancestors', then its own from when it was closed (SPEC L4)."""
    found = summaries_in_window(sessions, current.id, _SUMMARY_TOKENS)
    if current.summary is None:
        return found
    return (*found, Summary(current.id, current.summary, current.summary_tokens))


class BeginningVerbs(Verbs):
    """The verb of `Store` that begins a turn's reading."""

    @uninterrupted
    async def beginning(
        self, caller: Caller, conversation_id: str, model: str, session_id: str | None = None
    ) -> Beginning:
        """What a turn of `model` begins from, or began from at the end of a closed session."""
        async with self._database.reading() as connection:
            conversation = await find_conversation(connection, caller, conversation_id)
            decisions = await find_decisions(connection, caller, conversation_id)
            sessions = await find_sessions(connection, caller, conversation_id)
            wanted = session_id or conversation.session_id
            current = next((session for session in sessions if session.id == wanted), None)
            if current is None:
                if session_id is not None:
                    raise NotFound(f"This conversation has no session {session_id}.", param="session_id")
                raise damaged(f"conversation {conversation_id}", f"session {conversation.session_id} is missing")
            shown, after = conversation, window_start([d.decision for d in decisions])
            if current.closed_at is not None:
                shown, after = replace(conversation, head=current.ends_with), current.begins_after
            return Beginning(
                conversation=conversation,
                path=await find_path(connection, caller, shown, after),
                decisions=decisions,
                last_bill=await find_last_bill(connection, caller, conversation_id, model),
                session=current,
                summaries=_summaries(sessions, current),
                documents=await find_documents(connection, caller, conversation_id),
            )
