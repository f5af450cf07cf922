"""Keeps the ledger of what providers have cached, so that a restart forgets none of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from lamella.cache.ledger import Ledger
from lamella.core.caching import CacheEntries
from lamella.core.clock import Clock
from lamella.core.errors import StoreFailed

log = structlog.get_logger()

EVERY = 0.25
"""Seconds between two times that it is stored: what begins and ends in one answer goes together."""


@asynccontextmanager
async def kept_ledger(entries: CacheEntries, clock: Clock) -> AsyncIterator[Ledger]:
    """The ledger with what an earlier process knew; stored while the block runs, and at its end.

    It is never the reason that a turn fails: what can't be stored is stored with the next change.
    """
    changed = asyncio.Event()
    ledger = Ledger(await entries.live(clock.now()), changed.set)

    async def store() -> None:
        changes = ledger.take()
        if not (changes.entries or changes.forgotten):
            return
        try:
            await entries.keep(changes.entries, changes.forgotten, clock.now())
        except StoreFailed as error:
            ledger.give_back(changes)
            log.warning("what the provider has cached is not stored", error=error.message)

    async def follow() -> None:
        while True:
            await changed.wait()
            await asyncio.sleep(EVERY)
            changed.clear()
            await store()

    following = asyncio.create_task(follow())
    try:
        yield ledger
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await store()
