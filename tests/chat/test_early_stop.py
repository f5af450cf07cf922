"""A stop that comes before there is anything to stop: while the turn begins, and before its runs have started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databases import place
from lamella.app.core import Core, build_core, build_services
from lamella.chat import Chat, Message
from lamella.chat.replica import LocalDoorbell, Replica
from lamella.commands.command import Stopped
from lamella.core import deltas
from lamella.core.clock import SystemClock
from lamella.core.errors import NotFound
from lamella.core.ids import CountingIds
from lamella.core.json import decode_object
from lamella.core.messages import TurnStatus
from lamella.core.records import AgentAndProject, Caller, Conversation, NewRun, NewTurn, RunEnd, TurnEnd
from lamella.core.settings import EngineSettings
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry
from lamella.turns.journal import Journal, MemoryBus
from lamella.turns.turn import TurnEngine

pytestmark = pytest.mark.anyio

ANN, BOB = Caller("user_ann"), Caller("user_bob")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONVERSATION = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", (), NOON, NOON)


class Remembered(CountingIds):
    """Remembers the ids of turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[str] = []

    def new(self, prefix: str) -> str:
        made = super().new(prefix)
        if prefix == "turn":
            self.turns.append(made)
        return made


class Slow:
    """Surroundings that nobody knows before a gate is opened: what holds a turn up that begins."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        await self.gate.passed()
        return AgentAndProject()


@dataclass(frozen=True)
class Place:
    core: Core
    store: Store
    ids: Remembered
    slow: Slow
    model: ScriptedModel

    async def packets(self, turn_id: str) -> list[dict[str, Any]]:
        return [decode_object(data) async for batch in self.core.chat.stream(ANN, turn_id) for _, data in batch]


@asynccontextmanager
async def beginning(folder: Path) -> AsyncIterator[Place]:
    ids, slow, model = Remembered(), Slow(), ScriptedModel([saying("Never.")])
    async with await open_store(place(folder)) as store:
        services = replace(build_services(store, Registry(()), SystemClock(), ids), agent_and_project=slow)
        core = build_core(services, ScriptedModels(model), jobs=store.jobs)
        await core.chat.start()
        await store.conversations.create_conversation(ANN, CONVERSATION)
        yield Place(core, store, ids, slow, model)
        await core.chat.close()


async def test_a_stop_while_the_turn_begins_is_taken_at_once_and_asks_no_model(tmp_path: Path) -> None:
    async with beginning(tmp_path) as place:
        chat = place.core.chat
        sending = asyncio.create_task(chat.sender.begin(ANN, "conv_1", Message("Hello?")))
        await place.slow.gate.reached.wait()
        [turn_id] = place.ids.turns
        assert [await chat.stop(ANN, turn_id) for _ in range(3)] == [TurnStatus.RUNNING] * 3
        with pytest.raises(NotFound):
            await chat.stop(BOB, turn_id)
        place.slow.gate.opened.set()
        assert await sending == turn_id
        packets = await place.packets(turn_id)
        assert [packet["type"] for packet in packets] == ["turn.started", "turn.stopped", "turn.finished"]
        record = await place.store.turns.turn(ANN, turn_id)
        assert (record.status, record.text, record.steps) == (TurnStatus.STOPPED, "Hello?", ())
        assert place.model.requests == []
        assert await chat.stop(ANN, turn_id) is TurnStatus.STOPPED
        # The conversation goes on.
        next_turn = await chat.sender.begin(ANN, "conv_1", Message("And now?"))
        assert (await place.packets(next_turn))[-1]["status"] == "finished"


async def test_a_stop_by_somebody_else_stops_nothing(tmp_path: Path) -> None:
    async with beginning(tmp_path) as place:
        chat = place.core.chat
        sending = asyncio.create_task(chat.sender.begin(ANN, "conv_1", Message("Hello?")))
        await place.slow.gate.reached.wait()
        for foreign in (place.ids.turns[0], "turn_x"):
            with pytest.raises(NotFound):
                await chat.stop(BOB, foreign)
        place.slow.gate.opened.set()
        assert (await place.packets(await sending))[-1]["status"] == "finished"


@dataclass(frozen=True)
class Process:
    """One of two processes on one database."""

    chat: Chat
    replica: Replica


@asynccontextmanager
async def two_processes(folder: Path, model: ScriptedModel) -> AsyncIterator[tuple[Store, Process, Process]]:
    path = place(folder)
    async with await open_store(path) as store, await open_store(path) as other:
        await store.conversations.create_conversation(ANN, CONVERSATION)
        clock, doorbell = SystemClock(), LocalDoorbell()

        def process(store: Store) -> Process:
            replica = Replica(store.replicas, store.database, doorbell, store.ids, clock)
            services = build_services(store, Registry(()), clock, store.ids)
            return Process(build_core(services, ScriptedModels(model), jobs=store.jobs, replica=replica).chat, replica)

        here, there = process(store), process(other)
        await here.chat.start()
        await there.chat.start()
        yield store, here, there
        await here.chat.close()
        await there.chat.close()


async def test_an_abort_while_another_process_only_follows_up_its_answer_stops_nothing(tmp_path: Path) -> None:
    async with two_processes(tmp_path, ScriptedModel([saying("Yes.")])) as (store, here, there):
        turn_id = await here.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        async for _ in there.chat.stream(ANN, turn_id):
            pass
        await here.chat.rest("conv_1")
        assert not await there.chat.is_settling("conv_1")
        conversation = await store.conversations.conversation(ANN, "conv_1")
        await asyncio.create_task(here.replica.take("conv_1", to_speak=True))  # as while it follows up its answer
        assert await there.chat.is_settling("conv_1")
        aborting = asyncio.create_task(there.chat.abort(ANN, conversation))
        await asyncio.sleep(0.2)
        await here.replica.let_go("conv_1")
        assert await aborting is None


async def test_an_abort_while_another_process_begins_a_turn_stops_it(tmp_path: Path) -> None:
    async with two_processes(tmp_path, ScriptedModel([saying("Never.")])) as (store, here, there):
        conversation = await store.conversations.conversation(ANN, "conv_1")
        await asyncio.create_task(here.replica.take("conv_1", to_speak=True))  # as while it begins
        aborting = asyncio.create_task(there.chat.abort(ANN, conversation))
        await asyncio.sleep(0.2)
        await store.turns.begin_turn(ANN, NEW, NOON)
        end = RunEnd("run_1", TurnStatus.STOPPED, (), (), NOON)
        await store.turns.finish_turn(ANN, TurnEnd("turn_1", TurnStatus.STOPPED, [end], NOON))
        await here.replica.let_go("conv_1")
        assert await aborting == Stopped(None, began=False)


@pytest.mark.parametrize("of_run", [False, True])
async def test_a_turn_is_stopped_from_another_process(tmp_path: Path, of_run: bool) -> None:
    gate = Gate()
    model = ScriptedModel([[deltas.TextDelta(0, "Half"), gate]])
    async with two_processes(tmp_path, model) as (store, one, other):
        here, there = one.chat, other.chat
        turn_id = await here.sender.begin(ANN, "conv_1", Message("Hello?"))
        await gate.reached.wait()
        [run] = (await store.turns.turn(ANN, turn_id)).runs
        with pytest.raises(NotFound):
            await (there.stop_run(BOB, run.id) if of_run else there.stop(BOB, turn_id))
        if of_run:
            assert await there.stop_run(ANN, run.id) == turn_id
        else:
            assert await there.stop(ANN, turn_id) is TurnStatus.RUNNING
        async with asyncio.timeout(10):
            packets = [decode_object(data) async for batch in there.stream(ANN, turn_id) for _, data in batch]
        assert [packet["type"] for packet in packets][-2:] == ["turn.stopped", "turn.finished"]
        assert (await there.stop(ANN, turn_id)) is TurnStatus.STOPPED


NEW = NewTurn("turn_1", "conv_1", "msg_1", (NewRun("run_1", "scripted"),), "Hello?", NOON, "UTC", 2)


@pytest.mark.parametrize(("run_id", "requests"), [(None, 0), ("run_1", None)])
async def test_a_stop_between_a_turn_s_rows_and_its_runs(
    tmp_path: Path, run_id: str | None, requests: int | None
) -> None:
    async with await open_store(place(tmp_path)) as store:
        await store.conversations.create_conversation(ANN, CONVERSATION)
        bus, clock, model = MemoryBus(), SystemClock(), ScriptedModel([[Gate()]])
        services = build_services(store, Registry(()), clock, CountingIds())
        engine = TurnEngine(services, ScriptedModels(model), Journal(store, bus, clock), bus, EngineSettings())
        begun = await engine.begin(ANN, NEW)
        assert (engine.turn_of("run_1"), (await store.turns.turn(ANN, "turn_1")).status) == (
            "turn_1",
            TurnStatus.RUNNING,
        )
        engine.stops.stop("turn_1", run_id)
        await engine.run(begun)
        turn = await store.turns.turn(ANN, "turn_1")
        assert (turn.status, turn.runs[0].status) == (TurnStatus.STOPPED, TurnStatus.STOPPED)
        assert requests is None or len(model.requests) == requests
        assert engine.turn_of("run_1") is None
