"""Forgets Idempotency-Keys whose time is over, in the background."""

from __future__ import annotations

import asyncio

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import StoreFailed
from lamella.core.ports import Store

log = structlog.get_logger()

EVERY = 3_600.0
"""Seconds between two looks."""


async def forget_expired_keys(store: Store, clock: Clock, every: float = EVERY) -> None:
    """Look now and then every so often, until cancelled; what can't be removed is removed with the next look."""
    while True:
        try:
            await store.forget_expired_keys(clock.now())
        except StoreFailed as error:
            log.warning("expired Idempotency-Keys are not removed", error=error.message)
        await asyncio.sleep(every)
