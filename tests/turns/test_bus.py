"""What every `StreamBus` promises, seen from two processes that share one: packets and readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lamella.core.ports import StreamBus
from lamella.turns.journal import MemoryBus

pytestmark = pytest.mark.anyio

Ends = tuple[StreamBus, StreamBus]
"""The bus as the process that runs the turns has it, and as another one has it."""


def one_process() -> Ends:
    """The bus of a single process is the same for whoever is in it."""
    bus = MemoryBus()
    return bus, bus


BUSES = {"memory": one_process}


@pytest.fixture(params=list(BUSES))
def ends(request: pytest.FixtureRequest) -> Ends:
    make: Callable[[], Ends] = BUSES[request.param]
    return make()


async def followed(bus: StreamBus, turn_id: str, after: int = 0) -> list[tuple[int, bytes]]:
    return [packet async for batch in bus.follow(turn_id, after) for packet in batch]


async def test_everybody_hears_a_turn_from_the_packet_they_ask_for(ends: Ends) -> None:
    runs, other = ends
    runs.open("turn_1")
    runs.publish("turn_1", 1, b"a")
    assert other.is_live("turn_1")
    readers = [asyncio.create_task(followed(bus, "turn_1", after)) for bus in ends for after in (0, 1, 3)]
    await asyncio.sleep(0)
    for n, data in ((2, b"b"), (4, b"c")):
        runs.publish("turn_1", n, data)
    runs.close("turn_1")
    whole = [(1, b"a"), (2, b"b"), (4, b"c")]
    assert await asyncio.gather(*readers) == [whole, whole[1:], whole[2:]] * 2
    assert not other.is_live("turn_1")
    assert await followed(other, "turn_1") == []


async def test_a_slow_follower_holds_nobody_up(ends: Ends) -> None:
    runs, other = ends
    runs.open("turn_1")
    slow = other.follow("turn_1", 0)
    runs.publish("turn_1", 1, b"a")
    assert await anext(slow) == [(1, b"a")]
    for n in range(2, 1_000):
        runs.publish("turn_1", n, b"a")
    runs.close("turn_1")
    assert [n async for batch in slow for n, _ in batch] == list(range(2, 1_000))
