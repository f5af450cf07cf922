"""PostgreSQL restarts, is away, and loses connections at any moment: nothing is lost and nothing is doubled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import DBAPIError

from cut_connections import Proxy, proxied
from lamella.core.errors import LeaseLost, NotFound, NotWaiting, StoreFailed, StoreUnreachable
from lamella.core.ids import CountingIds
from lamella.core.records import PageQuery
from lamella.storage import Store
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import HeldDatabase, PostgresDatabase, held_database
from postgres import PostgresServer, running, skip_if_absent

from .conftest import PostgresBacking
from .examples import (
    ANN,
    conversation,
    entry,
    minutes,
    new_job,
    new_request,
    new_turn,
    notice,
    queued_message,
    record,
    turn_end,
)

pytestmark = pytest.mark.anyio

Rows = dict[str, list[dict[str, object]]]


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    """An address of the server whose connections can be cut."""
    with proxied(postgres.socket) as opened:
        yield opened


@asynccontextmanager
async def _reached(
    proxy: Proxy, postgres: PostgresServer, name: str = "", patience: float = 20.0
) -> AsyncIterator[tuple[Store, PostgresBacking]]:
    """A store on a new database through the proxy, and the same database as another program sees it."""
    name = name or postgres.copied()
    database = PostgresDatabase.of(database_url(postgres.behind(proxy.port, name)), patience=patience)
    async with Store(database, CountingIds()) as store:
        yield store, PostgresBacking(postgres, name)


Verb = Callable[[Store], Awaitable[object]]


async def _finish_job(store: Store) -> None:
    """Of a worker that was told, or not, that it is done."""
    if (job := await store.jobs.job(ANN, "compact", "conv_1")) is not None:
        with suppress(LeaseLost):
            await store.jobs.finish(job, minutes(1))


VERBS: dict[str, Verb] = {
    "create_conversation": lambda store: store.conversations.create_conversation(ANN, conversation()),
    "take": lambda store: store.replicas.take("one", "conv_1", to_speak=True),
    "claim_key": lambda store: store.keys.claim_key(ANN, "key", "turns", "f", "turn_1", minutes(0)),
    "begin_turn": lambda store: store.turns.begin_turn(ANN, new_turn(), minutes(0)),
    "record_request": lambda store: store.requests.record_request(ANN, new_request(record())),
    "append_journal": lambda store: store.turns.append_journal([entry(1, 2), entry(3)]),
    "queue_message": lambda store: store.queue.queue_message(ANN, queued_message(), 5),
    "change_queued": lambda store: store.queue.change_queued(ANN, "queued_m1", text="Other"),
    "add_notice": lambda store: store.notices.add_notice(ANN, notice(), ["queued_m1"]),
    "finish_turn": lambda store: store.turns.finish_turn(ANN, turn_end()),
    "begin_job": lambda store: store.jobs.begin(ANN, new_job(), minutes(0), 90.0),
    "finish_job": _finish_job,
    "let_go": lambda store: store.replicas.let_go("one", "conv_1"),
    "release_key": lambda store: store.keys.release_key(ANN, "key"),
    "turns": lambda store: store.turns.turns(ANN, "conv_1", PageQuery(5)),
}
"""A turn by its verbs, with a queued message."""


_MADE = re.compile(r"\w+_\d{6}")
"""An id that a verb makes anew each time it runs."""


def _known(rows: Rows) -> Rows:
    """Rows without the ids that verbs make."""
    return {
        table: [
            {
                name: "made" if isinstance(value, str) and _MADE.fullmatch(value) else value
                for name, value in row.items()
            }
            for row in found
        ]
        for table, found in rows.items()
    }


async def _played(store: Store, verbs: list[str]) -> None:
    for name in verbs:
        await VERBS[name](store)


async def _undisturbed(postgres: PostgresServer, proxy: Proxy) -> tuple[Rows, int]:
    """What is stored if nothing happens, and how often something was sent for it."""
    async with _reached(proxy, postgres) as (store, backing):
        before = proxy.sent
        await _played(store, list(VERBS))
        return _known(backing.dump()), proxy.sent - before


@pytest.mark.parametrize("forward", [True, False], ids=["done", "undone"])
@pytest.mark.parametrize("verb", [name for name in VERBS if name != "turns"])
async def test_a_commit_without_an_answer_happens_once(
    postgres: PostgresServer, proxy: Proxy, verb: str, forward: bool
) -> None:
    expected, _ = await _undisturbed(postgres, proxy)
    async with _reached(proxy, postgres) as (store, backing):
        names = list(VERBS)
        await _played(store, names[: names.index(verb)])
        proxy.cut_at(b"COMMIT", forward=forward)
        await VERBS[verb](store)
        assert proxy.cuts == 1
        await _played(store, names[names.index(verb) + 1 :])
        assert _known(backing.dump()) == expected


async def _cut_at_each(postgres: PostgresServer, proxy: Proxy, every: int) -> None:
    expected, sent = await _undisturbed(postgres, proxy)
    assert sent > 30
    for number in range(0, sent, every):
        for forward in (True, False):
            async with _reached(proxy, postgres) as (store, backing):
                proxy.cut_at_number(number, forward=forward)
                await _played(store, list(VERBS))
                assert _known(backing.dump()) == expected, (number, forward)


async def test_a_connection_cut_at_any_moment_loses_and_doubles_nothing(postgres: PostgresServer, proxy: Proxy) -> None:
    await _cut_at_each(postgres, proxy, 12)


@pytest.mark.long
async def test_a_connection_cut_at_every_moment_loses_and_doubles_nothing(
    postgres: PostgresServer, proxy: Proxy
) -> None:
    await _cut_at_each(postgres, proxy, 1)


async def test_many_writers_are_cut_again_and_again(postgres: PostgresServer, proxy: Proxy) -> None:
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())

        async def cut() -> None:
            while True:
                await asyncio.sleep(0.1)
                proxy.cut()

        cutting = asyncio.create_task(cut())
        ids = [f"queued_m{number:03}" for number in range(12)]
        await asyncio.gather(*(store.queue.queue_message(ANN, queued_message(id), 100) for id in ids))
        cutting.cancel()
        with suppress(asyncio.CancelledError):
            await cutting
        found = await store.queue.queued(ANN, "conv_1")
        assert sorted(message.id for message in found) == ids
        assert [message.seq for message in found] == list(range(1, 13))


async def test_sessions_that_the_server_ends_again_and_again_fail_nothing(postgres: PostgresServer) -> None:
    """It says so in the midst of the answers to statements that were sent together, and gives no more of them."""
    name, ended, done = postgres.copied(), asyncio.Event(), 0
    async with Store(PostgresDatabase.of(database_url(postgres.url(name))), CountingIds()) as store:

        async def write(number: int) -> int:
            count = 0
            while not ended.is_set():
                count += 1
                await store.queue.queue_message(ANN, queued_message(f"queued_{number}_{count}"), 10_000)
                await store.conversations.conversation(ANN, "conv_1")
            return count

        await store.conversations.create_conversation(ANN, conversation())
        writing = [asyncio.create_task(write(number)) for number in range(8)]
        for _round in range(20):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(postgres.cut, name)
        ended.set()
        async with asyncio.timeout(30):
            done = sum(await asyncio.gather(*writing))
        assert len(await store.queue.queued(ANN, "conv_1")) == done > 8


async def test_an_old_connection_is_replaced_at_once(
    postgres: PostgresServer, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        await asyncio.gather(*(store.conversations.conversation(ANN, "conv_1") for _ in range(8)))
        proxy.cut()
        await store.conversations.conversation(ANN, "conv_1")
    assert "can't be reached" not in "".join(capsys.readouterr())


async def test_what_is_asked_while_the_server_is_away_is_done_when_it_is_back(
    postgres: PostgresServer, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.refuse()
        asked = [asyncio.create_task(store.conversations.conversation(ANN, "conv_1")) for _ in range(20)]
        asked.append(asyncio.create_task(store.turns.begin_turn(ANN, new_turn(), minutes(0))))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert not any(task.done() for task in asked)
        proxy.accept()
        assert len(await asyncio.gather(*asked)) == 21
        assert (await store.conversations.conversation(ANN, "conv_1")).running_turn == "turn_1"
    told = "".join(capsys.readouterr())
    assert told.count("the database can't be reached; trying again") == told.count("the database is back") == 1


async def test_who_waits_too_long_is_told_what_is_down(postgres: PostgresServer, proxy: Proxy) -> None:
    async with _reached(proxy, postgres, patience=0.4) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.refuse()
        begun = monotonic()
        asked = [store.conversations.conversation(ANN, "conv_1") for _ in range(30)]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        assert monotonic() - begun < 5
        for error in failed:
            assert isinstance(error, StoreFailed)
            assert error.message == "PostgreSQL can't be reached."
            assert error.hint == "Try again in a moment. Is the server of LAMELLA_DATABASE_URL up?"
        proxy.accept()
        await store.conversations.conversation(ANN, "conv_1")


async def test_who_does_not_wait_finds_out_that_the_server_is_back(postgres: PostgresServer, proxy: Proxy) -> None:
    """The beats of a replica are such verbs: nobody else asks on their connections."""
    async with _reached(proxy, postgres, patience=0.0) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.refuse()
        for _again in range(3):
            with pytest.raises(StoreUnreachable):
                await store.conversations.conversation(ANN, "conv_1")
        proxy.accept()
        assert (await store.conversations.conversation(ANN, "conv_1")).id == "conv_1"


@pytest.mark.parametrize("forward", [True, False], ids=["done", "undone"])
async def test_a_verb_whose_end_is_unknown_waits_longer_and_then_knows(
    postgres: PostgresServer, proxy: Proxy, forward: bool
) -> None:
    async with _reached(proxy, postgres, patience=0.2) as (store, backing):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.cut_at(b"COMMIT", forward=forward, then_refuse=True)
        beginning = asyncio.create_task(store.turns.begin_turn(ANN, new_turn(), minutes(0)))
        await asyncio.sleep(1.0)
        assert proxy.cuts == 1
        assert not beginning.done()
        proxy.accept()
        assert (await beginning).id == "turn_1"
        assert len(backing.dump()["turns"]) == 1


async def test_a_commit_that_never_came_is_ended_at_the_server(postgres: PostgresServer, proxy: Proxy) -> None:
    """The connection is lost, and the server does not notice: the open transaction would hold its locks for hours."""
    async with _reached(proxy, postgres, patience=0.2) as (store, backing):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.lose_at(b"COMMIT")
        await store.queue.queue_message(ANN, queued_message(), 5)
        assert proxy.cuts == 1
        assert len(backing.dump()["queued_messages"]) == 1


async def test_an_error_of_the_caller_is_told_at_once(postgres: PostgresServer, proxy: Proxy) -> None:
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        await store.queue.queue_message(ANN, queued_message(), 5)
        await store.queue.cancel_queued(ANN, "queued_m1")
        with pytest.raises(NotWaiting):
            await store.queue.cancel_queued(ANN, "queued_m1")


@pytest.mark.parametrize("forward", [True, False], ids=["done", "undone"])
async def test_a_rollback_that_is_lost_changes_no_answer(postgres: PostgresServer, proxy: Proxy, forward: bool) -> None:
    """The server undoes what it did not hear the end of: nobody needs to know."""
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        await store.conversations.conversation(ANN, "conv_1")
        for read in range(2):
            proxy.cut_at(b"ROLLBACK", forward=forward)
            for _ in range(8):
                assert (await store.conversations.conversation(ANN, "conv_1")).id == "conv_1"
            assert proxy.cuts == read + 1
        proxy.cut_at(b"ROLLBACK", forward=forward)
        with pytest.raises(NotFound):
            await store.queue.cancel_queued(ANN, "queued_9")
        await store.queue.queue_message(ANN, queued_message(), 5)


AGAIN = text("DO $$ BEGIN RAISE EXCEPTION 'contradicted' USING ERRCODE = '40001'; END $$")


@pytest.mark.parametrize("forward", [True, False], ids=["done", "undone"])
async def test_a_transaction_that_others_contradict_runs_again_if_its_connection_is_lost_too(
    postgres: PostgresServer, proxy: Proxy, forward: bool
) -> None:
    async with _reached(proxy, postgres) as (store, _):
        attempts = 0

        def work(connection: Connection) -> str:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                proxy.cut_at(b"ROLLBACK", forward=forward)
                connection.execute(AGAIN)
            return str(connection.execute(text("SELECT 'done'")).scalar_one())

        assert await store.database.write(work) == "done"
        assert (attempts > 1, proxy.cuts) == (True, 1)


async def test_a_connection_that_is_lost_leaves_one_line_in_the_log(
    postgres: PostgresServer, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver says nothing of its own."""
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        for pattern in (b"BEGIN", b"INSERT", b"SELECT", b"COMMIT"):
            for forward in (True, False):
                proxy.cut_at(pattern, forward=forward)
                await store.queue.queue_message(ANN, queued_message(f"queued_{pattern!r}_{forward}"), 50)
        assert proxy.cuts == 8
    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == []


async def test_a_closed_store_waits_for_no_server(postgres: PostgresServer, proxy: Proxy) -> None:
    async with _reached(proxy, postgres) as (store, _):
        await store.conversations.create_conversation(ANN, conversation())
        proxy.refuse()
        asked = asyncio.create_task(store.conversations.conversation(ANN, "conv_1"))
        await asyncio.sleep(0.3)
        await store.close()
        with pytest.raises(StoreFailed, match="closed"):
            await asked
        proxy.accept()


async def test_the_lock_of_a_database_is_taken_again_after_a_restart(postgres: PostgresServer, proxy: Proxy) -> None:
    url = postgres.behind(proxy.port, postgres.copied())
    async with held_database(url) as held:
        assert held is not None
        proxy.cut()
        with pytest.raises(DBAPIError):
            held.look()
        assert held.take()
        other = HeldDatabase(database_url(url))
        assert not other.take()
        other.close()


async def test_a_process_whose_database_was_taken_stores_nothing_more(postgres: PostgresServer, proxy: Proxy) -> None:
    name = postgres.copied()
    async with (
        _reached(proxy, postgres, name) as (store, _),
        held_database(postgres.behind(proxy.port, name)) as held,
    ):
        assert held is not None
        assert isinstance(store.database, PostgresDatabase)
        held.lost = store.database.refuse
        await store.conversations.create_conversation(ANN, conversation())
        proxy.refuse()
        async with held_database(postgres.url(name)):
            proxy.accept()
            for _ in range(100):
                with suppress(StoreFailed):
                    await store.conversations.conversation(ANN, "conv_1")
                    await asyncio.sleep(0.1)
                    continue
                break
            with pytest.raises(StoreFailed, match="Another lamella serves this database"):
                await store.turns.begin_turn(ANN, new_turn(), minutes(0))


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    skip_if_absent()
    with running() as server:
        yield server


@pytest.mark.long
async def test_a_server_that_restarts_is_waited_for(own_server: PostgresServer) -> None:
    database = PostgresDatabase.of(database_url(own_server.url(own_server.copied())))
    async with Store(database, CountingIds()) as store:
        await store.conversations.create_conversation(ANN, conversation())
        stopped = asyncio.create_task(asyncio.to_thread(own_server.stop))
        ids = [f"queued_m{number:03}" for number in range(40)]
        asked = [asyncio.create_task(store.queue.queue_message(ANN, queued_message(id), 100)) for id in ids]
        await stopped
        await asyncio.sleep(10)
        await asyncio.to_thread(own_server.start)
        await asyncio.gather(*asked)
        assert len(await store.queue.queued(ANN, "conv_1")) == len(ids)


async def test_a_commit_that_a_crash_lost_is_not_taken_for_one_of_another_transaction(
    own_server: PostgresServer,
) -> None:
    """After a crash the server gives the ids of lost transactions to others, which may commit before it is asked."""
    with proxied(own_server.socket) as proxy:
        async with _reached(proxy, own_server) as (store, backing):
            await store.conversations.create_conversation(ANN, conversation())
            proxy.cut_at(b"COMMIT", forward=False, then_refuse=True)
            beginning = asyncio.create_task(store.turns.begin_turn(ANN, new_turn(), minutes(0)))
            async with asyncio.timeout(10):
                while not proxy.cuts:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(own_server.crash)
            await asyncio.to_thread(own_server.start)
            for _ in range(20):
                await asyncio.to_thread(own_server.run, "SELECT pg_current_xact_id()")
            proxy.accept()
            assert (await beginning).id == "turn_1"
            assert len(backing.dump()["turns"]) == 1


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([], "The user of the database lacks a right"),
        (["ALTER DATABASE {name} CONNECTION LIMIT 0"], "The database takes no more connections"),
        (["REVOKE CONNECT ON DATABASE {name} FROM PUBLIC"], "The user of the database lacks a right"),
        (["ALTER DATABASE {name} RENAME TO {name}_else"], "The server has no such database"),
        (["ALTER ROLE poor RENAME TO poorer"], "The server has no such user"),
    ],
    ids=["no right", "no connection left", "not let in", "no database", "no user"],
)
async def test_what_the_server_refuses_is_told_in_plain_words(
    postgres: PostgresServer, statements: list[str], said: str
) -> None:
    name = postgres.copied()
    postgres.run("DROP ROLE IF EXISTS poor")
    postgres.run("CREATE ROLE poor LOGIN")
    for statement in statements:
        postgres.run(statement.format(name=name))
    url = database_url(postgres.url(name)).set(username="poor")
    async with Store(PostgresDatabase.of(url, patience=0.5), CountingIds()) as store:
        with pytest.raises(StoreFailed, match=said) as found:
            await store.conversations.create_conversation(ANN, conversation())
    assert found.value.hint


async def test_a_server_that_is_not_there_is_told_as_such(postgres: PostgresServer, tmp_path: Path) -> None:
    """A server that was stopped has no socket any more."""
    address = make_url(postgres.url("none")).set(host=None, query={"host": str(tmp_path)})
    async with Store(PostgresDatabase.of(address, patience=0.1), CountingIds()) as store:
        with pytest.raises(StoreFailed, match="PostgreSQL can't be reached"):
            await store.conversations.create_conversation(ANN, conversation())
