"""Which knowledge bases conversations and agents search, and how often they did."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping, Table, delete, insert, select, update

from lamella.core.knowledge import Searcher
from lamella.core.records import Caller
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Rows, insert_missing, reads, writes
from lamella.storage.grants import titles_held_back
from lamella.storage.library import find_agent
from lamella.storage.tables import agents, conversations, knowledge_bindings, knowledge_calls


def _find_subject(connection: Connection, caller: Caller, subject_id: str) -> None:
    """Raises `NotFound` for what is neither a conversation nor an agent of the caller's."""
    if subject_id.startswith("agent_"):
        find_agent(connection, caller, subject_id)
    else:
        find_conversation(connection, caller, subject_id)


class BindingRows(Rows):
    """The verbs of `KnowledgeStore` about who searches what."""

    @writes
    def bind_bases(self, connection: Connection, caller: Caller, subject_id: str, base_ids: Sequence[str]) -> None:
        """Let a conversation or an agent search these bases, in place of those before; whether it may is decided each
        time.
        """
        of = knowledge_bindings.c
        rows = [
            {"subject_id": subject_id, "knowledge_base_id": base_id, "owner": caller.user_id, "position": position}
            for position, base_id in enumerate(dict.fromkeys(base_ids))
        ]
        _find_subject(connection, caller, subject_id)
        owned_by = (of.subject_id == subject_id, of.owner == caller.user_id)
        connection.execute(delete(knowledge_bindings).where(*owned_by))
        if rows:
            connection.execute(insert(knowledge_bindings), rows)

    @reads
    def bound_bases(self, connection: Connection, caller: Caller, subject_id: str) -> tuple[str, ...]:
        """The bases that a conversation or an agent searches, in order."""
        of = knowledge_bindings.c
        owned_by = (of.subject_id == subject_id, of.owner == caller.user_id)
        rows = connection.execute(select(of.knowledge_base_id).where(*owned_by).order_by(of.position))
        _find_subject(connection, caller, subject_id)
        return tuple(rows.scalars())

    @reads
    def searchers(self, connection: Connection, caller: Caller, base_id: str, limit: int) -> tuple[Searcher, ...]:
        """The caller's agents and conversations that search a base, the newest first."""
        of = knowledge_bindings.c
        bound = select(of.subject_id).where(of.knowledge_base_id == base_id, of.owner == caller.user_id)

        def those(table: Table) -> Sequence[RowMapping]:
            owned_by = select(table).where(table.c.owner == caller.user_id, table.c.id.in_(bound))
            return connection.execute(owned_by.order_by(table.c.id.desc()).limit(limit)).mappings().all()

        titles = titles_held_back(connection, caller, those(conversations))
        found = [Searcher("agent", row["id"], row["name"]) for row in those(agents)]
        found += [Searcher("conversation", id, title) for id, title in titles.items()]
        return tuple(found[:limit])

    @writes
    def count_search(
        self, connection: Connection, caller: Caller, conversation_id: str, turn_id: str
    ) -> tuple[int, int]:
        """Count one more search; gives how many the turn made, and how many the conversation did."""
        of = knowledge_calls.c
        row = {"conversation_id": conversation_id, "owner": caller.user_id, "calls": 0, "turn_id": "", "turn_calls": 0}
        find_conversation(connection, caller, conversation_id)
        insert_missing(connection, knowledge_calls, [row])
        this = of.conversation_id == conversation_id
        before = select(of.calls, of.turn_id, of.turn_calls).where(this)
        calls, of_turn, turn_calls = connection.execute(before).one()
        turn_calls = turn_calls + 1 if of_turn == turn_id else 1
        values = {"calls": calls + 1, "turn_id": turn_id, "turn_calls": turn_calls}
        connection.execute(update(knowledge_calls).where(this).values(**values))
        return turn_calls, calls + 1
