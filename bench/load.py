"""How many streams at 30 tokens a second a server carries: lag, CPU for a token, and memory for a stream.

    python bench/load.py [--streams 50 100 200] [--json]

Every stream asks in a conversation of its own. The lag of a delta is how much later it comes than its place in the
stream says, counted from the first of its stream. The same streams straight from the simulator, through a bare HTTP
client, say how much of it is the simulator's and the generator's own; through the official SDK, what a program without
a server spends for a token. Memory is what the server's process alone holds with all streams running, less what it held
before, less the packets, which it keeps for clients that come back.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import anthropic
import httpx2
import msgspec

from latency import MODEL, PIECE, QUESTION, settings
from processes import KEY, Running, cpu_of, memory_of, server, simulator
from stop import share
from tables import arguments, emit, milliseconds, show

RATE = 30
"""Deltas of a stream in a second."""
TOKENS = 300
WAYS = ("by the SDK", "through the server")
LIMIT = 0.1
"""Seconds that the p99 of the lag may be."""


@dataclass(slots=True)
class Stream:
    """When each delta came, and the bytes that came in all."""

    times: list[float]
    bytes: int = 0

    def lags(self) -> list[float]:
        """Seconds that each delta was late."""
        return [at - self.times[0] - number / RATE for number, at in enumerate(self.times)]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way and one number of streams; times in seconds, CPU in seconds for a token, memory in bytes."""

    way: str
    streams: int
    tokens: int
    lag_median: float
    lag_p99: float
    cpu_server: float
    cpu_simulator: float
    cpu_generator: float
    memory: float


async def listen(answer: httpx2.Response, mark: bytes) -> Stream:
    """Read a stream to its end; a delta is a line that holds `mark`."""
    answer.raise_for_status()
    found, end = Stream([]), b""
    async for data in answer.aiter_raw():
        at = time.perf_counter()
        count = (end + data).count(mark) - end.count(mark)
        found.times += [at] * count
        found.bytes += len(data)
        end = data[-len(mark) + 1 :]
    return found


async def straight(http: httpx2.AsyncClient) -> Stream:
    """From the simulator itself."""
    body = {"model": MODEL, "max_tokens": 4_000, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21"}
    async with http.stream("POST", "/v1/messages", json=body, headers=headers) as answer:
        return await listen(answer, b'"text_delta"')


async def by_sdk(client: anthropic.AsyncAnthropic) -> Stream:
    """From the simulator, through the SDK that the server uses too."""
    found = Stream([])
    ask: anthropic.types.MessageParam = {"role": "user", "content": QUESTION}
    async with await client.messages.create(model=MODEL, max_tokens=4_000, messages=[ask], stream=True) as events:
        async for event in events:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                found.times.append(time.perf_counter())
    return found


async def through(http: httpx2.AsyncClient, conversation: str) -> Stream:
    """Through the server."""
    path = f"/api/v1/conversations/{conversation}/turns"
    async with http.stream("POST", path, json={"text": QUESTION}) as answer:
        return await listen(answer, b'"type":"text.delta"')


async def measure(
    way: str, asks: Sequence[Callable[[], Coroutine[None, None, Stream]]], pids: tuple[int, int], watched: int | None
) -> Figures:
    """All streams at once; `pids` are server and simulator, `watched` the process whose memory is looked at."""
    before = memory_of(watched).own if watched is not None else 0.0
    spent = [cpu_of(pid) for pid in (*pids, os.getpid())]
    tasks = [asyncio.create_task(ask()) for ask in asks]
    await asyncio.sleep(TOKENS / RATE * 0.9)
    held = memory_of(watched).own if watched is not None else 0.0
    streams = await asyncio.gather(*tasks)
    server_cpu, simulator_cpu, own = (
        cpu_of(pid) - begun for pid, begun in zip((*pids, os.getpid()), spent, strict=True)
    )
    lags = [lag for stream in streams for lag in stream.lags()]
    kept = sum(stream.bytes for stream in streams) * 0.9
    return Figures(
        way,
        len(asks),
        len(lags),
        share(lags, 50),
        share(lags, 99),
        server_cpu / len(lags),
        simulator_cpu / len(lags),
        own / len(lags),
        ((held - before) * 1e6 - kept) / len(asks),
    )


async def all_ways(sim: Running, lamella: Running, numbers: Sequence[int]) -> list[Figures]:
    words = "".join(f"{number:03d} " for number in range(TOKENS))
    reply = {"even": {"text": words, "chunk": PIECE}}
    found = []
    limits = httpx2.Limits(max_connections=2_000, max_keepalive_connections=2_000, keepalive_expiry=3)
    async with (
        httpx2.AsyncClient(base_url=sim.url, timeout=120, limits=limits, trust_env=False) as provider,
        httpx2.AsyncClient(base_url=lamella.url, timeout=120, limits=limits, trust_env=False) as http,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=sim.url) as sdk,
    ):
        (await provider.post("/_sim/replies", content=msgspec.json.encode(reply))).raise_for_status()
        await settings(sim.url, {"default_reply": "even", "rate": RATE * PIECE, "keep_requests": 10})
        pids = (lamella.pid, sim.pid)
        conversation = str((await http.post("/api/v1/conversations", json={})).json()["id"])
        await through(http, conversation)  # the first turn loads what a server loads once
        for number in numbers:
            found.append(await measure("straight", [partial(straight, provider)] * number, pids, None))
            found.append(await measure(WAYS[0], [partial(by_sdk, sdk)] * number, pids, None))
            made = [(await http.post("/api/v1/conversations", json={})).json()["id"] for _ in range(number)]
            asks = [partial(through, http, str(id)) for id in made]
            found.append(await measure(WAYS[1], asks, pids, lamella.pid))
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 100, 200])
    given = parser.parse_args()
    environment = {"ANTHROPIC_API_KEY": KEY}
    with simulator() as sim, server(environment | {"ANTHROPIC_BASE_URL": sim.url}) as lamella:
        found = asyncio.run(all_ways(sim, lamella, given.streams))
    if given.json:
        emit([asdict(one) for one in found])
        return
    rows = [["streams", "way", "lag median", "p99", "CPU/token: server", "simulator", "generator", "memory/stream"]]
    for one in found:
        cpus = [f"{cpu * 1e6:.0f} µs" for cpu in (one.cpu_server, one.cpu_simulator, one.cpu_generator)]
        memory = f"{one.memory / 1e3:.0f} kB" if one.way == WAYS[1] else ""
        lags = [milliseconds(one.lag_median), milliseconds(one.lag_p99)]
        rows.append([str(one.streams), one.way, *lags, *cpus, memory])
    show(rows)
    for number in given.streams:
        alone, served = (next(one for one in found if (one.way, one.streams) == (way, number)) for way in WAYS)
        print(f"{number} streams: {served.cpu_server / alone.cpu_generator:.2f} times the CPU of the SDK alone")
    carried = [one.streams for one in found if one.way == WAYS[1] and one.lag_p99 <= LIMIT]
    print(f"\np99 within {LIMIT * 1e3:.0f} ms: up to {max(carried, default=0)} streams of those tried")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
