"""Several processes write to one PostgreSQL at once, as fast as they can: none is refused, and all is stored once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic
from typing import TypeVar

import pytest
from sqlalchemy import Connection, text

from lamella.core.clock import SystemClock
from lamella.core.ids import RandomIds
from lamella.core.records import PageQuery
from lamella.storage import Store
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import OPTIMISTIC, PostgresDatabase
from postgres import PostgresServer

from .examples import ANN, conversation, entry, minutes, new_request, new_turn, queued_message, record, turn_end

pytestmark = pytest.mark.anyio

PROCESSES, CONVERSATIONS, TURNS = 3, 20, 4

ResultT = TypeVar("ResultT")


class CountedDatabase(PostgresDatabase):
    """Counts how often each transaction that writes is tried."""

    attempts: list[int]

    async def _write_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        attempts = 0

        def counted(connection: Connection) -> ResultT:
            nonlocal attempts
            attempts += 1
            return work(connection)

        try:
            return await super()._write_with(counted)
        finally:
            self.attempts.append(attempts)


@asynccontextmanager
async def _process(url: str, name: str = "", attempts: list[int] | None = None) -> AsyncIterator[Store]:
    database = CountedDatabase.of(database_url(url))
    assert isinstance(database, CountedDatabase)
    database.attempts = [] if attempts is None else attempts
    async with Store(database, RandomIds(SystemClock())) as store:
        if name:
            await store.replicas.begin(name, name, minutes(0))
        yield store


async def _speak(store: Store, process: str, id: str, shared: str) -> None:
    """A conversation of its own, then messages in the one that all share."""
    await store.conversations.create_conversation(ANN, conversation(id))
    for number in range(TURNS):
        turn_id = f"turn_{id}_{number}"
        turn = replace(new_turn(turn_id), conversation_id=id, user_message_id=f"msg_{turn_id}")
        await store.keys.claim_key(ANN, turn_id, "turns", "f", turn_id, minutes(0))
        await store.replicas.take(process, id, to_speak=True)
        await store.turns.begin_turn(ANN, turn, minutes(0))
        waiting = queued_message(f"queued_{turn_id}", conversation_id=id)
        await store.queue.queue_message(ANN, waiting, 50)
        sent = replace(record(), id=f"req_{turn_id}", conversation_id=id, turn_id=turn_id, run_id=turn.runs[0].id)
        await store.requests.record_request(ANN, new_request(sent))
        await store.turns.append_journal([entry(1, 2, turn_id=turn_id)])
        await store.queue.cancel_queued(ANN, waiting.id)
        await store.turns.finish_turn(ANN, turn_end(turn_id))
        await store.replicas.let_go(process, id)
    for number in range(TURNS):
        await store.queue.queue_message(ANN, queued_message(f"shared_of_{id}_{number}", conversation_id=shared), 1_000)


async def test_nobody_is_refused_however_many_write(postgres: PostgresServer) -> None:
    """Their newest rows share pages of the indexes: PostgreSQL undoes a third of their transactions."""
    url, shared, tried = postgres.url(postgres.copied()), "conv_shared", list[int]()
    ids = [f"conv_{number:02}" for number in range(CONVERSATIONS)]
    async with (
        _process(url, "proc_0", tried) as one,
        _process(url, "proc_1", tried) as two,
        _process(url, "proc_2", tried) as three,
    ):
        await one.conversations.create_conversation(ANN, conversation(shared))
        stores = (one, two, three)
        speaking = [
            _speak(stores[number % PROCESSES], f"proc_{number % PROCESSES}", id, shared)
            for number, id in enumerate(ids)
        ]
        await asyncio.gather(*speaking)
        for id in ids:
            turns = (await two.turns.turns(ANN, id, PageQuery(100))).data
            assert [(turn.id, turn.status) for turn in reversed(turns)] == [
                (f"turn_{id}_{number}", "finished") for number in range(TURNS)
            ]
            assert (await two.replicas.take("proc_1", id, to_speak=True)).holder == "proc_1"
        waiting = await three.queue.queued(ANN, shared)
        assert [message.seq for message in waiting] == list(range(1, CONVERSATIONS * TURNS + 1))
        assert len({message.id for message in waiting}) == CONVERSATIONS * TURNS
    assert max(tried) > 1
    assert max(tried) <= OPTIMISTIC + 2, "a busy machine may need one more: who waits to be alone gives up after 2 s"


CONTRADICTED = text("DO $$ BEGIN RAISE EXCEPTION 'contradicted' USING ERRCODE = '40001'; END $$")


async def test_a_transaction_that_is_contradicted_again_runs_alone(postgres: PostgresServer) -> None:
    """Nobody else writes meanwhile, and readers go on."""
    url = postgres.url(postgres.copied())
    async with _process(url) as one, _process(url) as other:
        await one.conversations.create_conversation(ANN, conversation())
        attempts, others = 0, list[asyncio.Task[object]]()
        loop = asyncio.get_running_loop()

        def work(connection: Connection) -> int:
            nonlocal attempts
            attempts += 1
            if attempts <= OPTIMISTIC:
                connection.execute(CONTRADICTED)
            loop.call_soon_threadsafe(
                lambda: others.append(asyncio.ensure_future(other.queue.queue_message(ANN, queued_message(), 9)))
            )
            connection.execute(text("SELECT pg_sleep(0.5)"))
            assert not others[0].done()
            return len(asyncio.run_coroutine_threadsafe(other.queue.queued(ANN, "conv_1"), loop).result(5))

        assert await one.database.write(work) == 0
        await others[0]
        assert (attempts, len(await one.queue.queued(ANN, "conv_1"))) == (OPTIMISTIC + 1, 1)


async def test_a_process_that_stands_still_holds_up_others_for_two_seconds(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.copied())
    async with _process(url) as one, _process(url) as other:
        await one.conversations.create_conversation(ANN, conversation())
        begun, ended, attempts = asyncio.Event(), asyncio.Event(), 0
        loop = asyncio.get_running_loop()

        def stand_still(connection: Connection) -> None:
            connection.execute(text("SELECT count(*) FROM deployment"))
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(ended.wait(), loop).result(30)

        def work(connection: Connection) -> int:
            nonlocal attempts
            attempts += 1
            if attempts <= OPTIMISTIC:
                connection.execute(CONTRADICTED)
            return int(connection.execute(text("SELECT count(*) FROM conversations")).scalar_one())

        standing = asyncio.create_task(one.database.write(stand_still))
        await begun.wait()
        waiting, since = asyncio.create_task(other.database.write(work)), monotonic()
        await asyncio.sleep(0.3)
        await other.queue.queue_message(ANN, queued_message(), 9)  # it waits behind the one that wants to be alone
        assert monotonic() - since < 6
        assert not waiting.done()
        ended.set()
        await standing
        assert await waiting == 1
