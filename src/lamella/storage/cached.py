"""What providers have cached: hashes of prefixes, without anything of what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, insert, select

from lamella.core.caching import CacheEntry, Ttl
from lamella.storage.columns import moment_text, word_of
from lamella.storage.database import Database, uninterrupted
from lamella.storage.tables import cache_entries as entries

_CHUNK = 500


class SqlCacheEntries:
    """A `CacheEntries` in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self, now: datetime) -> Sequence[CacheEntry]:
        """See `CacheEntries`."""
        query = select(entries).where(entries.c.ends_at > moment_text(now)).order_by(entries.c.key)
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [
            CacheEntry(
                key=row["key"],
                tokens=row["tokens"],
                ttl=word_of(Ttl, row["ttl"], f"cache entry {row['key']}"),
                used_at=datetime.fromisoformat(row["used_at"]),
                exact=row["exact"],
            )
            for row in rows
        ]

    @uninterrupted
    async def keep(self, kept: Sequence[CacheEntry], forgotten: Sequence[str], now: datetime) -> None:
        """See `CacheEntries`."""
        gone = [*(entry.key for entry in kept), *forgotten]
        async with self._database.writing() as connection:
            for first in range(0, len(gone), _CHUNK):
                await connection.execute(delete(entries).where(entries.c.key.in_(gone[first : first + _CHUNK])))
            await connection.execute(delete(entries).where(entries.c.ends_at <= moment_text(now)))
            if kept:
                await connection.execute(insert(entries), [_row(entry) for entry in kept])


def _row(entry: CacheEntry) -> dict[str, object]:
    return {
        "key": entry.key,
        "tokens": entry.tokens,
        "ttl": entry.ttl.value,
        "used_at": moment_text(entry.used_at),
        "ends_at": moment_text(entry.ends_at),
        "exact": entry.exact,
    }
