"""`RedisBus` on a real server: packets once and in order, bells, and what happens while the server is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from lamella.core.clock import SystemClock
from lamella.turns.heard import HeardTurns
from valkey_server import Valkey

redis_server = pytest.importorskip("lamella.turns.redis_server", reason="redis is not installed")
redis_bus = pytest.importorskip("lamella.turns.redis_bus")

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Process:
    """The bus of a process, and what it hears of turns."""

    def __init__(self, url: str, answer_seconds: float) -> None:
        self.heard = HeardTurns()
        self.bus = redis_bus.RedisBus(redis_server.redis_client(url, answer_seconds), self.heard, SystemClock())
        self.numbers: dict[str, list[int]] = {}
        self._listening = AsyncExitStack()

    async def listen(self, turn_id: str, after: int = 0) -> None:
        """Note the numbers of what can be given without a gap. What is missed is missed."""
        turn, news = self._listening.enter_context(self.heard.listening(turn_id, after))
        numbers = self.numbers[turn_id] = []

        async def noting() -> None:
            seen = after
            while True:
                news.clear()
                if turn.misses(seen):
                    seen = turn.packets[0][0] - 1
                for n, data in turn.after(seen):
                    assert data == packet(n)
                    numbers.append(n)
                    seen = n
                await news.wait()

        self._listening.callback(asyncio.create_task(noting()).cancel)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        async with self._listening, self.bus.running():
            yield self


def packet(n: int) -> bytes:
    return b'{"n":%d}' % n


@asynccontextmanager
async def processes(valkey: Valkey, answer_seconds: float = 5) -> AsyncIterator[tuple[Process, Process]]:
    """The one that runs turns, and one that hears of them."""
    here, there = (Process(valkey.url, answer_seconds) for _ in range(2))
    async with here.running(), there.running():
        yield here, there


def say(process: Process, turn_id: str, numbers: range) -> None:
    for n in numbers:
        process.bus.publish(turn_id, n, packet(n))


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  # the other process tells nobody
            await asyncio.sleep(0.01)


async def test_packets_are_heard_in_order_by_listeners_that_come_early_and_late(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        here.bus.open("turn_1")
        await there.listen("turn_1")
        for n in range(1, 201):
            say(here, "turn_1", range(n, n + 1))
            if n == 100:
                async with processes(valkey) as (_, late):
                    await late.listen("turn_1", 90)
                    await until(lambda: late.numbers["turn_1"] == list(range(91, 101)))
            await asyncio.sleep(0)
        await until(lambda: there.numbers["turn_1"] == list(range(1, 201)))
        assert valkey.run("XLEN", "lamella:turn:turn_1") < 200  # several in an entry


async def test_a_stream_is_bounded_and_expires(valkey: Valkey) -> None:
    async with processes(valkey) as (here, _):
        here.bus.open("turn_1")
        for n in range(1, 201):
            here.bus.publish("turn_1", n, b"x" * 10_000)
            if n % 5 == 0:
                await asyncio.sleep(0.02)
        await until(lambda: valkey.run("XREVRANGE", "lamella:turn:turn_1", "+", "-", "COUNT", 1)[0][0] == b"200-0")
        entries = valkey.run("XRANGE", "lamella:turn:turn_1", "-", "+")
        size = sum(len(fields[b"p"]) for _, fields in entries)
        assert redis_bus.STREAM_BYTES / 2 < size <= redis_bus.STREAM_BYTES + redis_bus.ENTRY_BYTES
        assert 0 < valkey.run("TTL", "lamella:turn:turn_1") <= redis_bus.EXPIRE_SECONDS
        here.bus.close("turn_1")
        await until(lambda: 0 < valkey.run("TTL", "lamella:turn:turn_1") <= redis_bus.ENDED_SECONDS)


async def test_a_packet_that_is_too_large_leaves_a_gap_and_no_more(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        here.bus.open("turn_1")
        await there.listen("turn_1")
        say(here, "turn_1", range(1, 4))
        here.bus.publish("turn_1", 4, b"x" * (redis_bus.STREAM_BYTES + 1))
        say(here, "turn_1", range(5, 7))
        await until(lambda: there.numbers["turn_1"][-1:] == [6])
        assert 4 not in there.numbers["turn_1"]
        assert there.heard.turns["turn_1"].packets == [(5, packet(5)), (6, packet(6))]


async def test_a_turn_that_never_began_leaves_nothing(valkey: Valkey) -> None:
    async with processes(valkey) as (here, _):
        here.bus.open("turn_1")
        here.bus.close("turn_1")
        await asyncio.sleep(0.1)
        assert not here.bus.is_live("turn_1")
        assert valkey.run("EXISTS", "lamella:turn:turn_1") == 0
        assert here.bus._outgoing == {}


async def test_a_bell_is_heard_at_once_and_only_by_its_process(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        loop = asyncio.get_running_loop()
        hearing = asyncio.create_task(there.bus.rung("proc_2", 20))
        other = asyncio.create_task(here.bus.rung("proc_1", 1.0))
        await asyncio.sleep(0.2)
        assert not hearing.done()
        here.bus.ring("proc_2")
        began = loop.time()
        await hearing
        assert loop.time() - began < 1
        await other
        assert loop.time() - began > 0.5  # nobody rang
        there.bus.ring("proc_1")
        await asyncio.sleep(0.2)
        began = loop.time()
        await here.bus.rung("proc_1", 20)  # it was rung meanwhile
        assert loop.time() - began < 1


async def test_a_ring_while_the_server_is_away_is_heard_when_it_is_back(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        await there.bus.rung("proc_2", 0.1)
        valkey.kill()
        here.bus.ring("proc_2")
        hearing = asyncio.create_task(there.bus.rung("proc_2", 60))
        await asyncio.sleep(0.5)
        assert not hearing.done()
        valkey.start()
        await asyncio.wait_for(hearing, 10)


@pytest.mark.parametrize("remembers", [False, True])
async def test_a_server_that_restarts_costs_no_packet(remembers: bool) -> None:
    valkey_server = pytest.importorskip("valkey_server")
    with valkey_server.running_valkey(remembers=remembers) as valkey, capture_logs() as lines:
        async with processes(valkey) as (here, there):
            here.bus.open("turn_1")
            await there.listen("turn_1")
            say(here, "turn_1", range(1, 101))
            await until(lambda: there.numbers["turn_1"] == list(range(1, 101)))
            valkey.kill()
            say(here, "turn_1", range(101, 151))
            await asyncio.sleep(0.7)
            say(here, "turn_1", range(151, 201))
            valkey.start()
            await until(lambda: there.numbers["turn_1"] == list(range(1, 201)))
            await until(lambda: all(process.bus.outage.problem is None for process in (here, there)))
        said = [line["event"] for line in lines]
        assert 2 <= sum(event.startswith("Redis is away") for event in said) <= 4  # two processes; a start may be slow
        assert sum(event == "Redis is back" for event in said) >= 2


async def test_a_server_that_loses_its_memory_costs_at_most_what_was_not_read(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        here.bus.open("turn_1")
        await there.listen("turn_1")
        for n in range(1, 301):
            say(here, "turn_1", range(n, n + 1))
            await asyncio.sleep(0.002)
            if n % 50 == 0:
                valkey.flush()
        say(here, "turn_1", range(301, 302))
        await until(lambda: there.numbers["turn_1"][-1:] == [301])
        numbers = there.numbers["turn_1"]
        assert all(before < after for before, after in pairwise(numbers))
        assert len(numbers) > 200


async def test_a_paused_server_delays_nothing_here_and_goes_on(valkey: Valkey) -> None:
    async with processes(valkey, answer_seconds=1.5) as (here, there):
        here.bus.open("turn_1")
        await there.listen("turn_1")
        say(here, "turn_1", range(1, 11))
        await until(lambda: there.numbers["turn_1"] == list(range(1, 11)))
        valkey.pause()
        began = asyncio.get_running_loop().time()
        for n in range(11, 111):
            say(here, "turn_1", range(n, n + 1))
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - began < 1
        assert [n for n, _ in await anext(here.bus.follow("turn_1", 0))] == list(range(1, 111))
        await until(lambda: here.bus.outage.problem is not None)
        valkey.resume()
        await until(lambda: there.numbers["turn_1"] == list(range(1, 111)))
        await until(lambda: here.bus.outage.problem is None)


async def test_a_process_ends_at_whatever_moment_it_is_told(valkey: Valkey) -> None:
    async with asyncio.timeout(60):
        for steps in range(120):
            async with processes(valkey) as (here, there):
                here.bus.open("turn_1")
                say(here, "turn_1", range(1, 3))
                there.bus.ring("proc_1")
                for _ in range(steps):
                    await asyncio.sleep(0)


async def test_what_waits_for_a_server_that_is_away_is_bounded(valkey: Valkey) -> None:
    async with processes(valkey) as (here, there):
        valkey.kill()
        here.bus.open("turn_1")
        await there.listen("turn_1")
        large = b"x" * 200_000
        for n in range(1, 101):
            here.bus.publish("turn_1", n, large)
            await asyncio.sleep(0)
        waiting = sum(len(data) for turn in here.bus._outgoing.values() for _, data in turn.waiting)
        assert waiting <= redis_bus.WAITING_BYTES + len(large)
        valkey.start()
        say(here, "turn_1", range(101, 102))
        await until(lambda: there.heard.turns["turn_1"].position == 101)


async def test_a_server_without_room_is_away_and_says_why(valkey: Valkey) -> None:
    async with processes(valkey) as (here, _):
        here.bus.open("turn_1")
        valkey.run("CONFIG", "SET", "maxmemory", "1")
        say(here, "turn_1", range(1, 3))
        await until(lambda: here.bus.outage.problem is not None)
        assert "maxmemory" in str(here.bus.outage.problem)
        valkey.run("CONFIG", "SET", "maxmemory", "0")
        await until(lambda: here.bus.outage.problem is None)
