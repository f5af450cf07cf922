"""Virtual time moves only when told to, and wakes exactly those whose time has come."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from lamella.core.clock import SystemClock, VirtualClock

pytestmark = pytest.mark.anyio
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def settle() -> None:
    """Let every task run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_sleepers_wake_when_the_clock_has_passed_them() -> None:
    clock, woken = VirtualClock(START), list[str]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("b", 20), ("a", 10), ("c", 20.001))]
    await settle()
    clock.advance(9.999)
    await settle()
    assert woken == []
    clock.advance(0.001)
    await settle()
    assert woken == ["a"]
    clock.advance(10)
    await settle()
    assert woken == ["a", "b"]
    clock.set(START + timedelta(hours=1))
    await asyncio.gather(*tasks)
    assert woken == ["a", "b", "c"]


async def test_time_never_goes_back() -> None:
    clock = VirtualClock(START)
    clock.advance(60)
    clock.set(START)
    assert clock.now() == START + timedelta(seconds=60)
    assert clock.monotonic() == 60
    clock.advance(-30)
    assert clock.monotonic() == 60


async def test_moments_are_in_utc_whatever_they_were_given_in() -> None:
    berlin = timezone(timedelta(hours=1))
    clock = VirtualClock(START.astimezone(berlin))
    assert (clock.now(), clock.now().tzinfo) == (START, UTC)
    clock.set((START + timedelta(minutes=1)).astimezone(berlin))
    assert clock.now().tzinfo is UTC


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_is_no_sleep_but_lets_others_run(seconds: float) -> None:
    clock, seen = VirtualClock(START), list[int]()
    asyncio.get_running_loop().call_soon(seen.append, 1)
    await clock.sleep(seconds)
    assert seen == [1]


async def test_a_sleeper_that_was_cancelled_is_left_alone() -> None:
    clock = VirtualClock(START)
    gone, kept = (asyncio.create_task(clock.sleep(5)) for _ in range(2))
    await settle()
    gone.cancel()
    await settle()
    clock.advance(5)
    await kept
    assert gone.cancelled()


async def test_the_machine_s_clock_is_aware_and_goes_on() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().utcoffset() == timedelta(0)
