"""Threads: conversations under the ids that a frontend chose, for them and for their messages."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from lamella.core.records import Caller, Thread
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.paths import find_turn
from lamella.storage.database import Rows, reads, writes
from lamella.storage.tables import thread_messages as table


class ThreadRows(Rows):
    """Threads of frontends. Different owners may choose the same ids."""

    @reads
    def thread(self, connection: Connection, caller: Caller, thread_id: str) -> Thread:
        """The caller's thread; one without a conversation if nothing of it is stored."""
        this = (table.c.owner == caller.user_id, table.c.thread_id == thread_id)
        rows = connection.execute(select(table.c.message_id, table.c.conversation_id, table.c.turn_id).where(*this))
        found = rows.all()
        return Thread(found[0].conversation_id if found else None, {row.message_id: row.turn_id for row in found})

    @writes
    def name_messages(
        self, connection: Connection, caller: Caller, thread_id: str, turn_id: str, message_ids: Iterable[str]
    ) -> None:
        """Say what the frontend calls the messages of a turn; a message that had another turn has this one now."""
        turn = find_turn(connection, caller, turn_id)
        conversation = find_conversation(connection, caller, turn["conversation_id"])
        this = {"owner": caller.user_id, "thread_id": thread_id}
        for message_id in dict.fromkeys(message_ids):
            same = (table.c.owner == caller.user_id, table.c.thread_id == thread_id, table.c.message_id == message_id)
            connection.execute(delete(table).where(*same))
            named = {"message_id": message_id, "conversation_id": conversation.id, "turn_id": turn_id}
            connection.execute(insert(table), this | named)
