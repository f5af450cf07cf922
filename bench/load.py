"""How many streams at 30 tokens a second a server carries: lag, CPU for a token, and memory for a stream.

    python bench/load.py [--streams 20 50 100] [--litellm FOLDER] [--json]

Every stream asks in a conversation of its own. The lag of a delta is how much later it comes than its place in the
stream says, counted from the first of its stream. The same streams straight from the simulator, through a bare HTTP
client, say how much of it is the simulator's and the generator's own; through the official SDK, what a program without
a server spends for a token. With `--litellm`, an environment with `litellm[proxy]`, they go through LiteLLM's proxy
too. Server, simulator and generator (this one) are a process each, and their CPU is told apart.

Memory is what a process alone holds with all streams running, less the packets, which the server keeps for clients
that come back. What a further stream adds is the difference between the most streams and the fewest.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import anthropic
import httpx2
import msgspec

from latency import MODEL, PIECE, settings
from loading.litellm import ADVICE, proxy, version_of
from loading.streams import RATE, Stream, by_litellm, by_sdk, straight, through
from processes import KEY, Running, cpu_of, memory_of, server, simulator
from stop import share
from tables import arguments, emit, milliseconds, show

TOKENS = 300
STRAIGHT, SDK, SERVER, LITELLM = "straight", "by the SDK", "through the server", "through LiteLLM"
LIMIT = 0.1
"""Seconds that the p99 of the lag may be."""
OBJECT = 110
"""Bytes that Python takes for a packet that is kept, beyond those that go over the wire."""
FULL = 0.9
"""The share of a core, or of all of them, from which on it is full."""

Ask = Callable[[], Coroutine[None, None, Stream]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way and one number of streams; times in seconds, memory in bytes.

    `cpu` is what the process between spent on a token, the generator where there is none; the shares are of a core,
    while the streams ran. `held` is what that process held less the packets.
    """

    way: str
    streams: int
    failed: int
    lag_median: float
    lag_p99: float
    cpu: float
    between: float
    simulator: float
    generator: float
    held: float

    @property
    def limit(self) -> str:
        """What was full."""
        shares = {"the process between": self.between, "the simulator": self.simulator, "the generator": self.generator}
        full = [name for name, part in shares.items() if part >= FULL]
        if sum(shares.values()) >= FULL * (os.cpu_count() or 1):
            full.append(f"the machine's {os.cpu_count()} cores")
        return ", ".join(full)


async def measure(
    way: str, asks: Sequence[Ask], sim: Running, between: Running | None, *, kept: bool = False
) -> Figures:
    """All streams at once, through the process `between`, which keeps its packets where `kept`."""
    pids = [sim.pid, os.getpid(), *([between.pid] if between is not None else [])]
    begun, spent = time.perf_counter(), [cpu_of(pid) for pid in pids]
    tasks = [asyncio.create_task(ask()) for ask in asks]
    await asyncio.sleep(TOKENS / RATE * 0.9)
    held = memory_of(between.pid).own * 1e6 if between is not None else 0.0
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    seconds = time.perf_counter() - begun
    of_sim, own, *of_between = (cpu_of(pid) - before for pid, before in zip(pids, spent, strict=True))
    streams = [stream for stream in ended if isinstance(stream, Stream)]
    lags = [lag for stream in streams for lag in stream.lags()]
    if not lags:
        raise RuntimeError(f"no stream came {way}: {ended[0]!r}")
    return Figures(
        way,
        len(asks),
        len(asks) - len(streams),
        share(lags, 50),
        share(lags, 99),
        (of_between[0] if of_between else own) / len(lags),
        sum(of_between) / seconds,
        of_sim / seconds,
        own / seconds,
        held - ((sum(stream.bytes for stream in streams) + OBJECT * len(lags)) * 0.9 if kept else 0.0),
    )


async def all_ways(sim: Running, lamella: Running, lite: Running | None, numbers: Sequence[int]) -> list[Figures]:
    words = "".join(f"{number:03d} " for number in range(TOKENS))
    reply = {"even": {"text": words, "chunk": PIECE}}
    found = []
    async with AsyncExitStack() as stack:
        provider, http = [await stack.enter_async_context(_client(one.url)) for one in (sim, lamella)]
        proxied = await stack.enter_async_context(_client(lite.url)) if lite is not None else None
        sdk = await stack.enter_async_context(anthropic.AsyncAnthropic(api_key=KEY, base_url=sim.url))
        (await provider.post("/_sim/replies", content=msgspec.json.encode(reply))).raise_for_status()
        await settings(sim.url, {"default_reply": "even", "rate": RATE * PIECE * 100, "keep_requests": 10})
        # The first turn loads what a server loads once.
        await through(http, await _conversation(http))
        if proxied is not None:
            await by_litellm(proxied)
        await settings(sim.url, {"default_reply": "even", "rate": RATE * PIECE, "keep_requests": 10})
        for number in numbers:
            found.append(await measure(STRAIGHT, [partial(straight, provider)] * number, sim, None))
            found.append(await measure(SDK, [partial(by_sdk, sdk)] * number, sim, None))
            asks = [partial(through, http, await _conversation(http)) for _ in range(number)]
            found.append(await measure(SERVER, asks, sim, lamella, kept=True))
            if proxied is not None:
                found.append(await measure(LITELLM, [partial(by_litellm, proxied)] * number, sim, lite))
    return found


def _client(url: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=2_000, max_keepalive_connections=2_000, keepalive_expiry=3)
    return httpx2.AsyncClient(base_url=url, timeout=120, limits=limits, trust_env=False)


async def _conversation(http: httpx2.AsyncClient) -> str:
    return str((await http.post("/api/v1/conversations", json={})).json()["id"])


def tell(found: Sequence[Figures]) -> None:
    """The table, and what follows from it."""
    ways = [way for way in (SERVER, LITELLM) if any(one.way == way for one in found)]
    head = "streams, way, failed, lag median, p99, CPU/token, to the SDK, between, simulator, generator, full"
    rows = [head.split(", ")]
    for one in found:
        alone = next(other for other in found if (other.way, other.streams) == (SDK, one.streams))
        shares = [f"{part:.2f}" for part in (one.between, one.simulator, one.generator)]
        lags = [milliseconds(one.lag_median), milliseconds(one.lag_p99)]
        cost = [f"{one.cpu * 1e6:.0f} µs", f"{one.cpu / alone.cpu:.2f}"]
        rows.append([str(one.streams), one.way, str(one.failed), *lags, *cost, *shares, one.limit or "nothing"])
    show(rows)
    print()
    for way in ways:
        mine = sorted((one for one in found if one.way == way), key=lambda one: one.streams)
        few, many = mine[0], mine[-1]
        carried = max((one.streams for one in mine if one.lag_p99 <= LIMIT and not one.failed), default=0)
        print(f"{way}: p99 within {LIMIT * 1e3:.0f} ms up to {carried} streams of those tried; one core is full with")
        print(f"  {1 / many.cpu / RATE:.0f} streams by what {many.streams} cost")
        if few is not many:
            slope = (many.held - few.held) / (many.streams - few.streams)
            fixed = few.held - slope * few.streams
            print(f"  {slope / 1e3:.0f} kB for a further stream, {fixed / 1e6:.0f} MB without any")
    late = [one for one in found if one.way == STRAIGHT and one.lag_p99 > LIMIT]
    if late:
        print(f"\nStraight from the simulator the p99 is above {LIMIT * 1e3:.0f} ms from {late[0].streams} streams on:")
        print("what comes later than that is for want of a core on this machine, not of the process between.")
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--litellm", type=Path, metavar="FOLDER", help="an environment with litellm[proxy]")
    given = parser.parse_args()
    version = version_of(given.litellm) if given.litellm is not None else ""
    with ExitStack() as stack:
        sim = stack.enter_context(simulator())
        environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": sim.url}
        lamella = stack.enter_context(server(environment))
        lite = stack.enter_context(proxy(given.litellm, MODEL, sim.url)) if version else None
        found = asyncio.run(all_ways(sim, lamella, lite, given.streams))
    if given.json:
        emit({"litellm": version or None, "figures": [asdict(one) for one in found]})
        return
    print(f"LiteLLM {version}\n" if version else f"without LiteLLM: {ADVICE}\n")
    tell(found)


if __name__ == "__main__":
    main()
