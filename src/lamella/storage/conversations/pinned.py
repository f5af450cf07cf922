"""What stood around turns: stored where it is not what it was at the turn before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.json import digest
from lamella.core.records import Caller, NewTurn, Pinned
from lamella.storage.columns import PINNED, json_of, json_text, moment_text
from lamella.storage.tables import pinned


async def pin(connection: AsyncConnection, caller: Caller, turn: NewTurn, what: Pinned, at: datetime) -> None:
    """Store what stands around a turn, unless the same stood around the turn that began before it."""
    data = json_text(what)
    row = {
        "turn_id": turn.id,
        "owner": caller.user_id,
        "conversation_id": turn.conversation_id,
        "at": moment_text(at),
        "digest": digest(data.encode()),
        "data": data,
    }
    newest = (
        select(pinned.c.digest)
        .where(pinned.c.conversation_id == turn.conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at.desc())
        .limit(1)
    )
    if (await connection.execute(newest)).scalar_one_or_none() != row["digest"]:
        await connection.execute(insert(pinned).values(**row))


async def find_pinned(connection: AsyncConnection, caller: Caller, conversation_id: str) -> Mapping[str, Pinned]:
    """By the first turn of each, in the order in which they began."""
    query = (
        select(pinned.c.turn_id, pinned.c.data)
        .where(pinned.c.conversation_id == conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at)
    )
    rows = (await connection.execute(query)).all()
    return {turn_id: json_of(PINNED, data, f"what stood around turn {turn_id}") for turn_id, data in rows}
