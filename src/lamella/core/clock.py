"""Time as an argument: every sleep, TTL and timer goes through a `Clock`, so replay and tests run on virtual time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Source of time. `SystemClock` is real, `VirtualClock` is for tests and replays."""

    def now(self) -> datetime:
        """The moment, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that moves only by `advance`: a sleep ends when the clock passes its end."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)
        self._origin = self._now
        self._gone = 0.0
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._gone + (self._now - self._origin).total_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + timedelta(seconds=seconds), woken))
        await woken

    def put_back(self, seconds: float) -> None:
        """Set the clock back, as if a machine's clock was corrected. Sleeping tasks do not wake earlier or later for
        it.
        """
        back = timedelta(seconds=seconds)
        self._gone += seconds
        self._now -= back
        self._sleepers = [(at - back, woken) for at, woken in self._sleepers]

    def set(self, moment: datetime) -> None:
        """Go to `moment` (never back) and wake who slept until then."""
        self._now = max(self._now, moment.astimezone(UTC))
        due = [woken for at, woken in self._sleepers if at <= self._now]
        self._sleepers = [(at, woken) for at, woken in self._sleepers if at > self._now]
        for woken in due:
            if not woken.done():
                woken.set_result(None)

    def advance(self, seconds: float) -> None:
        """Go forward by `seconds`."""
        self.set(self._now + timedelta(seconds=seconds))
