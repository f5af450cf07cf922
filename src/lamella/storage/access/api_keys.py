"""API keys: found by their prefix, kept as a digest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, or_, select, update

from lamella.core.access import Key, Role, Scope, User
from lamella.core.errors import NotFound
from lamella.core.records import Page, PageQuery
from lamella.storage.columns import NAMES, json_of, json_text, moment_text, word_of
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.pages import page
from lamella.storage.tables import api_keys, users


def key_row(key: Key) -> dict[str, Any]:
    """The row of a new key."""
    return {
        "id": key.id,
        "owner": key.user_id,
        "name": key.name,
        "prefix": key.prefix,
        "digest": key.digest,
        "scopes": json_text(sorted(key.scopes)),
        "issued_by": key.issued_by,
        "parent_id": key.parent_id,
        "created_at": moment_text(key.created_at),
        "expires_at": None if key.expires_at is None else moment_text(key.expires_at),
    }


def key_of(row: RowMapping) -> Key:
    """The key of a row; raises `StoreFailed` for a scope that there is not."""
    what = f"key {row['id']}"
    return Key(
        id=row["id"],
        user_id=row["owner"],
        name=row["name"],
        prefix=row["prefix"],
        digest=row["digest"],
        scopes=frozenset(word_of(Scope, word, what) for word in json_of(NAMES, row["scopes"], what)),
        issued_by=row["issued_by"],
        created_at=datetime.fromisoformat(row["created_at"]),
        expires_at=_moment(row["expires_at"]),
        parent_id=row["parent_id"],
        last_used_at=_moment(row["last_used_at"]),
        revoked_at=_moment(row["revoked_at"]),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _find(connection: Connection, user_id: str, key_id: str) -> Key:
    query = select(api_keys).where(api_keys.c.id == key_id, api_keys.c.owner == user_id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"There is no key {key_id}.", param="key_id")
    return key_of(row)


class ApiKeyVerbs(Verbs):
    """The verbs of `Directory` about keys."""

    @writes
    def add_key(self, connection: Connection, key: Key) -> Key:
        """Store a new key of a user."""
        known = select(users.c.id).where(users.c.id == key.user_id)
        if connection.execute(known).first() is None:
            raise NotFound(f"There is no user {key.user_id}.", param="user_id")
        connection.execute(insert(api_keys), key_row(key))
        return _find(connection, key.user_id, key.id)

    @reads
    def key(self, connection: Connection, user_id: str, key_id: str) -> Key:
        """One key of a user."""
        return _find(connection, user_id, key_id)

    @reads
    def keys(self, connection: Connection, user_id: str, query: PageQuery) -> Page[Key]:
        """The keys of a user, revoked ones included; not those that pages logged in by."""
        mine = select(api_keys).where(api_keys.c.owner == user_id, api_keys.c.parent_id.is_(None))
        rows, has_more = page(connection, mine, api_keys.c.id, query)
        return Page(tuple(map(key_of, rows)), has_more)

    @reads
    def keys_by_prefix(self, connection: Connection, prefix: str) -> Sequence[tuple[Key, Key | None, User]]:
        """The keys with this prefix, each with its parent and its user."""
        query = select(api_keys).where(api_keys.c.prefix == prefix)
        keys = [key_of(row) for row in connection.execute(query).mappings()]
        return [(key, _parent(connection, key), _user(connection, key)) for key in keys]

    @writes
    def revoke_key(self, connection: Connection, user_id: str, key_id: str, at: datetime) -> Key:
        """End a key, and the logins by it; one that has ended stays as it is."""
        its = or_(api_keys.c.id == key_id, api_keys.c.parent_id == key_id)
        _find(connection, user_id, key_id)
        ended = update(api_keys).where(its, api_keys.c.owner == user_id, api_keys.c.revoked_at.is_(None))
        connection.execute(ended.values(revoked_at=moment_text(at)))
        return _find(connection, user_id, key_id)

    @writes
    def use_key(self, connection: Connection, key_id: str, at: datetime) -> None:
        """Note when it was last used."""
        used = update(api_keys).where(api_keys.c.id == key_id)
        connection.execute(used.values(last_used_at=moment_text(at)))


def _parent(connection: Connection, key: Key) -> Key | None:
    return None if key.parent_id is None else _find(connection, key.user_id, key.parent_id)


def _user(connection: Connection, key: Key) -> User:
    row = connection.execute(select(users).where(users.c.id == key.user_id)).mappings().one()
    role = word_of(Role, row["role"], f"user {row['id']}")
    return User(row["id"], row["name"], role, datetime.fromisoformat(row["created_at"]), row["disabled"])
