"""Removes, once a day, packets and request bodies that are older than the deployment keeps them, and packs packets.

By default everything is kept, and packets are packed an hour after their turn has ended. A run is a background job like
others: a batch is a transaction, a process that ends in the middle leaves the rest to the next, and what a running turn
needs is left alone (`storage.retention`).
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from lamella.background import Retry, Worker
from lamella.core.access import LOCAL_USER
from lamella.core.clock import Clock
from lamella.core.errors import StoreFailed
from lamella.core.records import Caller, Expired, Job, NewJob, Retention
from lamella.storage import Store

log = structlog.get_logger()

EXPIRE = "expire"
"""The job that removes what is older than it is kept."""

PACK = "pack"
"""The job that packs the packets of turns that have ended some time ago."""

DAILY, HOURLY, OFTEN = timedelta(days=1), timedelta(hours=1), timedelta(minutes=10)

AT_ONCE = 50
"""Turns whose packets are removed, or packed, in one transaction."""

_SERVER = Caller(LOCAL_USER)
"""Whose job it is: the user that every database has."""


class RetentionJob:
    """The daily job of one process."""

    def __init__(self, store: Store, retention: Retention, clock: Clock) -> None:
        self._store = store
        self._keeps = retention
        self._clock = clock
        self._worker = Worker(store.jobs, clock, {EXPIRE: self._expire, PACK: self._pack})

    async def start(self) -> None:
        """Begin. A run is due at once, since the settings may be others than those of the day before."""
        now = self._clock.now()
        await self._worker.enqueue(_SERVER, NewJob(PACK, "retention", "ended long enough ago", now, takes_over=True))
        if (self._keeps.packets_days, self._keeps.requests_days) != (None, None):
            job = NewJob(EXPIRE, "retention", "kept long enough", now, takes_over=True)
            await self._worker.enqueue(_SERVER, job)
        self._worker.start()

    async def close(self) -> None:
        """Stop. The next start continues."""
        await self._worker.close()

    async def _expire(self, job: Job) -> Retry:
        """Remove what is due, then wait for the next day; after a failure for an hour."""
        try:
            packets, bodies = await self._expire_packets(), await self._expire_bodies()
            if packets or bodies:
                log.info("kept long enough: removed", turns=packets, requests=bodies)
                await self._store.database.scrub()
        except StoreFailed as error:
            return Retry(error.message, HOURLY.total_seconds())
        return Retry("It is done once a day.", DAILY.total_seconds())

    async def _pack(self, job: Job) -> Retry:
        """Pack what is due, batch by batch."""
        before = self._clock.now() - timedelta(minutes=self._keeps.journal_minutes)
        try:
            while await self._store.retention.pack_packets(before, AT_ONCE):
                pass
            await self._store.retention.take_over_words()
        except StoreFailed as error:
            return Retry(error.message, HOURLY.total_seconds())
        return Retry("Packets are packed every ten minutes.", OFTEN.total_seconds())

    async def _expire_packets(self) -> int:
        """The number of turns whose packets were removed."""
        days, now, removed = self._keeps.packets_days, self._clock.now(), 0
        if days is None:
            return 0
        while found := await self._store.retention.turns_to_expire(now - timedelta(days=days), AT_ONCE):
            await self._store.retention.expire_packets(found, Expired(now, days))
            removed += len(found)
        return removed

    async def _expire_bodies(self) -> int:
        """The number of requests whose bodies were removed, conversation by conversation."""
        days, now, removed = self._keeps.requests_days, self._clock.now(), 0
        if days is None:
            return 0
        before, expired = now - timedelta(days=days), Expired(now, days)
        for caller, conversation_id in await self._store.retention.conversations_to_expire(before):
            removed += await self._store.retention.expire_requests(caller, conversation_id, before, expired)
        return removed
