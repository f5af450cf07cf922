"""What providers have cached: hashes of prefixes, without anything of what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from lamella.core.caching import CacheEntry, Ttl
from lamella.storage.columns import moment_text, word_of
from lamella.storage.database import Transactions, reads, writes
from lamella.storage.tables import cache_entries as entries

_CHUNK = 500


class SqlCacheEntries(Transactions):
    """A `CacheEntries` in the database."""

    @reads
    def live(self, connection: Connection, now: datetime) -> Sequence[CacheEntry]:
        """See `CacheEntries`."""
        query = select(entries).where(entries.c.ends_at > moment_text(now)).order_by(entries.c.key)
        rows = connection.execute(query).mappings().all()
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

    @writes
    def keep(self, connection: Connection, kept: Sequence[CacheEntry], forgotten: Sequence[str], now: datetime) -> None:
        """See `CacheEntries`."""
        gone = [*(entry.key for entry in kept), *forgotten]
        for first in range(0, len(gone), _CHUNK):
            connection.execute(delete(entries).where(entries.c.key.in_(gone[first : first + _CHUNK])))
        connection.execute(delete(entries).where(entries.c.ends_at <= moment_text(now)))
        if kept:
            connection.execute(insert(entries), [_row(entry) for entry in kept])


def _row(entry: CacheEntry) -> dict[str, object]:
    return {
        "key": entry.key,
        "tokens": entry.tokens,
        "ttl": entry.ttl.value,
        "used_at": moment_text(entry.used_at),
        "ends_at": moment_text(entry.ends_at),
        "exact": entry.exact,
    }
