"""Idempotency keys: a request that comes twice is answered with what the first one made."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, func, literal, or_, select, update

from lamella.core.errors import IdempotencyMismatch
from lamella.core.records import Caller
from lamella.storage.database import Rows, insert_missing, rows_changed, writes
from lamella.storage.tables import idempotency_keys as keys
from lamella.storage.tables import notices, queued_messages, turns

KEYS_LAST = timedelta(hours=24)
"""How long an idempotency key returns what it created first. Later the key creates something new."""

AGAIN = timedelta(milliseconds=1)
"""How much later a key counts as claimed for each request that came with it again."""


def forget_keys(connection: Connection, caller: Caller, result_id: str) -> None:
    """Forget the keys of something that is removed: asked for again, it is made anew."""
    owned_by = (keys.c.owner == caller.user_id, keys.c.result_id == result_id)
    connection.execute(delete(keys).where(*owned_by))


def forget_conversation_keys(connection: Connection, caller: Caller, conversation_id: str) -> None:
    """Forget the keys of a conversation that is removed, of its turns and its commands, those that wait included."""
    waits = queued_messages.c.conversation_id == conversation_id
    # What waits is stored as queued_x for a message whose turn will be turn_x, or a command answered by note_x.
    behind = func.substr(queued_messages.c.id, len("queued_") + 1)
    made = (
        select(turns.c.id).where(turns.c.conversation_id == conversation_id),
        select(notices.c.id).where(notices.c.conversation_id == conversation_id),
        select(literal("turn_") + behind).where(waits),
        select(literal("note_") + behind).where(waits),
    )
    of = or_(keys.c.result_id == conversation_id, *(keys.c.result_id.in_(ids) for ids in made))
    connection.execute(delete(keys).where(keys.c.owner == caller.user_id, of))


def _expired(now: datetime) -> ColumnElement[bool]:
    return keys.c.at < now - KEYS_LAST


def has_key(connection: Connection, caller: Caller, key: str, result_id: str) -> bool:
    """Whether a key is bound to `result_id`."""
    query = select(keys.c.result_id).where(keys.c.owner == caller.user_id, keys.c.key == key)
    return bool(connection.execute(query).scalar() == result_id)


class KeyRows(Rows):
    """Idempotency keys."""

    @writes
    def claim_key(
        self,
        connection: Connection,
        caller: Caller,
        key: str,
        route: str,
        fingerprint: str,
        result_id: str,
        at: datetime,
    ) -> str:
        """Bind an Idempotency-Key to `result_id`, or give the id it was bound to before; what is expired is not bound.

        Raises `IdempotencyMismatch` when the key came with another route or fingerprint.
        """
        row = {
            "owner": caller.user_id,
            "key": key,
            "route": route,
            "fingerprint": fingerprint,
            "result_id": result_id,
            "at": at,
        }
        this = (keys.c.owner == caller.user_id, keys.c.key == key)
        query = select(keys.c.route, keys.c.fingerprint, keys.c.result_id, keys.c.at).where(*this)
        connection.execute(delete(keys).where(*this, _expired(at)))
        insert_missing(connection, keys, [row])
        bound = connection.execute(query).mappings().one()
        if (bound["route"], bound["fingerprint"]) != (route, fingerprint):
            raise IdempotencyMismatch(
                "This Idempotency-Key came before, with another request.",
                hint="Use a new key for a new request.",
                param="Idempotency-Key",
            )
        result: str = bound["result_id"]
        if result != result_id:  # who bound it does not release it any more: see `release_key`
            connection.execute(update(keys).where(*this).values(at=bound["at"] + AGAIN))
        return result

    @writes
    def release_key(
        self,
        connection: Connection,
        caller: Caller,
        key: str,
        result_id: str | None = None,
        *,
        claimed_at: datetime | None = None,
    ) -> None:
        """Forget a key whose request stored nothing; with `result_id` only if it is bound to that.

        With `claimed_at`, the time of its claim, only if it did not come again since: the other request may be about to
        store what the key is bound to.
        """
        forgotten = delete(keys).where(keys.c.owner == caller.user_id, keys.c.key == key)
        if claimed_at is not None:
            forgotten = forgotten.where(keys.c.at == claimed_at)
        if result_id is not None:
            forgotten = forgotten.where(keys.c.result_id == result_id)
        connection.execute(forgotten)

    @writes
    def forget_expired_keys(self, connection: Connection, now: datetime) -> int:
        """Forget everybody's keys whose time is over; gives how many."""
        return rows_changed(connection, delete(keys).where(_expired(now)))
