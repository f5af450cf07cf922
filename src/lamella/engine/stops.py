"""Stops of the turns that run here: told at once in this process, looked up on one timer from others (SPEC O15)."""

from __future__ import annotations

import asyncio

import structlog

from lamella.core.clock import Clock
from lamella.core.errors import LamellaError
from lamella.core.ports import StreamBus

log = structlog.get_logger()


LOOK_SECONDS = 0.04
"""How often it is looked whether another process stopped something: with the look itself, within 50 ms."""


class Stops:
    """Who asked which turn of this process, or which of its runs, to stop."""

    def __init__(self, bus: StreamBus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._asked: dict[str, dict[str | None, asyncio.Event]] = {}
        self._looking: asyncio.Task[None] | None = None

    def open(self, turn_id: str) -> None:
        """A turn begins here; while any runs, one timer looks for all of them."""
        self._asked[turn_id] = {}
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_often())

    def close(self, turn_id: str) -> None:
        """It ended."""
        self._asked.pop(turn_id, None)
        if not self._asked and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """Ask a turn to stop, or one of its runs: at once where it runs here, else through the bus."""
        if turn_id in self._asked:
            self._event(turn_id, run_id).set()
        else:
            self._bus.stop(turn_id, run_id)

    async def is_stopped(self, turn_id: str) -> bool:
        """Whether the turn was asked to stop already, here or in another process."""
        await self._look()
        return self._event(turn_id, None).is_set()

    async def requested(self, turn_id: str, run_id: str | None = None) -> None:
        """Come back when the turn, or one of its runs, is asked to stop."""
        await self._event(turn_id, run_id).wait()

    def _event(self, turn_id: str, run_id: str | None) -> asyncio.Event:
        return self._asked[turn_id].setdefault(run_id, asyncio.Event())

    async def _look_often(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        try:
            found = await self._bus.stops(tuple(self._asked))
        except LamellaError as error:
            log.error("it is not known whether another process stopped a turn", error=error.message)
            return
        for turn_id, run_id in found:
            if turn_id in self._asked:
                self._event(turn_id, run_id).set()
