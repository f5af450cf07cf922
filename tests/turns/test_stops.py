"""Stops: at once in the process that runs a turn, within 50 ms from another, by one timer for all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime

import pytest

from lamella.core.clock import VirtualClock
from lamella.core.errors import StoreFailed
from lamella.core.ports import Stop
from lamella.turns.hooks import Stops
from lamella.turns.journal import MemoryBus

pytestmark = pytest.mark.anyio

MOST = 0.05


class CountingBus(MemoryBus):
    """A bus that counts the looks at it, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.looks: list[list[str]] = []
        self.failures = failures

    async def stops(self, turn_ids: Collection[str]) -> Collection[Stop]:
        self.looks.append(sorted(turn_ids))
        if self.failures:
            self.failures -= 1
            raise StoreFailed("The bus is not there.")
        return await super().stops(turn_ids)


def running(*turn_ids: str, failures: int = 0) -> tuple[CountingBus, Stops, VirtualClock]:
    bus, clock = CountingBus(failures), VirtualClock(datetime(2026, 3, 1, tzinfo=UTC))
    stops = Stops(bus, clock)
    for turn_id in turn_ids:
        bus.open(turn_id)
        stops.open(turn_id)
    return bus, stops, clock


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_in_this_process_it_is_told_at_once_and_nothing_is_looked_up() -> None:
    bus, stops, _ = running("turn_1")
    waiting = [asyncio.create_task(stops.requested("turn_1", run_id)) for run_id in (None, "run_1", "run_2")]
    await settled()
    stops.stop("turn_1", "run_1")
    await settled()
    assert [task.done() for task in waiting] == [False, True, False]
    stops.stop("turn_1")
    stops.stop("turn_1")
    await settled()
    assert [task.done() for task in waiting] == [True, True, False]
    assert bus.looks == []
    waiting[2].cancel()
    stops.close("turn_1")


async def test_from_another_process_it_is_known_within_50_ms() -> None:
    bus, stops, clock = running("turn_1", "turn_2")
    elsewhere = Stops(bus, clock)
    waiting = [asyncio.create_task(stops.requested(*stop)) for stop in (("turn_1", None), ("turn_2", "run_2"))]
    await settled()
    elsewhere.stop("turn_1")
    elsewhere.stop("turn_2", "run_2")
    assert not any(task.done() for task in waiting)
    clock.advance(MOST)
    await settled()
    assert all(task.done() for task in waiting)
    stops.close("turn_1")
    stops.close("turn_2")


async def test_one_timer_looks_for_all_turns_and_only_while_there_are_any() -> None:
    bus, stops, clock = running("turn_1", "turn_2", "turn_3")
    for _ in range(2):
        await settled()
        clock.advance(MOST)
    await settled()
    assert bus.looks == [["turn_1", "turn_2", "turn_3"]] * 2
    for turn_id in ("turn_1", "turn_2", "turn_3"):
        stops.close(turn_id)
    await settled()
    clock.advance(MOST)
    await settled()
    assert len(bus.looks) == 2
    stops.open("turn_4")
    await settled()
    clock.advance(MOST)
    await settled()
    assert bus.looks[2:] == [["turn_4"]]
    stops.close("turn_4")


async def test_a_stop_before_the_runs_begin_is_found_wherever_it_was_asked_for() -> None:
    bus, stops, _ = running("turn_1", "turn_2", "turn_3")
    bus.stop("turn_1")
    stops.stop("turn_2")
    assert [await stops.is_stopped(f"turn_{n}") for n in (1, 2, 3)] == [True, True, False]
    for n in (1, 2, 3):
        stops.close(f"turn_{n}")


async def test_a_bus_that_fails_for_a_while_is_asked_again() -> None:
    bus, stops, clock = running("turn_1", failures=1)
    bus.stop("turn_1")
    waiting = asyncio.create_task(stops.requested("turn_1"))
    await settled()
    clock.advance(MOST)
    await settled()
    assert not waiting.done()
    clock.advance(MOST)
    await settled()
    assert waiting.done()
    stops.close("turn_1")
