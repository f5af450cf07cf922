"""Conversations, and everything that was decided for them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.errors import NotFound, TurnInProgress
from lamella.core.records import Caller, Conversation, ConversationChange, Page, PageQuery, StoredDecision
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.mapping import conversation_of, conversation_row, decision_of, decision_row
from lamella.storage.pages import page
from lamella.storage.schema import conversations, decisions, idempotency_keys, turns


def turn_in_progress(turn_id: str) -> TurnInProgress:
    """The answer to whoever wants a conversation that is still answering."""
    return TurnInProgress(
        "This conversation is still answering.",
        hint=f"Wait for the turn to end or stop it: POST /api/v1/turns/{turn_id}/stop.",
    )


async def find_conversation(
    connection: AsyncConnection, caller: Caller, conversation_id: str, *, lock: bool = False
) -> Conversation:
    """The caller's conversation; `lock` keeps other writers away from it until the transaction ends."""
    query = select(conversations).where(conversations.c.id == conversation_id, conversations.c.owner == caller.user_id)
    row = (await connection.execute(query.with_for_update() if lock else query)).mappings().first()
    if row is None:
        raise NotFound(f"There is no conversation {conversation_id}.", param="conversation_id")
    return conversation_of(row)


async def find_decisions(
    connection: AsyncConnection, caller: Caller, conversation_id: str
) -> tuple[StoredDecision, ...]:
    """Everything that was decided for a conversation, oldest first."""
    query = (
        select(decisions)
        .where(decisions.c.conversation_id == conversation_id, decisions.c.owner == caller.user_id)
        .order_by(decisions.c.at, decisions.c.id)
    )
    return tuple(map(decision_of, (await connection.execute(query)).mappings()))


class ConversationVerbs(Verbs):
    """The verbs of `Store` about conversations and decisions."""

    @uninterrupted
    async def create_conversation(self, caller: Caller, conversation: Conversation) -> None:
        """Store a new conversation of the caller."""
        row = conversation_row(caller.user_id, conversation)
        async with self._database.writing() as connection:
            await connection.execute(insert(conversations), row)

    @uninterrupted
    async def conversation(self, caller: Caller, conversation_id: str) -> Conversation:
        """One conversation."""
        async with self._database.reading() as connection:
            return await find_conversation(connection, caller, conversation_id)

    @uninterrupted
    async def conversations(self, caller: Caller, query: PageQuery) -> Page[Conversation]:
        """The caller's conversations."""
        mine = select(conversations).where(conversations.c.owner == caller.user_id)
        async with self._database.reading() as connection:
            rows, has_more = await page(connection, mine, conversations.c.id, query)
        return Page(tuple(map(conversation_of, rows)), has_more)

    @uninterrupted
    async def change_conversation(
        self, caller: Caller, conversation_id: str, change: ConversationChange, at: datetime
    ) -> Conversation:
        """Change it, with the decisions that say so."""
        values = {
            name: value for name, value in (("title", change.title), ("model", change.model)) if value is not None
        }
        changed = (
            update(conversations)
            .where(conversations.c.id == conversation_id, conversations.c.owner == caller.user_id)
            .values(updated_at=moment_text(at), **values)
        )
        rows = [
            decision_row(caller.user_id, conversation_id, self._ids.new("dec"), at, decision)
            for decision in change.decisions
        ]
        async with self._database.writing() as connection:
            await find_conversation(connection, caller, conversation_id, lock=True)
            await connection.execute(changed)
            if rows:
                await connection.execute(insert(decisions), rows)
            return await find_conversation(connection, caller, conversation_id)

    @uninterrupted
    async def delete_conversation(self, caller: Caller, conversation_id: str) -> None:
        """Remove it with everything that belongs to it; raises `TurnInProgress` while it answers."""
        mine = turns.c.conversation_id == conversation_id
        results = select(turns.c.id).where(mine)
        async with self._database.writing() as connection:
            conversation = await find_conversation(connection, caller, conversation_id, lock=True)
            if conversation.running_turn is not None:
                raise turn_in_progress(conversation.running_turn)
            await connection.execute(
                delete(idempotency_keys).where(
                    idempotency_keys.c.owner == caller.user_id,
                    or_(
                        idempotency_keys.c.result_id == conversation_id,
                        idempotency_keys.c.result_id.in_(results),
                    ),
                )
            )
            await connection.execute(
                delete(conversations).where(
                    conversations.c.id == conversation_id, conversations.c.owner == caller.user_id
                )
            )

    @uninterrupted
    async def decisions(self, caller: Caller, conversation_id: str) -> tuple[StoredDecision, ...]:
        """Everything that was decided for a conversation, oldest first."""
        async with self._database.reading() as connection:
            await find_conversation(connection, caller, conversation_id)
            return await find_decisions(connection, caller, conversation_id)
