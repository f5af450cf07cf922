"""The simulator's time, in seconds since 1970: virtual by default, so that an hour costs nothing."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Clock(Protocol):
    real: bool

    def now(self) -> float: ...

    def set(self, moment: float) -> None: ...

    async def sleep(self, seconds: float) -> None: ...


class VirtualClock:
    """Stands still until told otherwise; sleeping is free and moves nothing, requests run side by side."""

    real = False

    def __init__(self, start: float = EPOCH) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def set(self, moment: float) -> None:
        self._now = moment

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class SystemClock:
    """The machine's time plus what an admin call has shifted it by."""

    real = True

    def __init__(self) -> None:
        self._shift = 0.0

    def now(self) -> float:
        return time.time() + self._shift

    def set(self, moment: float) -> None:
        self._shift = moment - time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def parse_moment(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 text; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_moment(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
