"""Live packets and stops within one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field

from lamella.core.ports import Batch, Stop


@dataclass(slots=True)
class _Live:
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    closed: bool = False
    stops: set[str | None] = field(default_factory=set)
    followers: set[asyncio.Event] = field(default_factory=set)

    def wake(self) -> None:
        for follower in self.followers:
            follower.set()


class MemoryBus:
    """The `StreamBus` of a single process: a list of packets per running turn."""

    def __init__(self) -> None:
        self._turns: dict[str, _Live] = {}

    def open(self, turn_id: str) -> None:
        """See `StreamBus.open`."""
        self._turns[turn_id] = _Live()

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """See `StreamBus.publish`."""
        live = self._turns[turn_id]
        live.packets.append((n, data))
        live.wake()

    def close(self, turn_id: str) -> None:
        """See `StreamBus.close`."""
        live = self._turns.pop(turn_id, None)
        if live is not None:
            live.closed = True
            live.wake()

    def is_live(self, turn_id: str) -> bool:
        """See `StreamBus.is_live`."""
        return turn_id in self._turns

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """See `StreamBus.follow`."""
        return _follow(self._turns.get(turn_id) or _Live(closed=True), after)

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """See `StreamBus.stop`."""
        live = self._turns.get(turn_id)
        if live is not None:
            live.stops.add(run_id)

    async def stops(self, turn_ids: Collection[str]) -> Collection[Stop]:
        """See `StreamBus.stops`."""
        found = ((turn_id, self._turns.get(turn_id)) for turn_id in turn_ids)
        return [(turn_id, run_id) for turn_id, live in found if live is not None for run_id in live.stops]


async def _follow(live: _Live, after: int) -> AsyncIterator[Batch]:
    news = asyncio.Event()
    live.followers.add(news)
    try:
        index = 0
        while True:
            news.clear()
            fresh = [packet for packet in live.packets[index:] if packet[0] > after]
            index = len(live.packets)
            if fresh:
                yield fresh
            elif live.closed:
                return
            else:
                await news.wait()
    finally:
        live.followers.discard(news)
