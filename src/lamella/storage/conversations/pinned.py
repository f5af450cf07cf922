"""What stood around a conversation: stored where it is not what it was the time before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from lamella.core.json import digest
from lamella.core.records import Caller, Pinned
from lamella.storage.columns import PINNED, json_of, json_text, moment_text
from lamella.storage.tables import pinned


@dataclass(frozen=True, slots=True)
class PinnedTo:
    """What it is pinned to: a turn that begins, or a request beside the turns."""

    id: str
    conversation_id: str
    at: datetime


def pin(connection: Connection, caller: Caller, to: PinnedTo, what: Pinned) -> None:
    """Store what stands around a conversation, unless the same did the last time that it was stored."""
    data = json_text(what)
    row = {
        "id": to.id,
        "owner": caller.user_id,
        "conversation_id": to.conversation_id,
        "at": moment_text(to.at),
        "digest": digest(data.encode()),
        "data": data,
    }
    newest = (
        select(pinned.c.digest)
        .where(pinned.c.conversation_id == to.conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at.desc())
        .limit(1)
    )
    if connection.execute(newest).scalar_one_or_none() != row["digest"]:
        connection.execute(insert(pinned).values(**row))


def find_pinned(connection: Connection, caller: Caller, conversation_id: str) -> tuple[tuple[datetime, Pinned], ...]:
    """What stood around a conversation from which moment on, the oldest first."""
    query = (
        select(pinned.c.at, pinned.c.data)
        .where(pinned.c.conversation_id == conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at)
    )
    rows = connection.execute(query).all()
    what = f"what stood around {conversation_id}"
    return tuple((datetime.fromisoformat(at), json_of(PINNED, data, what)) for at, data in rows)
