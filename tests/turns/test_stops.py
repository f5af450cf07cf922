"""Stops of turns that run in this process. Those from another process are signals: `tests/chat/test_replicas.py`."""

from __future__ import annotations

import asyncio

import pytest

from lamella.turns.hooks import Stops

pytestmark = pytest.mark.anyio


def running(*turn_ids: str) -> Stops:
    stops = Stops()
    for turn_id in turn_ids:
        stops.open(turn_id)
    return stops


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_turn_or_a_run_is_told_at_once() -> None:
    stops = running("turn_1")
    waiting = [asyncio.create_task(stops.requested("turn_1", run_id)) for run_id in (None, "run_1", "run_2")]
    await settled()
    assert stops.stop("turn_1", "run_1")
    await settled()
    assert [task.done() for task in waiting] == [False, True, False]
    assert stops.stop("turn_1")
    assert stops.stop("turn_1")
    await settled()
    assert [task.done() for task in waiting] == [True, True, False]
    waiting[2].cancel()


async def test_a_stop_before_the_runs_begin_is_found() -> None:
    stops = running("turn_1", "turn_2")
    stops.stop("turn_1")
    stops.stop("turn_2", "run_1")
    assert [stops.is_stopping(f"turn_{n}") for n in (1, 2)] == [True, False]


async def test_a_turn_that_does_not_run_here_is_not_stopped() -> None:
    stops = running("turn_1")
    stops.close("turn_1")
    assert not stops.stop("turn_1")
    assert not stops.is_stopping("turn_1")
    stops.open("turn_1")
    assert not stops.is_stopping("turn_1")
