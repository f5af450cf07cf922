"""Two processes on one database.

A request that comes to both with one Idempotency-Key is done once. A process that drains ends the streams of what is
done elsewhere, and their clients go on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from lamella.app.core import Core, build_core, build_services
from lamella.app.idempotency import CreationRequest, IdempotentCreation
from lamella.chat import Message, Queued, WaitPolicy
from lamella.chat.replica import LocalDoorbell, Replica
from lamella.commands.parse import TypedCommand
from lamella.core import deltas
from lamella.core.clock import Clock, SystemClock
from lamella.core.errors import LamellaError, NotWaiting, StoreFailed, TurnInProgress
from lamella.core.ids import CountingIds
from lamella.core.json import decode_object
from lamella.core.messages import TurnStatus
from lamella.core.records import AgentAndProject, Caller, Conversation, PageQuery, QueuedMessage, TurnRecord
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.storage.conversations.queue import QueueRows
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry
from lamella.turns.heard import HeardTurns

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONVERSATION = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", (), NOON, NOON)
KEYED = Message("Hello?", key="key")


class Slow:
    """Surroundings that are known when a gate is opened: it holds up a turn that begins, once `holds` is set."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.holds = False

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        if self.holds:
            await self.gate.passed()
        return AgentAndProject()


@dataclass(frozen=True)
class Process:
    core: Core
    store: Store
    slow: Slow
    replica: Replica

    async def hears(self, turn_id: str, numbers: list[int], after: int = 0) -> list[dict[str, Any]]:
        """The packets of a turn, to the end of the stream. Their numbers are noted as they come."""
        found = []
        async for batch in self.core.chat.stream(ANN, turn_id, after):
            numbers += [number for number, _ in batch]
            found += [decode_object(data) for _, data in batch]
        return found

    async def waits(self, queued: Queued) -> list[dict[str, Any]]:
        """The packets of what waits."""
        return [decode_object(data) async for batch in await self.core.chat.packets(ANN, queued) for _, data in batch]

    async def turns(self) -> list[TurnRecord]:
        """All turns, once nothing runs and nothing waits."""
        async with asyncio.timeout(10):
            while True:
                waits = await self.store.queue.queued(ANN, "conv_1")
                found = (await self.store.turns.turns(ANN, "conv_1", PageQuery(50))).data
                if not waits and all(turn.finished_at for turn in found):
                    return list(found)
                await asyncio.sleep(0.02)


class Ahead(SystemClock):
    """A clock that is two seconds ahead of others."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=2)


@asynccontextmanager
async def two(
    folder: Path, *script: Sequence[ReplayEvent], others_clock: Clock | None = None
) -> AsyncIterator[tuple[Process, Process]]:
    path, ids, doorbell = folder / "lamella.db", CountingIds(), LocalDoorbell()
    async with await open_store(path, ids) as store, await open_store(path, ids) as other:
        await store.conversations.create_conversation(ANN, CONVERSATION)

        def process(store: Store, clock: Clock) -> Process:
            slow = Slow()
            replica = Replica(store.replicas, store.database, doorbell, ids, clock)
            services = replace(build_services(store, Registry(()), clock, ids), agent_and_project=slow)
            models = ScriptedModels(ScriptedModel([*script, *[saying("Yes.")] * 5]))
            core = build_core(services, models, jobs=store.jobs, replica=replica, heard=HeardTurns())
            return Process(core, store, slow, replica)

        processes = process(store, SystemClock()), process(other, others_clock or SystemClock())
        for one in processes:
            await one.core.chat.start()
        yield processes
        for one in processes:
            one.slow.gate.opened.set()
            await one.core.chat.close()


async def test_a_process_that_was_given_up_lets_go_of_nothing_and_begins_again(tmp_path: Path) -> None:
    """Nobody waits for the task that lets a conversation go: what it raises would only be noise in the log."""
    async with two(tmp_path) as (here, there):
        replica, before = here.replica, here.replica.id
        assert await replica.take("conv_1", to_speak=False)
        assert await there.store.replicas.end(before)
        assert await replica.let_go("conv_1") is False
        async with asyncio.timeout(10):
            while replica.id == before:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.mark.long  # it waits until a message does not wait any longer
async def test_a_key_is_not_freed_by_a_request_that_is_refused_elsewhere(tmp_path: Path) -> None:
    async with two(tmp_path) as (here, there):
        here.slow.holds = True
        first = asyncio.create_task(here.core.chat.sender.begin(ANN, "conv_1", KEYED))
        await here.slow.gate.reached.wait()
        with pytest.raises(TurnInProgress):
            await there.core.chat.sender.begin(ANN, "conv_1", KEYED)
        here.slow.gate.opened.set()
        turn_id = await first
        assert await there.core.chat.sender.begin(ANN, "conv_1", KEYED) == turn_id
        assert [turn.id for turn in await there.turns()] == [turn_id]


async def test_a_message_that_waits_elsewhere_and_begins_here_is_answered_once(tmp_path: Path) -> None:
    async with two(tmp_path) as (here, there):
        here.slow.holds = True
        first = asyncio.create_task(here.core.chat.sender.submit(ANN, "conv_1", KEYED))
        await here.slow.gate.reached.wait()
        second = await there.core.chat.sender.submit(ANN, "conv_1", KEYED)
        assert isinstance(second, Queued)
        here.slow.gate.opened.set()
        done = await first
        [turn] = await there.turns()
        assert turn.text == "Hello?"
        assert done == turn.id or isinstance(done, Queued)
        assert (await here.store.notices.notices(ANN, "conv_1", PageQuery(5))).data == ()
        assert await there.core.chat.sender.submit(ANN, "conv_1", KEYED) == turn.id


async def test_a_message_that_begins_elsewhere_meanwhile_is_answered_once(tmp_path: Path) -> None:
    """The first request claims the key and is slow; the second is done before it goes on."""
    async with two(tmp_path) as (here, there):
        box = here.core.chat._mailboxes.of("conv_1")
        await box.floor.acquire()  # it waits for the floor, with the key
        first = asyncio.create_task(here.core.chat.sender.submit(ANN, "conv_1", KEYED))
        await asyncio.sleep(0.2)
        turn_id = await there.core.chat.sender.submit(ANN, "conv_1", KEYED)
        await there.turns()
        with structlog.testing.capture_logs() as log:
            box.floor.release()
            assert await first == turn_id
        assert [line for line in log if line["log_level"] == "error"] == []
        assert [turn.id for turn in await here.turns()] == [turn_id]


@pytest.mark.parametrize("queue", [True, False])
async def test_many_requests_with_one_key_are_one_turn(tmp_path: Path, queue: bool) -> None:
    async with two(tmp_path) as both:

        async def send(process: Process) -> str | Queued:
            while True:
                try:
                    patience = WaitPolicy(queue=queue, debounce=0)
                    return await process.core.chat.sender.submit(ANN, "conv_1", KEYED, patience)
                except TurnInProgress:
                    await asyncio.sleep(0.01)

        with structlog.testing.capture_logs() as log:
            done = await asyncio.gather(*(send(process) for process in both * 4))
        assert [line for line in log if line["log_level"] == "error"] == []
        [turn] = await both[0].turns()
        assert {one for one in done if not isinstance(one, Queued)} <= {turn.id}
        assert turn.text == "Hello?"


@pytest.mark.parametrize("name", ["new", "status"])
async def test_many_commands_with_one_key_are_one_command(tmp_path: Path, name: str) -> None:
    async with two(tmp_path) as both:
        await both[0].core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        await both[0].turns()

        async def order(process: Process) -> object:
            return await process.core.chat.orders.submit(ANN, "conv_1", TypedCommand(name), key="key")

        with structlog.testing.capture_logs() as log:
            await asyncio.gather(*(order(process) for process in both * 4))
        assert name == "status" or [line for line in log if line["log_level"] == "error"] == []
        await both[1].turns()
        [notice] = (await both[0].store.notices.notices(ANN, "conv_1", PageQuery(5))).data
        assert notice.name == name
        assert len(await both[0].store.sessions.sessions(ANN, "conv_1")) == 1 + (name == "new")


async def test_one_thing_is_made_for_one_key(tmp_path: Path) -> None:
    async with two(tmp_path) as both:

        async def make(process: Process, n: int) -> Conversation:
            conversations = process.store.conversations

            async def stored(id: str) -> Conversation:
                await asyncio.sleep(0.05)
                await conversations.create_conversation(ANN, replace(CONVERSATION, id=id))
                return await conversations.conversation(ANN, id)

            request = CreationRequest("key", "conversations", {})
            creation = IdempotentCreation(process.store, SystemClock())
            found = partial(conversations.conversation, ANN)
            return await creation.create(ANN, request, f"conv_1{n}", found, stored)

        with structlog.testing.capture_logs() as log:
            made = await asyncio.gather(*(make(process, n) for n, process in enumerate(both)))
        assert [line for line in log if line["log_level"] == "error"] == []
        assert len({one.id for one in made}) == 1
        assert await make(both[0], 9) == made[0]


async def test_a_contradiction_that_is_no_race_is_logged_and_frees_its_key(tmp_path: Path) -> None:
    async with two(tmp_path) as (here, _):
        conversations = here.store.conversations

        async def stored(id: str) -> Conversation:
            await conversations.create_conversation(ANN, CONVERSATION)
            return CONVERSATION

        request, found = CreationRequest("key", "conversations", {}), partial(conversations.conversation, ANN)
        creation = IdempotentCreation(here.store, SystemClock())
        with structlog.testing.capture_logs() as log, pytest.raises(StoreFailed):
            await creation.create(ANN, request, "conv_2", found, stored)
        [line] = [line for line in log if line["log_level"] == "error"]
        assert (line["event"], "conversations" in line["cause"]) == ("the database failed", True)
        again = await creation.create(ANN, replace(request, body=1), "conv_1", found, stored)
        assert again.id == "conv_1", "the key is free again"


async def test_a_refused_request_frees_its_key(tmp_path: Path) -> None:
    async with two(tmp_path) as (here, there):
        with pytest.raises(LamellaError):
            await here.core.chat.sender.begin(ANN, "conv_1", Message("Hello?", key="key", models=("unknown",)))
        assert await there.core.chat.sender.begin(ANN, "conv_1", KEYED)


async def test_followers_of_a_turn_go_on_elsewhere_when_a_process_drains(tmp_path: Path) -> None:
    gate = Gate()
    async with two(tmp_path, [deltas.TextDelta(0, "Yes, "), gate, *saying("I do.")]) as (here, there):
        turn_id = await here.core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        await gate.reached.wait()
        own, numbers = asyncio.create_task(here.hears(turn_id, [])), list[int]()
        following = asyncio.create_task(there.hears(turn_id, numbers))
        async with asyncio.timeout(5):
            while not numbers:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        there.core.chat.drain()
        begun = await asyncio.wait_for(following, 1)
        assert "turn.finished" not in [packet["type"] for packet in begun]
        here.core.chat.drain()
        gate.opened.set()
        rest = await here.hears(turn_id, numbers, numbers[-1])
        assert numbers == list(range(1, numbers[-1] + 1))
        assert rest[-1]["type"] == "turn.finished"
        assert begun + rest == await own, "a process that drains keeps the followers of its own turns"


async def test_followers_of_what_waits_go_on_elsewhere_when_a_process_drains(tmp_path: Path) -> None:
    gate = Gate()
    async with two(tmp_path, [gate, *saying("Yes.")]) as (here, there):
        await here.core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        await gate.reached.wait()
        waiting = await there.core.chat.sender.submit(ANN, "conv_1", Message("And now?"))
        assert isinstance(waiting, Queued)
        following = asyncio.create_task(there.waits(waiting))
        await asyncio.sleep(0.1)
        there.core.chat.drain()
        assert [packet["type"] for packet in await asyncio.wait_for(following, 1)] == ["turn.queued"]
        gate.opened.set()
        assert (await here.waits(waiting))[-1]["type"] == "turn.finished"


async def test_messages_join_though_the_clock_of_the_process_that_took_them_is_ahead(tmp_path: Path) -> None:
    gate = Gate()
    async with two(tmp_path, [gate, *saying("Yes.")], others_clock=Ahead()) as (here, there):
        await here.core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        await gate.reached.wait()
        waits = WaitPolicy(debounce=1.5)
        assert isinstance(await there.core.chat.sender.submit(ANN, "conv_1", Message("One."), waits), Queued)
        gate.opened.set()
        await asyncio.sleep(0.5)
        await there.core.chat.sender.submit(ANN, "conv_1", Message("Two."), WaitPolicy(debounce=0.0))
        assert [turn.text for turn in await here.turns()] == ["One.\n\nTwo.", "Hello?"]


async def test_what_waits_already_is_not_queued_twice(tmp_path: Path) -> None:
    async with two(tmp_path, [gate := Gate(), *saying("Yes.")]) as (here, there):
        await here.core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        await gate.reached.wait()
        waiting = await there.core.chat.sender.submit(ANN, "conv_1", KEYED)
        assert isinstance(waiting, Queued)
        with structlog.testing.capture_logs() as log, pytest.raises(NotWaiting):
            await here.store.queue.queue_message(ANN, waiting.row)
        assert log == [], "the other request is no failure of the database"
        gate.opened.set()
        assert len(await here.turns()) == 2


class Raced(QueueRows):
    """A queue that another process takes just after it was read here."""

    taken: Callable[[], Awaitable[None]]

    async def queued(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        found = await super().queued(caller, conversation_id)
        if found:
            await self.taken()
        return found


@pytest.mark.parametrize("asked", ["abort", "flush"])
async def test_what_another_process_begins_meanwhile_is_stopped_or_left_alone(tmp_path: Path, asked: str) -> None:
    gate = Gate()
    async with two(tmp_path, [gate, *saying("Yes.")]) as (here, there):
        await there.core.chat.sender.submit(ANN, "conv_1", Message("Hello?"), WaitPolicy(debounce=60))

        async def taken() -> None:
            await there.core.chat.flush(ANN, "conv_1")
            await gate.reached.wait()

        raced = here.store.queue = Raced(here.store.database, CountingIds())
        raced.taken = taken
        if asked == "flush":
            await here.core.chat.flush(ANN, "conv_1")
            gate.opened.set()
        else:
            stopped = await here.core.chat.abort(ANN, await here.store.conversations.conversation(ANN, "conv_1"))
            assert stopped is not None
        [turn] = await there.turns()
        assert turn.status is (TurnStatus.STOPPED if asked == "abort" else TurnStatus.FINISHED)
