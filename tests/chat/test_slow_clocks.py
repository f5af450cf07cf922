"""Several processes whose clocks differ: turns keep the order in which they were begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from lamella.app.core import build_core, build_services
from lamella.chat import Chat, Message
from lamella.chat.packets import Queued
from lamella.chat.replica import LocalDoorbell, Replica
from lamella.core import deltas
from lamella.core.clock import SystemClock
from lamella.core.ids import RandomIds
from lamella.core.messages import TurnStatus
from lamella.core.records import Caller, Choices, Conversation
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONVERSATION = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", (), NOON, NOON)


class LateClock(SystemClock):
    """A clock that is three hours behind."""

    def now(self) -> datetime:
        return super().now() - timedelta(hours=3)


@asynccontextmanager
async def two_processes(folder: Path, model: ScriptedModel) -> AsyncIterator[tuple[Store, Chat, Chat]]:
    """One with a right clock, one whose clock is behind."""
    path, doorbell = folder / "lamella.db", LocalDoorbell()
    right, late = SystemClock(), LateClock()
    async with await open_store(path, RandomIds(right)) as store, await open_store(path, RandomIds(late)) as other:
        await store.conversations.create_conversation(ANN, CONVERSATION)

        def process(store: Store, clock: SystemClock) -> Chat:
            replica = Replica(store.replicas, store.database, doorbell, store.ids, clock)
            services = build_services(store, Registry(()), clock, store.ids)
            return build_core(services, ScriptedModels(model), jobs=store.jobs, replica=replica).chat

        here, there = process(store, right), process(other, late)
        await here.start()
        await there.start()
        yield store, here, there
        await here.close()
        await there.close()


async def spoken(store: Store, count: int) -> list[str]:
    """The ids of so many turns in the order in which they were answered, once all have ended."""
    async with asyncio.timeout(20):
        while True:
            turns = await store.turns.path(ANN, "conv_1")
            if len(turns) == count and all(turn.status is TurnStatus.FINISHED for turn in turns):
                break
            await asyncio.sleep(0.02)
    texts = [(await store.turns.turn(ANN, turn.id)).text for turn in turns]
    assert texts == [f"Question {number}?" for number in range(count)]
    return [turn.id for turn in turns]


async def test_a_turn_of_a_process_whose_clock_is_behind_comes_after_those_before(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Yes.") for _ in range(40)])
    async with two_processes(tmp_path, model) as (store, here, there):
        for number, chat in enumerate((here, there, here, there)):
            await chat.sender.begin(ANN, "conv_1", Message(f"Question {number}?"))
            ids = await spoken(store, number + 1)
            await here.rest("conv_1")
        assert all(before < after for before, after in pairwise(ids))


async def test_what_waits_keeps_its_order_too(tmp_path: Path) -> None:
    gate = Gate()
    model = ScriptedModel([[deltas.TextDelta(0, "Yes"), gate, *saying(".")], *(saying("Yes.") for _ in range(40))])
    async with two_processes(tmp_path, model) as (store, here, there):
        await here.sender.begin(ANN, "conv_1", Message("Question 0?"))
        await gate.reached.wait()
        for number, chat in enumerate((here, there, here, there), start=1):
            # Messages with different choices are not joined into one turn.
            choices = Choices(marker_policy="off" if chat is there else None)
            sent = await chat.sender.submit(ANN, "conv_1", Message(f"Question {number}?", choices=choices))
            assert isinstance(sent, Queued)
        gate.opened.set()
        ids = await spoken(store, 5)
        assert all(before < after for before, after in pairwise(ids))
