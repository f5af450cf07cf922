"""Measures of work that a busy machine does not change: CPU instead of the clock, and how it grows."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import process_time, thread_time

TIMES = 4
"""How much larger the larger of two inputs is."""

MOST_GROWTH = 10.0
"""What that may cost: linear work grows 4 times, quadratic work 16 times."""

TOO_SHORT = 0.002
"""CPU seconds that are too few to be compared."""


def cpu_seconds(work: Callable[[], object], *, rounds: int = 3) -> float:
    """CPU seconds of this process for the work: the least of some rounds, without the collections of garbage."""
    spent = []
    gc.disable()
    try:
        for _ in range(rounds):
            began = process_time()
            work()
            spent.append(process_time() - began)
    finally:
        gc.enable()
    return min(spent)


def growth(work: Callable[[str], object], text: str) -> float:
    """How many times the work costs more for a text that is `TIMES` as long."""
    small = max(cpu_seconds(lambda: work(text)), TOO_SHORT)
    return cpu_seconds(lambda: work(text * TIMES)) / small


TICK = 0.01


@asynccontextmanager
async def ticks() -> AsyncIterator[Callable[[], float]]:
    """A stopwatch that counts in sleeps of the event loop: its seconds are as long as the machine is busy."""
    count = 0

    async def tick() -> None:
        nonlocal count
        while True:
            await asyncio.sleep(TICK)
            count += 1

    ticking = asyncio.create_task(tick())
    try:
        yield lambda: count * TICK
    finally:
        ticking.cancel()


@asynccontextmanager
async def loop_pauses() -> AsyncIterator[list[float]]:
    """CPU seconds that the event loop's thread spends between two chances of a waiting task to go on."""
    pauses: list[float] = []

    async def listen() -> None:
        while True:
            before = thread_time()
            await asyncio.sleep(0.002)
            pauses.append(thread_time() - before)

    listener = asyncio.create_task(listen())
    try:
        yield pauses
    finally:
        listener.cancel()
