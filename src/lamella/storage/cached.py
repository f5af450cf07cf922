"""What providers have cached: hashes of prefixes, without anything of what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select

from lamella.core.caching import CacheEntry
from lamella.storage.database import Transactions, notes, reads, upsert
from lamella.storage.rows import record, values
from lamella.storage.tables import cache_entries as entries

_CHUNK = 500


class SqlCacheEntries(Transactions):
    """A `CacheEntries` in the database."""

    @reads
    def live(self, connection: Connection, now: datetime) -> Sequence[CacheEntry]:
        """See `CacheEntries`."""
        query = select(entries).where(entries.c.ends_at > now).order_by(entries.c.key)
        return [record(CacheEntry, row) for row in connection.execute(query).mappings()]

    @reads
    def find(self, connection: Connection, keys: Sequence[str]) -> Sequence[CacheEntry]:
        """See `CacheEntries`."""
        found: list[CacheEntry] = []
        for first in range(0, len(keys), _CHUNK):
            query = select(entries).where(entries.c.key.in_(keys[first : first + _CHUNK]))
            found += [record(CacheEntry, row) for row in connection.execute(query).mappings()]
        return found

    @notes
    def keep(self, connection: Connection, kept: Sequence[CacheEntry], forgotten: Sequence[str], now: datetime) -> None:
        """See `CacheEntries`."""
        for first in range(0, len(forgotten), _CHUNK):
            connection.execute(delete(entries).where(entries.c.key.in_(forgotten[first : first + _CHUNK])))
        connection.execute(delete(entries).where(entries.c.ends_at <= now))
        if kept:
            rows = [values(entries, entry, ends_at=entry.ends_at) for entry in kept]
            upsert(connection, entries, rows, unless_newer=entries.c.used_at)
