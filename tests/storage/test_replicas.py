"""Several processes on one database: who may write, who holds a conversation, and what a gone process leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from lamella.core.errors import LeaseLost, NotFound
from lamella.core.replicas import Hold, Inherited, Signal, SignalKind
from lamella.storage import Store
from lamella.storage.database import FENCE, Fence

from .conftest import Backing
from .examples import ANN, NOON, conversation, minutes, new_job, new_turn, queued_message, turn_end

pytestmark = pytest.mark.anyio

T = TypeVar("T")


@pytest.fixture
async def both(store: Store) -> Store:
    """A store with a conversation, and the processes `one` and `two`."""
    await store.conversations.create_conversation(ANN, conversation())
    await store.replicas.begin("one", "", NOON)
    await store.replicas.begin("two", "web-2", NOON)
    return store


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Writes of the block are those of a process."""
    token = FENCE.set(fence)
    try:
        yield
    finally:
        FENCE.reset(token)


async def as_process(store: Store, id: str, work: Awaitable[T]) -> T:
    """What a verb gives if this process calls it."""
    store.database.process_id = id
    try:
        return await work
    finally:
        store.database.process_id = None


async def test_a_process_may_write_until_another_one_gives_it_up(both: Store, backing: Backing) -> None:
    fence = Fence("one")
    with fenced(fence):
        await both.turns.begin_turn(ANN, new_turn(), minutes(0))
        assert await both.replicas.end("one", 0)
        before = backing.dump()
        for late in (
            both.turns.finish_turn(ANN, turn_end()),
            both.queue.queue_message(ANN, queued_message()),
            both.turns.append_journal([]),
            both.replicas.take("one", "conv_1", to_speak=False),
            both.jobs.begin(ANN, new_job(), minutes(0), 90.0),
        ):
            with pytest.raises(LeaseLost, match="taken over"):
                await late
    assert fence.lost.is_set()
    assert backing.dump() == before


async def test_a_write_that_was_refused_as_it_was_kept_leaves_its_connection_usable(both: Store) -> None:
    """It looks at no answer, so that it is refused with the last round trip."""
    assert await both.replicas.end("one", 0)
    with fenced(Fence("one")):
        for number in range(8):
            with pytest.raises(LeaseLost):
                await both.replicas.begin(f"late_{number}", "", NOON)
    for number in range(8):
        await both.replicas.begin(f"new_{number}", "", NOON)


async def test_a_process_that_gave_a_sign_of_life_meanwhile_is_not_given_up(both: Store) -> None:
    assert await both.replicas.beat("one")
    assert (await both.replicas.look("two")).beats == {"one": 1}
    assert not await both.replicas.end("one", 0)
    assert await both.replicas.end("one", 1)
    assert not await both.replicas.beat("one")
    assert (await both.replicas.look("two")).beats == {}


async def test_a_start_with_a_name_ends_the_former_process_of_that_name(both: Store) -> None:
    await both.replicas.begin("three", "web-2", NOON)
    assert not await both.replicas.beat("two")
    assert sorted((await both.replicas.look("three")).beats) == ["one"]
    await both.replicas.begin("four", "", NOON)
    assert sorted((await both.replicas.look("three")).beats) == ["four", "one"], "without a name it ends nobody"


async def test_one_process_holds_a_conversation(both: Store) -> None:
    assert await both.replicas.take("one", "conv_1", to_speak=True) == Hold("one")
    assert await both.replicas.take("one", "conv_1", to_speak=True) == Hold("one")
    assert await both.replicas.take("two", "conv_1", to_speak=True) == Hold("one")
    assert not await both.replicas.let_go("two", "conv_1")
    assert await both.replicas.hold("conv_1") == Hold("one")
    assert not await both.replicas.let_go("one", "conv_1")
    assert await both.replicas.hold("conv_1") == Hold(None)
    with pytest.raises(NotFound):
        await both.replicas.take("one", "conv_9", to_speak=False)


async def test_what_waits_is_answered_first_and_keeps_the_conversation_held(both: Store) -> None:
    await as_process(both, "one", both.queue.queue_message(ANN, queued_message()))
    assert await both.replicas.hold("conv_1") == Hold("one", None, waits=True)
    assert await both.replicas.take("one", "conv_1", to_speak=True) == Hold("one", None, waits=True)
    assert await both.replicas.let_go("one", "conv_1")
    await both.queue.cancel_queued(ANN, "queued_m1")
    assert not await both.replicas.let_go("one", "conv_1")


async def test_a_conversation_is_held_while_a_turn_runs(both: Store) -> None:
    await both.replicas.take("one", "conv_1", to_speak=True)
    await both.turns.begin_turn(ANN, new_turn(), minutes(0))
    assert await both.replicas.let_go("one", "conv_1")
    assert await both.replicas.hold("conv_1") == Hold("one", "turn_1")
    await both.turns.finish_turn(ANN, turn_end())
    assert not await both.replicas.let_go("one", "conv_1")


async def test_a_conversation_without_a_holder_is_not_taken_to_speak_while_something_is_left(both: Store) -> None:
    await both.turns.begin_turn(ANN, new_turn(), minutes(0))
    assert await both.replicas.take("one", "conv_1", to_speak=True) == Hold(None, "turn_1")
    await both.turns.finish_turn(ANN, turn_end())
    await both.queue.queue_message(ANN, queued_message())
    assert await both.replicas.take("one", "conv_1", to_speak=True) == Hold(None, waits=True)
    assert await both.replicas.take("one", "conv_1", to_speak=False) == Hold("one", waits=True)


async def test_the_holder_is_told_of_a_row_that_another_process_adds(both: Store) -> None:
    await both.replicas.take("one", "conv_1", to_speak=True)
    await as_process(both, "two", both.queue.queue_message(ANN, queued_message()))
    assert (await both.replicas.look("one")).has_signals
    assert not (await both.replicas.look("two")).has_signals
    told = Signal(SignalKind.QUEUE, "conv_1", {"owner": ANN.user_id})
    assert await both.replicas.take_signals("one") == (told,)
    assert not (await both.replicas.look("one")).has_signals


async def test_signals_come_once_and_in_order_to_the_process_that_holds_a_conversation(both: Store) -> None:
    stop = Signal(SignalKind.STOP, "conv_1", {"owner": "user_ann", "turn": "turn_1", "run": None})
    approve = Signal(SignalKind.APPROVE, "conv_1", {"owner": "user_ann", "turn": "turn_1", "approved": True})
    assert await both.replicas.signal("two", stop) is None, "nobody holds it"
    await both.replicas.take("one", "conv_1", to_speak=True)
    assert await both.replicas.signal("one", stop) is None, "it is the holder itself"
    assert [await both.replicas.signal("two", one) for one in (stop, approve)] == ["one", "one"]
    assert await both.replicas.take_signals("two") == ()
    assert await both.replicas.take_signals("one") == (stop, approve)
    assert await both.replicas.take_signals("one") == ()
    abort = Signal(SignalKind.ABORT, "conv_1", {"owner": "user_ann"})
    assert await both.replicas.signal_all("one", abort) == ("two",)
    assert await both.replicas.take_signals("two") == (abort,)


async def test_what_a_gone_process_held_goes_to_the_one_that_asks_first(both: Store) -> None:
    await both.conversations.create_conversation(ANN, conversation("conv_2"))
    await both.replicas.take("one", "conv_1", to_speak=True)
    await both.replicas.take("two", "conv_2", to_speak=True)
    await both.replicas.signal("two", Signal(SignalKind.STOP, "conv_1", {}))
    await both.jobs.enqueue(ANN, new_job(), NOON)
    job = await as_process(both, "one", both.jobs.claim(["compact"], NOON, 90.0))
    assert job is not None
    assert not (await both.replicas.look("two")).has_orphans
    assert await both.replicas.inherit("two", NOON) == ()

    await both.replicas.end("one", 0)
    assert (await both.replicas.look("two")).has_orphans
    assert await both.replicas.inherit("two", NOON) == (Inherited("conv_1", ANN.user_id),)
    assert await both.replicas.inherit("two", NOON) == ()
    assert [await both.replicas.hold(f"conv_{n}") for n in (1, 2)] == [Hold("two"), Hold("two")]
    assert await both.replicas.take_signals("one") == ()
    again = await as_process(both, "two", both.jobs.claim(["compact"], NOON, 90.0))
    assert again is not None
    with pytest.raises(LeaseLost):
        await both.jobs.finish(job, NOON)


async def test_a_job_of_a_process_that_lives_is_left_to_it(both: Store) -> None:
    await both.jobs.enqueue(ANN, new_job(), NOON)
    job = await as_process(both, "one", both.jobs.claim(["compact"], NOON, 90.0))
    await both.replicas.end("two")
    await both.replicas.inherit("one", NOON)
    assert job is not None
    await both.jobs.finish(job, NOON)


async def test_a_start_takes_what_one_process_alone_left(both: Store) -> None:
    for n in (2, 3):
        await both.conversations.create_conversation(ANN, conversation(f"conv_{n}"))
    await both.turns.begin_turn(ANN, new_turn(), minutes(0))
    await both.queue.queue_message(ANN, queued_message("queued_m2", conversation_id="conv_2"))
    assert not (await both.replicas.look("one")).has_orphans
    assert await both.replicas.inherit("one", NOON) == ()
    found = await both.replicas.inherit("one", NOON, started=True)
    assert [one.conversation_id for one in found] == ["conv_1", "conv_2"]
    assert await both.replicas.inherit("two", NOON, started=True) == ()


async def test_a_process_alone_forgets_all_others(both: Store, backing: Backing) -> None:
    await both.replicas.take("one", "conv_1", to_speak=True)
    await both.replicas.signal("two", Signal(SignalKind.STOP, "conv_1", {}))
    await both.replicas.clear()
    left = backing.dump()
    assert left.keys() & {"processes", "process_beats", "held_conversations", "signals"} == set()


@pytest.fixture
async def two_stores(backing: Backing) -> AsyncIterator[tuple[Store, Store]]:
    """Two processes' connections to one database."""
    async with await backing.open() as one, await backing.open() as two:
        await one.conversations.create_conversation(ANN, conversation())
        for store, id in ((one, "one"), (two, "two")):
            await store.replicas.begin(id, "", NOON)
            store.database.process_id = id
        yield one, two


async def test_of_many_that_take_a_conversation_at_once_one_has_it(two_stores: tuple[Store, Store]) -> None:
    for _ in range(20):
        holds = await asyncio.gather(
            *(store.replicas.take(store.database.process_id or "", "conv_1", to_speak=True) for store in two_stores * 2)
        )
        [holder] = {hold.holder for hold in holds}
        assert holder in ("one", "two")
        assert not await two_stores[0].replicas.let_go(holder or "", "conv_1")


async def test_a_row_that_comes_while_a_conversation_is_let_go_is_never_overlooked(
    two_stores: tuple[Store, Store],
) -> None:
    one, two = two_stores
    for n in range(30):
        await one.replicas.take("one", "conv_1", to_speak=True)
        left, _ = await asyncio.gather(
            one.replicas.let_go("one", "conv_1"), two.queue.queue_message(ANN, queued_message(f"queued_m{n}"))
        )
        holder = (await one.replicas.hold("conv_1")).holder
        assert holder == ("one" if left else "two")
        await two.queue.cancel_queued(ANN, f"queued_m{n}")
        assert not await one.replicas.let_go(str(holder), "conv_1")


async def test_a_late_write_is_kept_whole_or_refused(two_stores: tuple[Store, Store]) -> None:
    """One writes while two gives it up: what two reads after that is all that is ever there."""
    one, two = two_stores
    for n in range(20):
        id = f"late_{n}"
        await one.replicas.begin(id, "", NOON)

        async def late(id: str = id, n: int = n) -> bool:
            FENCE.set(Fence(id))
            try:
                await one.queue.queue_message(ANN, queued_message(f"queued_m{n}"))
            except LeaseLost:
                return False
            return True

        async def taken(id: str = id) -> list[str]:
            assert await two.replicas.end(id, 0)
            return [row.id for row in await two.queue.queued(ANN, "conv_1")]

        kept, seen = await asyncio.gather(asyncio.create_task(late()), asyncio.create_task(taken()))
        assert [row.id for row in await two.queue.queued(ANN, "conv_1")] == seen
        assert (f"queued_m{n}" in seen) == kept
