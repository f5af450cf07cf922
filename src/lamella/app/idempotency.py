"""Creating things once, however often a client asks with the same Idempotency-Key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import LamellaError, NotFound
from lamella.core.json import digest, encode
from lamella.core.records import Caller
from lamella.storage import Store
from lamella.storage.failures import CONTRADICTIONS

log = structlog.get_logger()

MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True)
class CreationRequest:
    """A request to create something: its Idempotency-Key, if any, the route, and the body, which must be equal."""

    key: str | None
    route: str
    body: object


class IdempotentCreation:
    """Binds keys to ids, one at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = asyncio.Lock()

    async def create(
        self,
        caller: Caller,
        request: CreationRequest,
        id: str,
        find: Callable[[str], Awaitable[MadeT]],
        make: Callable[[str], Awaitable[MadeT]],
    ) -> MadeT:
        """The object bound to the key, created under its id if missing; without a key, a new object.

        Raises `IdempotencyMismatch` if the key was used with another route or body, and what `make` raises; then the
        key is free again.
        """
        if request.key is None:
            return await make(id)
        async with self._lock:
            fingerprint = digest(encode(request.body))
            bound = await self._store.keys.claim_key(
                caller, request.key, request.route, fingerprint, id, self._clock.now()
            )
            try:
                return await find(bound)
            except NotFound:
                pass
            contradictions: list[str] = []
            token = CONTRADICTIONS.set(contradictions)
            try:
                return await make(bound)
            except LamellaError:
                with suppress(NotFound):  # another process with the same key may have been faster
                    return await find(bound)
                for cause in contradictions:
                    log.error("the database failed", cause=cause)
                if bound == id:
                    await self._store.keys.release_key(caller, request.key)
                raise
            finally:
                CONTRADICTIONS.reset(token)
