"""Kills replicas at random moments under speaking conversations, and measures what several replicas cost.

    python bench/replicas.py [--kills 200] [--replicas 3] [--conversations 30] [--seed N] [--json]
    python bench/replicas.py --stops 200           the time that a stop from another replica takes
    python bench/replicas.py --cpu 300             CPU of a turn with 1, 2 and 4 replicas
    python bench/replicas.py --databases 300       CPU of a turn of a server that is alone, on PostgreSQL to SQLite
    python bench/replicas.py --packets 8000        CPU that a packet costs which goes to another replica by Redis

The replicas serve one PostgreSQL with one Valkey behind haproxy (`apt-get install haproxy`). Their clients know the
balancer only. They speak to one to three models, send messages that have to wait, and compact. After the kills the
laws of `replicating/laws.py` are checked: no message lost or doubled, no turn stuck, every packet heard once and in
order, and no law of context broken. A seed says which replica dies after how long, not at which instruction.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from random import Random, SystemRandom
from secrets import token_hex

import httpx2
import msgspec

from lamella.core.clock import SystemClock
from lamella.turns.journal import MemoryBus
from lamella.turns.redis_bus import RedisBus, opened_bus
from processes import KEY, Running, Spent, server, simulator
from replicating import laws
from replicating.clients import Heard, Speaker, messages
from replicating.cluster import Cluster, Replica, Servers, cluster, servers
from tables import arguments, emit, show

STORY = "It was a dark and stormy night, and the rain fell in torrents; but for some gusts of wind it was quiet. " * 2
OPTIONS = ("--rate", "150", "--option", "default_reply=story", "--option", "chunk=6")
KEPT = ("--option", "keep_requests=100000", "--option", "keep_request_bytes=2000000000")
PAUSES = 0.1, 2.0
"""Seconds between two kills."""
AWAY, AWAY_SECONDS = 0.1, (5.0, 9.0)
"""How often a killed replica stays away, and for how long: the others find out that it is dead and take over. One that
is started at once says by its name that it takes the place of the dead one.
"""
CPU_AT_ONCE = 8
TURNS_AT_ONCE = 10
TURNS_STREAMED = 16
PACKET = b'{"type":"text.delta","n":1234567,"turn_id":"turn_06h1yjfeh06qb136edw2","run_id":"run_1","text":" and the"}'


@dataclass(slots=True)
class Figures:
    """What happened in all."""

    seed: int
    replicas: int
    kills: int = 0
    away: int = 0
    messages: int = 0
    commands: int = 0
    queued: int = 0
    interrupted: int = 0
    reconnected: int = 0
    requests: int = 0
    lost_ms: list[float] = field(default_factory=list)
    """Of interrupted turns: how much of what was heard is not stored."""
    silence_s: float = 0.0
    """The longest silence of a turn."""
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)


def _client(url: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=60, limits=limits)


async def _speak(speaker: Speaker, random: Random, name: str, ended: asyncio.Event, all_heard: list[Heard]) -> None:
    """One conversation, until `ended` is set: what is said at once, then the next."""
    conversation, number = await speaker.conversation(), 0
    while not ended.is_set():
        said = messages(random, f"{name}-{number}", conversation)
        number += 1
        all_heard += said
        async with asyncio.TaskGroup() as group:
            for one in said:
                placed = asyncio.Event()
                group.create_task(speaker.say(one, placed))
                await placed.wait()


async def _kill(among: Cluster, random: Random, kills: int, found: Figures, how: signal.Signals) -> None:
    for _ in range(kills):
        await asyncio.sleep(random.uniform(*PAUSES))
        one = random.choice(among.replicas)
        one.kill(how)
        if random.random() < AWAY:
            await asyncio.sleep(random.uniform(*AWAY_SECONDS))
            found.away += 1
        await one.begin()
        if random.random() < 0.9:  # else the next one dies while this one starts
            await one.ready()
        found.kills += 1
    await asyncio.gather(*(one.ready() for one in among.replicas))


async def kill_often(
    provider: str,
    on: Servers,
    kills: int,
    replicas: int,
    conversations: int,
    seed: int,
    how: signal.Signals = signal.SIGKILL,
) -> Figures:
    """So many kills under so many conversations, then the laws."""
    random, found, heard, begun = Random(seed), Figures(seed, replicas), list[Heard](), time.monotonic()
    await _tell(provider)
    async with cluster(provider, replicas, on) as among, _client(among.url) as http:
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for number in range(conversations):
                own = Random(f"{seed} {number}")
                group.create_task(_speak(Speaker(http), own, f"{seed}-{number}", ended, heard))
            await _kill(among, random, kills, found, how)
            ended.set()
        found.broken += await laws.of_conversations(http, heard)
        found.broken += laws.of_rows(among.database)
        await _figures(http, heard, found)
    async with _client(provider) as simulated:
        requests = (await simulated.get("/_sim/requests")).json()["requests"]
    found.requests = len(requests)
    found.broken += laws.of_windows(requests)
    found.seconds = time.monotonic() - begun
    return found


async def _tell(provider: str) -> None:
    async with _client(provider) as simulated:
        story = {"story": {"reasoning": "Hm. " * 5, "text": STORY}}
        (await simulated.post("/_sim/replies", json=story)).raise_for_status()


async def _figures(http: httpx2.AsyncClient, heard: list[Heard], found: Figures) -> None:
    found.messages = sum(not one.command for one in heard)
    found.commands = sum(one.command for one in heard)
    found.queued = sum(bool(one.queued_id) for one in heard)
    found.reconnected = sum(one.connections > 1 for one in heard)
    found.silence_s = max((one.silence for one in heard), default=0.0)
    cut = [one for one in heard if one.ended == "interrupted"]
    found.interrupted = len(cut)
    found.lost_ms = [1000 * laws.lost_seconds(one, await laws.packets_of(http, one.turn_id)) for one in cut]


# A stop from another replica


async def _stop_once(on: Replica, other: Replica) -> float:
    """Milliseconds from a stop that `other` gets to the last packet of the turn, which is heard from `on`."""
    async with _client(on.url) as http, _client(other.url) as elsewhere:
        id = (await http.post("/api/v1/conversations", json={})).json()["id"]
        began = 0.0
        async with http.stream("POST", f"/api/v1/conversations/{id}/turns", json={"text": "Question."}) as answer:
            async for line in answer.aiter_lines():
                packet = msgspec.json.decode(line[6:]) if line.startswith("data: ") else {"type": ""}
                if packet["type"] == "text.delta" and not began:
                    began = time.perf_counter()
                    await elsewhere.post(f"/api/v1/turns/{packet['turn_id']}/stop")
                if packet["type"] == "turn.stopped":
                    return (time.perf_counter() - began) * 1000
    return float("inf")


async def stop_often(provider: str, on: Servers, count: int) -> tuple[list[float], list[float]]:
    """So many stops from another replica, and as many from the same one, in turns."""
    await _tell(provider)
    async with cluster(provider, 2, on) as among:
        one, other = among.replicas
        both = [(await _stop_once(one, other), await _stop_once(one, one)) for _ in range(count)]
    return [far for far, _ in both], [near for _, near in both]


# CPU


async def cpu_of_turns(provider: str, on: Servers, count: int, replicas: int) -> float:
    """CPU milliseconds of Lamella's processes for a turn, with so many replicas behind the balancer."""
    await _tell(provider)
    async with cluster(provider, replicas, on) as among, _client(among.url) as http:
        speaker = Speaker(http)
        ids = [await speaker.conversation() for _ in range(CPU_AT_ONCE)]

        async def speak(id: str, name: str, turns: int) -> None:
            for number in range(turns):
                await speaker.say(Heard(f"{name}-{number}", id, f"Question {name}-{number}."))

        async def speak_all(name: str, turns: int) -> None:
            await asyncio.gather(*(speak(id, f"{name}-{n}", turns) for n, id in enumerate(ids)))

        await speak_all("warm", 2 * replicas)
        before = sum(one.spent() for one in among.replicas)
        each = max(1, count // CPU_AT_ONCE)
        await speak_all("told", each)
        return (sum(one.spent() for one in among.replicas) - before) / (each * CPU_AT_ONCE) * 1000


async def cpu_by_database(urls: Mapping[str, Running], count: int) -> dict[str, float]:
    """CPU milliseconds of each server for a turn. They speak by turns, so that both meet the same load."""
    spent = dict.fromkeys(urls, 0.0)
    rounds = max(1, count // TURNS_AT_ONCE)
    for number in range(rounds + 1):  # the first one warms up
        for name, one in urls.items():
            async with _client(one.url) as http:
                speaker = Speaker(http)
                id = await speaker.conversation()
                before = Spent.of(one.pid)
                for turn in range(TURNS_AT_ONCE):
                    await speaker.say(Heard(f"{name}-{number}-{turn}", id, f"Question {number}-{turn}."))
                await asyncio.sleep(1.0)  # what follows the last turn
                spent[name] += Spent.of(one.pid).since(before) if number else 0.0
    return {name: seconds / (rounds * TURNS_AT_ONCE) * 1000 for name, seconds in spent.items()}


def _cpu_of_databases(count: int) -> dict[str, float]:
    with simulator("--rate", "0", *OPTIONS[2:]) as provider, servers() as (database, _):
        asyncio.run(_tell(provider.url))
        common = {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": KEY}
        with (
            server(common) as file,
            server({**common, "LAMELLA_DATABASE_URL": database.url(database.copied())}) as other,
        ):
            return asyncio.run(cpu_by_database({"SQLite": file, "PostgreSQL": other}, count))


async def cpu_of_packets(url: str, count: int) -> dict[str, float]:
    """CPU microseconds of a packet: given to followers here, sent to Redis too, and heard by another process too.

    `TURNS_STREAMED` turns give one packet each 20 ms, as models do.
    """
    clock = SystemClock()
    found = {"here": await _cpu_of_packets(MemoryBus(), None, count)}
    async with opened_bus(url, clock) as here, opened_bus(url, clock) as there:
        found["sent"] = await _cpu_of_packets(here, None, count)
        found["sent and heard"] = await _cpu_of_packets(here, there, count)
    return found


async def _cpu_of_packets(here: MemoryBus, there: RedisBus | None, count: int) -> float:
    turns = [f"turn_{token_hex(4)}" for _ in range(TURNS_STREAMED)]
    for turn in turns:
        here.open(turn)
    with ExitStack() as stack:
        heard = [stack.enter_context(there.heard.listening(turn, 0))[0] for turn in turns] if there is not None else []
        await asyncio.sleep(0.2)
        began, each = time.process_time(), count // len(turns)
        for n in range(1, each + 1):
            for turn in turns:
                here.publish(turn, n, PACKET)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        spent = time.process_time() - began
        assert all(turn.position == each for turn in heard), "not all packets came"
    for turn in turns:
        here.close(turn)
    return spent / (each * len(turns)) * 1e6


def _say_kills(found: Figures) -> None:
    lost = sorted(found.lost_ms) or [0.0]
    names = (
        "seed",
        "replicas",
        "kills",
        "away",
        "messages",
        "commands",
        "queued",
        "interrupted",
        "reconnected",
        "requests",
    )
    rows = [(name, str(getattr(found, name))) for name in names]
    rows += [
        ("of a stream lost, median", f"{statistics.median(lost):.0f} ms"),
        ("of a stream lost, most", f"{lost[-1]:.0f} ms"),
        ("longest silence", f"{found.silence_s:.1f} s"),
        ("laws broken", str(len(found.broken))),
        ("seconds", f"{found.seconds:.0f}"),
    ]
    show(rows)
    for law in found.broken:
        print(law)


def _say_stops(far: list[float], near: list[float]) -> None:
    rows = [("stop", "median", "p99")]
    for name, times in (("from another replica", far), ("from the same one", near)):
        at = sorted(times)
        rows.append((name, f"{statistics.median(at):.0f} ms", f"{at[int(0.99 * (len(at) - 1))]:.0f} ms"))
    show(rows)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--conversations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--terminate", action="store_true", help="end replicas by SIGTERM in place of SIGKILL")
    parser.add_argument("--stops", type=int, help="measure so many stops instead")
    parser.add_argument("--cpu", type=int, help="measure the CPU of so many turns instead")
    parser.add_argument("--databases", type=int, help="measure the CPU of so many turns on each database instead")
    parser.add_argument("--packets", type=int, help="measure the CPU of so many packets through Redis instead")
    given = parser.parse_args()
    if given.databases:
        by_name = _cpu_of_databases(given.databases)
        rows = [(name, f"{ms:.1f} ms", f"{ms / by_name['SQLite']:.2f}") for name, ms in by_name.items()]
        emit(by_name) if given.json else show([("database", "CPU of a turn", "to SQLite"), *rows])
        return
    if given.packets:
        with servers() as (_, valkey):
            by_way = asyncio.run(cpu_of_packets(valkey.url, given.packets))
        emit(by_way) if given.json else show(
            [("packet", "CPU"), *((way, f"{us:.1f} µs") for way, us in by_way.items())]
        )
        return
    if given.stops:
        with simulator(*OPTIONS) as provider, servers() as on:
            far, near = asyncio.run(stop_often(provider.url, on, given.stops))
        emit({"another": far, "same": near}) if given.json else _say_stops(far, near)
        return
    if given.cpu:
        found_cpu = {}
        for count in (1, 2, 4):
            with simulator("--rate", "0", *OPTIONS[2:]) as provider, servers() as on:
                found_cpu[count] = asyncio.run(cpu_of_turns(provider.url, on, given.cpu, count))
        rows = [(str(n), f"{ms:.1f} ms", f"{ms / found_cpu[1]:.2f}") for n, ms in found_cpu.items()]
        emit(found_cpu) if given.json else show([("replicas", "CPU of a turn", "to one"), *rows])
        return
    how = signal.SIGTERM if given.terminate else signal.SIGKILL
    with simulator(*OPTIONS, *KEPT) as provider, servers() as on:
        found = asyncio.run(
            kill_often(provider.url, on, given.kills, given.replicas, given.conversations, given.seed, how)
        )
    emit(asdict(found)) if given.json else _say_kills(found)
    sys.exit(1 if found.broken else 0)


if __name__ == "__main__":
    main()
