"""The tables of several processes on one database. A process that serves it alone leaves them empty.

They have no owner: a process serves everybody, and a signal goes with its conversation.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, String, Table

from lamella.storage.columns import Json, UtcMoment
from lamella.storage.tables.parts import metadata, part_of, row_id

processes = Table(
    "processes",
    metadata,
    row_id(),
    Column("name", String, nullable=False),
    Column("started_at", UtcMoment, nullable=False),
)
"""The processes that serve this database; `name` is that of a replica, or empty. A row is never changed: while it is
there, its process may write."""

process_beats = Table(
    "process_beats",
    metadata,
    Column("process_id", String, ForeignKey("processes.id", ondelete="CASCADE"), primary_key=True),
    Column("beat", Integer, nullable=False),
)
"""Signs of life: each process adds 1 to its beat each second."""

held_conversations = Table(
    "held_conversations",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("process_id", String, nullable=False),
)
"""The process that answers a conversation, runs its queue or follows up its turn. If that process is gone, another one
takes the conversation up. No row: nothing runs and nothing waits."""

signals = Table(
    "signals",
    metadata,
    row_id(),
    Column("process_id", String, nullable=False, index=True),
    part_of("conversation_id", "conversations.id"),
    Column("kind", String, nullable=False),
    Column("data", Json(dict[str, Any]), nullable=False),
)
"""What one process asks of the one that holds a conversation, such as a stop: `core.replicas.Signal`. A row is removed
when it is read."""
