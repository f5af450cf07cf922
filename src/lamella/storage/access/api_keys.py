"""API keys: found by their prefix, kept as a digest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.access import Key, Role, Scope, User
from lamella.core.errors import NotFound
from lamella.core.records import Page, PageQuery
from lamella.storage.columns import NAMES, json_of, json_text, moment_text, word_of
from lamella.storage.database import Verbs, uninterrupted
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


async def _find(connection: AsyncConnection, user_id: str, key_id: str) -> Key:
    query = select(api_keys).where(api_keys.c.id == key_id, api_keys.c.owner == user_id)
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        raise NotFound(f"There is no key {key_id}.", param="key_id")
    return key_of(row)


class ApiKeyVerbs(Verbs):
    """The verbs of `Directory` about keys."""

    @uninterrupted
    async def add_key(self, key: Key) -> Key:
        """Store a new key of a user."""
        known = select(users.c.id).where(users.c.id == key.user_id)
        async with self._database.writing() as connection:
            if (await connection.execute(known)).first() is None:
                raise NotFound(f"There is no user {key.user_id}.", param="user_id")
            await connection.execute(insert(api_keys), key_row(key))
            return await _find(connection, key.user_id, key.id)

    @uninterrupted
    async def key(self, user_id: str, key_id: str) -> Key:
        """One key of a user."""
        async with self._database.reading() as connection:
            return await _find(connection, user_id, key_id)

    @uninterrupted
    async def keys(self, user_id: str, query: PageQuery) -> Page[Key]:
        """The keys of a user, revoked ones included; not those that pages logged in by."""
        mine = select(api_keys).where(api_keys.c.owner == user_id, api_keys.c.parent_id.is_(None))
        async with self._database.reading() as connection:
            rows, has_more = await page(connection, mine, api_keys.c.id, query)
        return Page(tuple(map(key_of, rows)), has_more)

    @uninterrupted
    async def keys_by_prefix(self, prefix: str) -> Sequence[tuple[Key, Key | None, User]]:
        """The keys with this prefix, each with its parent and its user."""
        query = select(api_keys).where(api_keys.c.prefix == prefix)
        async with self._database.reading() as connection:
            keys = [key_of(row) for row in (await connection.execute(query)).mappings()]
            return [(key, await _parent(connection, key), await _user(connection, key)) for key in keys]

    @uninterrupted
    async def revoke_key(self, user_id: str, key_id: str, at: datetime) -> Key:
        """End a key, and the logins by it; one that has ended stays as it is."""
        its = or_(api_keys.c.id == key_id, api_keys.c.parent_id == key_id)
        async with self._database.writing() as connection:
            await _find(connection, user_id, key_id)
            ended = update(api_keys).where(its, api_keys.c.owner == user_id, api_keys.c.revoked_at.is_(None))
            await connection.execute(ended.values(revoked_at=moment_text(at)))
            return await _find(connection, user_id, key_id)

    @uninterrupted
    async def use_key(self, key_id: str, at: datetime) -> None:
        """Note when it was last used."""
        async with self._database.writing() as connection:
            used = update(api_keys).where(api_keys.c.id == key_id)
            await connection.execute(used.values(last_used_at=moment_text(at)))


async def _parent(connection: AsyncConnection, key: Key) -> Key | None:
    return None if key.parent_id is None else await _find(connection, key.user_id, key.parent_id)


async def _user(connection: AsyncConnection, key: Key) -> User:
    row = (await connection.execute(select(users).where(users.c.id == key.user_id))).mappings().one()
    role = word_of(Role, row["role"], f"user {row['id']}")
    return User(row["id"], row["name"], role, datetime.fromisoformat(row["created_at"]), row["disabled"])
