"""Counts the changes of an owner's passages, so that what is kept of them in memory is known to be stale."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from lamella.core.records import Caller
from lamella.storage.database import insert_missing
from lamella.storage.tables import recall_entries, recall_versions


def recall_version(connection: Connection, caller: Caller) -> int:
    """How often passages of this owner were changed or removed."""
    query = select(recall_versions.c.changed).where(recall_versions.c.owner == caller.user_id)
    found = connection.execute(query).scalar_one_or_none()
    return 0 if found is None else int(found)


def touch_recall(connection: Connection, caller: Caller) -> None:
    """Passages were changed or removed, or belong to another session now."""
    insert_missing(connection, recall_versions, [{"owner": caller.user_id, "changed": 0}])
    connection.execute(
        update(recall_versions)
        .where(recall_versions.c.owner == caller.user_id)
        .values(changed=recall_versions.c.changed + 1)
    )


def forget_source(connection: Connection, caller: Caller, source_id: str) -> None:
    """Remove the passages of a message or a summary that is no longer what it was."""
    mine = (recall_entries.c.owner == caller.user_id, recall_entries.c.source_id == source_id)
    connection.execute(delete(recall_entries).where(*mine))
    touch_recall(connection, caller)


def forget_recall(connection: Connection, caller: Caller, conversation_id: str) -> None:
    """Remove the passages of a conversation that is removed."""
    mine = (recall_entries.c.owner == caller.user_id, recall_entries.c.conversation_id == conversation_id)
    result = connection.execute(delete(recall_entries).where(*mine))
    if result.rowcount > 0:
        touch_recall(connection, caller)
