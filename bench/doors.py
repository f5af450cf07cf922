"""What a door costs: Lamella's gateway beside a bare relay and LiteLLM's proxy, in the same run.

    python bench/doors.py [--rounds 5] [--chunks 500] [--litellm FOLDER] [--json]

The same clients send to one paced upstream: directly, through a bare relay (by aiohttp, which Lamella asks with, and by
httpx2), through the gateway by each door, and with `--litellm`, an environment with `litellm[proxy]`, through LiteLLM's
proxy. Each server is a process of its own, the clients are this one. Rounds alternate between all ways.

CPU of a chunk is what the server's process spends on a stream of chunks 2 ms apart, divided by their number: until the
client has the last byte, and until the process is at rest, with the record. Other figures: the time to the first byte
of a 90 kB request; the gaps of eight streams while a 2 MB request comes, passes and is recorded; the time until the
upstream is closed after the client left; and the records dropped if requests come faster than they are stored.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2

from loading.litellm import ADVICE, proxies, version_of
from processes import KEY, Running, Spent, server
from relaying.ways import Conversation, Streamed, Way, stream
from tables import arguments, emit, middle, milliseconds, show

HERE = Path(__file__).parent
PAUSE = 0.002
BODY, LONG_BODY = 90_000, 2_000_000
STREAMS, THEIR_PAUSE, THEIR_CHUNKS = 8, 0.02, 150
FLOOD, SENDERS = 2_000, 40
REQUESTS = 4
BARE = "bare relay, aiohttp"


@contextmanager
def running(*command: str) -> Iterator[Running]:
    """A process of `relaying`, which prints its address."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", *command], cwd=HERE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            yield Running(process.pid, url, time.perf_counter() - begun)
        finally:
            process.terminate()


def lamella_ways(lamella: Running) -> list[Way]:
    """Every door, as its clients use it, and two ways to a model of another vendor."""
    where = (lamella.url, lamella.pid)
    return [
        Way("Messages, client's markers", *where, "messages", marks=True, is_ours=True),
        Way("Messages, markers added", *where, "messages", is_ours=True),
        Way("Chat, usage asked for", *where, "chat", asks=True, is_ours=True),
        Way("Chat, usage added and hidden", *where, "chat", is_ours=True),
        Way("Responses", *where, "responses", is_ours=True),
        Way("Messages to Chat", *where, "messages", marks=True, model="gpt-6.1-terra", is_ours=True),
        Way("Chat to Messages", *where, "chat", asks=True, model="claude-opus-5-5", is_ours=True),
    ]


@dataclass
class Samples:
    """What was measured of one way, one item for each round or request; times in seconds."""

    cpu: list[float] = field(default_factory=list)
    cpu_with_record: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    first_added: list[float] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way. Times in seconds; None where there is no server between, or the figure was not measured."""

    way: str
    cpu: float | None
    cpu_ratio: float | None
    cpu_with_record: float | None
    first: float
    first_added: float
    gap_quiet: float | None
    gap_busy: float | None
    closed: float | None


class Bench:
    """All ways to one upstream."""

    def __init__(self, upstream: Running, ways: Sequence[Way], chunks: int) -> None:
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200, keepalive_expiry=3)
        self.http = httpx2.AsyncClient(timeout=120, limits=limits, trust_env=False)
        self._upstream, self._ways, self._chunks = upstream, ways, chunks
        self.samples = {way.name: Samples() for way in ways}
        self._talks = {way.name: Conversation(way, BODY, name=way.name) for way in ways}

    async def pace(self, chunks: int, pause: float) -> None:
        """How the upstream writes from now on."""
        answer = await self.http.post(f"{self._upstream.url}/_set", json={"chunks": chunks, "pause": pause})
        answer.raise_for_status()

    async def warm(self) -> None:
        """One request on each way that is not counted."""
        await self.pace(20, 0)
        for way in self._ways:
            await stream(self.http, way, Conversation(way, 2_000, name="warm").body("Hello."))

    async def chunk_cost(self, way: Way) -> None:
        """CPU of the server for each chunk of one stream."""
        if way.pid is None:
            return
        await self.pace(self._chunks, PAUSE)
        await at_rest(way.pid)
        before = Spent.of(way.pid)
        found = await stream(self.http, way, Conversation(way, 2_000, name=str(before.whole)).body("Tell me."))
        spent = Spent.of(way.pid).since(before)
        await at_rest(way.pid)
        if found.words < 0.9 * self._chunks:
            raise RuntimeError(f"{way.name} gave {found.words} of {self._chunks} chunks")
        self.samples[way.name].cpu.append(spent / self._chunks)
        self.samples[way.name].cpu_with_record.append(Spent.of(way.pid).since(before) / self._chunks)

    async def first_bytes(self, times: int) -> None:
        """Time to the first byte of a long request, each way right after the direct one."""
        await self.pace(20, 0)
        for number in range(times):
            direct = 0.0
            for way in self._ways:
                if way.pid is not None:
                    await at_rest(way.pid)
                first = (await stream(self.http, way, self._talks[way.name].body(f"And {number}?"))).first
                direct = first if way.pid is None else direct
                self.samples[way.name].first.append(first)
                self.samples[way.name].first_added.append(first - direct)

    async def gaps(self, way: Way, number: int) -> None:
        """The longest gaps of other streams, without and with a very long request."""
        await self.pace(THEIR_CHUNKS, THEIR_PAUSE)
        if way.pid is not None:
            await at_rest(way.pid)
        for long in (False, True):
            talks = [Conversation(way, 2_000, name=f"{number} {n} {long}") for n in range(STREAMS)]
            streams = [stream(self.http, way, talk.body("Go on.")) for talk in talks]
            body = Conversation(way, LONG_BODY, 5_000, f"{number}").body("Long.") if long else b""
            found = (await asyncio.gather(*streams, *([self._late(way, body)] if long else [])))[:STREAMS]
            every = [gap for one in found for gap in one.gaps()]
            sample = self.samples[way.name]
            (sample.busy if long else sample.quiet).append(sorted(every)[int(len(every) * 0.99)])

    async def _late(self, way: Way, body: bytes) -> Streamed:
        await asyncio.sleep(THEIR_CHUNKS * THEIR_PAUSE / 6)
        return await stream(self.http, way, body)

    async def leaving(self, way: Way) -> None:
        """Time from the client's leaving to the closing of the upstream's connection."""
        await self.pace(2_000, PAUSE)
        await stream(self.http, way, Conversation(way, 2_000, name="leaves").body("Bye."), leave_after=5)
        left = time.monotonic()
        for _ in range(1_000):
            closed = float((await self.http.get(f"{self._upstream.url}/_left")).json()["left"])
            if closed:
                self.samples[way.name].closed.append(max(0.0, closed - left))
                return
            await asyncio.sleep(0.01)
        raise RuntimeError(f"{way.name} leaves the upstream open")

    def figures(self, way: Way) -> Figures:
        """The medians of a way; ratios are taken within a round."""
        own, bare = self.samples[way.name], self.samples[BARE]
        between = way.pid is not None
        pairs = zip(own.cpu, bare.cpu, strict=True) if between else ()
        return Figures(
            way.name,
            middle(own.cpu) if between else None,
            middle([mine / its for mine, its in pairs]) if between else None,
            middle(own.cpu_with_record) if between else None,
            middle(own.first),
            middle(own.first_added),
            middle(own.quiet) if own.quiet else None,
            middle(own.busy) if own.busy else None,
            max(own.closed) if own.closed else None,
        )


async def at_rest(pid: int) -> None:
    """Wait until a process uses no CPU for a tenth of a second, at most for a minute."""
    for _ in range(600):
        before = Spent.of(pid)
        await asyncio.sleep(0.1)
        if Spent.of(pid).since(before) < 0.005:
            return


@dataclass(frozen=True, slots=True)
class Flood:
    """Requests that were sent as fast as they were answered, and what was recorded of them; times in seconds."""

    sent: int
    answered: int
    recorded: int
    seconds: float
    recorded_after: float

    @property
    def dropped(self) -> int:
        """Records that were dropped."""
        return self.answered - self.recorded


async def flood(bench: Bench, way: Way, sent: int) -> Flood:
    """Send requests from many clients at once, with no pause."""
    await bench.pace(20, 0)
    assert way.pid is not None
    await at_rest(way.pid)
    before = await _recorded(bench.http, way.url)
    begun = time.perf_counter()
    waiting = iter(range(sent))
    answered = 0

    async def sender(name: str) -> None:
        nonlocal answered
        talk = Conversation(way, 20_000, name=name)
        for number in waiting:
            await stream(bench.http, way, talk.body(f"{number}."))
            answered += 1

    await asyncio.gather(*(sender(f"flood {n}") for n in range(SENDERS)))
    ended = time.perf_counter()
    await at_rest(way.pid)
    recorded = await _recorded(bench.http, way.url) - before
    return Flood(sent, answered, recorded, ended - begun, time.perf_counter() - ended)


async def _recorded(http: httpx2.AsyncClient, url: str) -> int:
    """The requests of all lines."""
    count: int = 0
    after = ""
    while True:
        page = (
            await http.get(f"{url}/api/v1/lines", params={"limit": 100, **({"after": after} if after else {})})
        ).json()
        count += sum(int(line["requests"]) for line in page["data"])
        if not page["has_more"]:
            return count
        after = page["data"][-1]["id"]


async def measure(
    upstream: Running, ways: Sequence[Way], rounds: int, chunks: int, sent: int
) -> tuple[list[Figures], Flood | None]:
    """All figures of all ways."""
    bench = Bench(upstream, ways, chunks)
    async with bench.http:
        await bench.warm()
        for number in range(rounds):
            for way in ways:
                await bench.chunk_cost(way)
            await bench.first_bytes(REQUESTS)
            for way in ways:
                await bench.gaps(way, number)
                await bench.leaving(way)
        ours = next(way for way in ways if way.is_ours)
        flooded = await flood(bench, ours, sent) if sent else None
        return [bench.figures(way) for way in ways], flooded


def table(found: Sequence[Figures]) -> list[list[str]]:
    """A line for each way."""
    head = ["way", "CPU of a chunk", "to relay", "with record", "first byte", "added", "gap p99", "with 2 MB", "closed"]
    return [head, *([f.way, *_cells(f)] for f in found)]


def _cells(f: Figures) -> list[str]:
    micro = [f"{cpu * 1e6:.0f} µs" if cpu is not None else "" for cpu in (f.cpu, f.cpu_with_record)]
    ratio = f"{f.cpu_ratio:.2f}" if f.cpu_ratio is not None else ""
    times = [
        milliseconds(t) if t is not None else "" for t in (f.first, f.first_added, f.gap_quiet, f.gap_busy, f.closed)
    ]
    return [micro[0], ratio, micro[1], *times]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=500, help="chunks of a paced stream")
    parser.add_argument("--flood", type=int, default=FLOOD, help="requests sent with no pause; 0 for none")
    parser.add_argument("--litellm", type=Path, metavar="FOLDER", help="an environment with litellm[proxy]")
    options = parser.parse_args()
    version = version_of(options.litellm) if options.litellm else ""
    with ExitStack() as stack:
        upstream = stack.enter_context(running("relaying.upstream"))
        ways = [Way("direct", upstream.url, None, "messages", marks=True)]
        for library in ("aiohttp", "httpx2"):
            bare = stack.enter_context(running("relaying.relay", library, upstream.url))
            ways.append(Way(f"bare relay, {library}", bare.url, bare.pid, "messages", marks=True))
        its = {"ANTHROPIC_BASE_URL": upstream.url, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        lamella = stack.enter_context(server({**its, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}))
        ways += lamella_ways(lamella)
        if version:
            models = {
                "bench": ("anthropic/claude-opus-5", upstream.url),
                "chat": ("openai/gpt-5", f"{upstream.url}/v1"),
            }
            other = stack.enter_context(proxies(options.litellm, models))
            ways.append(Way("LiteLLM, Messages", other.url, other.pid, "messages", marks=True, model="bench"))
            ways.append(Way("LiteLLM, Chat", other.url, other.pid, "chat", asks=True, model="chat"))
        found, flooded = asyncio.run(measure(upstream, ways, options.rounds, options.chunks, options.flood))
    if options.json:
        load = os.getloadavg()[0]
        emit(
            {"litellm": version, "load": load, "ways": [asdict(f) for f in found], "flood": flooded and asdict(flooded)}
        )
        return
    show(table(found))
    if flooded is not None:
        print(
            f"\n{flooded.answered} of {flooded.sent} requests answered in {flooded.seconds:.1f} s, {flooded.recorded} "
            f"recorded, {flooded.dropped} records dropped; the last was stored {flooded.recorded_after:.1f} s later"
        )
    print(
        f"load {os.getloadavg()[0]:.1f}" + (f", LiteLLM {version}" if version else f"; LiteLLM not measured: {ADVICE}")
    )


if __name__ == "__main__":
    main()
