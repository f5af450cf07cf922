"""A conversation's mailbox holds nobody up for long, and nothing that goes wrong leaves what waits without a keeper."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from databases import place
from lamella.app.core import build_core, build_services
from lamella.chat import Message, Queued
from lamella.chat.mailbox import Mailboxes
from lamella.core import deltas
from lamella.core.clock import SystemClock
from lamella.core.ids import CountingIds
from lamella.core.packets import TurnFinished, decode_packet
from lamella.core.records import AgentAndProject, Caller, Conversation, QueuedMessage
from lamella.core.settings import EngineSettings
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.storage.conversations.conversations import ConversationRows
from lamella.storage.conversations.queue import QueueRows
from lamella.storage.conversations.turns import TurnRows
from lamella.storage.keys import KeyRows
from lamella.storage.store import open_store
from lamella.tooling.tool import Registry

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONVERSATION = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", (), NOON, NOON)


class Slow:
    """Surroundings that nobody knows before a gate is opened: what holds a turn up that begins."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        await self.gate.passed()
        return AgentAndProject()


class Claiming(KeyRows):
    """Keys of a store that counts the keys that were claimed."""

    claims: asyncio.Semaphore

    async def claim_key(
        self, caller: Caller, key: str, route: str, fingerprint: str, result_id: str, at: datetime
    ) -> str:
        found = await super().claim_key(caller, key, route, fingerprint, result_id, at)
        self.claims.release()
        return found


class Faulty(QueueRows):
    """A queue with a mistake in it: it fails as none should, as often as `mistakes` says."""

    mistakes = 0

    async def queued(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        if self.mistakes:
            self.mistakes -= 1
            raise ZeroDivisionError
        return await super().queued(caller, conversation_id)


class SlowTurns(TurnRows):
    """Turns of a busy database: whether a turn may be read is known only when a gate is opened."""

    gate: Gate

    async def is_closed(self, caller: Caller, turn_id: str) -> bool:
        await self.gate.passed()
        return await super().is_closed(caller, turn_id)


async def test_a_turn_that_ends_while_its_reader_is_checked_is_read_whole(tmp_path: Path) -> None:
    async with await open_store(place(tmp_path)) as store:
        turns = SlowTurns(store.database, CountingIds())
        turns.gate, store.turns, answering = Gate(), turns, Gate()
        services = build_services(store, Registry(()), SystemClock(), CountingIds())
        models = ScriptedModels(ScriptedModel([[answering, *saying("Hi.")]]))
        core = build_core(services, models, EngineSettings(titles=False), jobs=store.jobs)
        await core.chat.start()
        await store.conversations.create_conversation(ANN, CONVERSATION)
        turn_id = await core.chat.sender.begin(ANN, "conv_1", Message("Hello?"))
        following = asyncio.create_task(core.chat.follow(ANN, turn_id))
        await turns.gate.reached.wait()
        answering.opened.set()
        async with asyncio.timeout(10):
            await core.chat.rest("conv_1")
        turns.gate.opened.set()
        packets = [decode_packet(data) async for batch in await following for _, data in batch]
        assert (packets[0].n, type(packets[-1])) == (1, TurnFinished)
        await core.chat.close()


async def test_a_message_that_comes_again_while_it_begins_holds_up_nobody_else(tmp_path: Path) -> None:
    async with await open_store(place(tmp_path)) as store:
        keys, slow = Claiming(store.database, CountingIds()), Slow()
        keys.claims = asyncio.Semaphore(0)
        store.keys = keys
        services = replace(build_services(store, Registry(()), SystemClock(), CountingIds()), agent_and_project=slow)
        core = build_core(services, ScriptedModels(ScriptedModel([saying("Hi.")])), jobs=store.jobs)
        await core.chat.start()
        await store.conversations.create_conversation(ANN, CONVERSATION)
        message = Message("Hello?", key="once")
        sent = [asyncio.create_task(core.chat.sender.begin(ANN, "conv_1", message)) for _ in range(2)]
        await slow.gate.reached.wait()
        for _ in sent:
            await keys.claims.acquire()
        async with asyncio.timeout(5):
            await core.chat.flush(ANN, "conv_1")
        assert not any(task.done() for task in sent)
        slow.gate.opened.set()
        first, again = await asyncio.gather(*sent)
        assert first == again
        await core.chat.close()


async def test_what_waits_is_answered_also_after_a_mistake_of_ours(tmp_path: Path) -> None:
    async with await open_store(place(tmp_path)) as store:
        queue, gate = Faulty(store.database, CountingIds()), Gate()
        store.queue = queue
        model = ScriptedModel([[deltas.TextDelta(0, "Half"), gate], saying("Whole.")])
        services = build_services(store, Registry(()), SystemClock(), CountingIds())
        core = build_core(services, ScriptedModels(model), jobs=store.jobs)
        await core.chat.start()
        await store.conversations.create_conversation(ANN, CONVERSATION)
        await core.chat.sender.begin(ANN, "conv_1", Message("First"))
        await gate.reached.wait()
        waiting = await core.chat.sender.submit(ANN, "conv_1", Message("Second"))
        assert isinstance(waiting, Queued)
        with capture_logs() as lines:
            queue.mistakes = 1
            gate.opened.set()
            async with asyncio.timeout(20):
                async for _ in core.chat.queue.packets(ANN, waiting, core.chat.stream):
                    pass
        assert [line["log_level"] for line in lines if "exc_info" in line] == ["error"]
        assert queue.mistakes == 0
        assert (await store.conversations.conversation(ANN, "conv_1")).running_turn is None
        await core.chat.close()


class SlowConversations(ConversationRows):
    """Conversations of a busy database: they are known only when a gate is opened."""

    gate: Gate

    async def conversation(self, caller: Caller, conversation_id: str) -> Conversation:
        await self.gate.passed()
        return await super().conversation(caller, conversation_id)


async def test_a_queue_that_another_process_filled_meanwhile_goes_first_and_blocks_nobody(tmp_path: Path) -> None:
    """Its worker takes the floor, then the rows; a command that waits for the floor has the rows."""
    ids = CountingIds()
    async with await open_store(tmp_path / "lamella.db", ids) as store:
        await store.conversations.create_conversation(ANN, CONVERSATION)
        slow = store.conversations = SlowConversations(store.database, ids)
        slow.gate = Gate()
        mailboxes = Mailboxes(store)
        box = mailboxes.of("conv_1")
        await box.floor.acquire()  # an answer is followed up

        async def keep() -> None:
            async with box.floor, box.rows:
                box.keeper = None

        async def take() -> bool:
            async with box.rows:
                return await mailboxes.takes_floor(box, ANN, "conv_1")

        command = asyncio.create_task(take())
        await slow.gate.reached.wait()
        box.keeper = asyncio.create_task(keep())  # a signal came
        await asyncio.sleep(0)
        slow.gate.opened.set()
        box.floor.release()
        assert await asyncio.wait_for(command, 2) is False, "it goes to the queue"
        async with asyncio.timeout(2), box.floor, box.rows:
            assert box.keeper is None
