"""What the server adds between a client and a provider: time to the first token, and CPU per streamed token.

    python bench/latency.py [--rounds 7] [--json]

The same requests go to one simulator process, once straight through the official SDK and once through `lamella serve`,
in alternating rounds. Load generator, server and simulator are processes of their own; the load generator is this one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import anthropic
import httpx2
import msgspec

from processes import KEY, Running, cpu_of, server, simulator
from tables import arguments, emit, middle, milliseconds, show

MODEL = "claude-sonnet-5-5"
QUESTION = "Tell me about the history of lighthouses, please."
PIECE = 4
"""Characters of one delta: about a token."""

TOKENS = 400
SCENARIOS = ((1, 0), (1, 20), (100, 0), (100, 20))
"""Streams at once, and milliseconds that the provider takes to its first token."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One stream: seconds to the first text, and the deltas of its text."""

    first: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Side:
    """One round of one way: the samples, and the seconds of CPU that each process spent."""

    samples: tuple[Sample, ...]
    client: float
    server: float
    simulator: float

    @property
    def first(self) -> float:
        """The median time to the first text."""
        return middle([sample.first for sample in self.samples])

    @property
    def tokens(self) -> int:
        """All text deltas of the round."""
        return sum(sample.tokens for sample in self.samples)


class Bench:
    """Both ways to the same simulator."""

    def __init__(self, sim: Running, lamella: Running, sdk: anthropic.AsyncAnthropic, http: httpx2.AsyncClient) -> None:
        self._sim = sim
        self._lamella = lamella
        self._sdk = sdk
        self._http = http
        self._body: dict[str, object] = {}

    async def prepare(self) -> None:
        """Send one turn through the server; its body is what the SDK sends from then on."""
        conversation = await self._conversation()
        await self._through(conversation)
        turns = (await self._http.get(f"/api/v1/conversations/{conversation}/turns")).json()["data"]
        requests = (await self._http.get(f"/api/v1/turns/{turns[0]['id']}/requests")).json()["data"]
        body = (await self._http.get(f"/api/v1/requests/{requests[0]['id']}/raw")).json()
        self._body = {name: value for name, value in body.items() if name != "stream"}

    async def straight(self, streams: int, repeats: int) -> Side:
        """`repeats` times `streams` requests at once through the SDK."""
        return await self._side([[self._direct] * streams] * repeats)

    async def through(self, streams: int, repeats: int) -> Side:
        """The same through the server, every turn in a conversation of its own that was made before."""
        ids = [[await self._conversation() for _ in range(streams)] for _ in range(repeats)]
        return await self._side([[partial(self._through, conversation) for conversation in wave] for wave in ids])

    async def _side(self, waves: Sequence[Sequence[Callable[[], Awaitable[Sample]]]]) -> Side:
        pids = (os.getpid(), self._lamella.pid, self._sim.pid)
        before = [cpu_of(pid) for pid in pids]
        samples: list[Sample] = []
        for wave in waves:
            samples += await asyncio.gather(*(send() for send in wave))
        spent = [cpu_of(pid) - start for pid, start in zip(pids, before, strict=True)]
        return Side(tuple(samples), *spent)

    async def _direct(self) -> Sample:
        begun = time.perf_counter()
        first, tokens = 0.0, 0
        stream = await self._sdk.messages.create(**self._body, stream=True)  # type: ignore[call-overload]  # a JSON body
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                first = first or time.perf_counter() - begun
                tokens += 1
        return Sample(first, tokens)

    async def _conversation(self) -> str:
        return str((await self._http.post("/api/v1/conversations", json={})).json()["id"])

    async def _through(self, conversation: str) -> Sample:
        begun = time.perf_counter()
        first, tokens, end = 0.0, 0, b""
        path = f"/api/v1/conversations/{conversation}/turns"
        async with self._http.stream("POST", path, json={"text": QUESTION}) as answer:
            async for data in answer.aiter_raw():
                end = (end + data)[-4096:] if len(data) < 4096 else data
                found = data.count(b'"type":"text.delta"')
                if found and not first:
                    first = time.perf_counter() - begun
                tokens += found
        if b'"status":"finished"' not in end:
            raise RuntimeError(f"a turn did not finish: {end[-400:].decode(errors='replace')}")
        return Sample(first, tokens)


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians of a scenario over its rounds; times in seconds, CPU in seconds per streamed token."""

    streams: int
    ttft_ms: int
    rounds: int
    tokens: int
    first_straight: float
    first_through: float
    added: float
    ratio: float
    cpu_sdk: float
    cpu_server: float
    cpu_ratio: float
    cpu_client: float
    cpu_simulator_straight: float
    cpu_simulator_through: float


def figures(streams: int, ttft_ms: int, rounds: Sequence[tuple[Side, Side]]) -> Figures:
    """Differences and ratios are taken within a round, then their median."""
    return Figures(
        streams=streams,
        ttft_ms=ttft_ms,
        rounds=len(rounds),
        tokens=rounds[0][1].tokens // len(rounds[0][1].samples),
        first_straight=middle([straight.first for straight, _ in rounds]),
        first_through=middle([through.first for _, through in rounds]),
        added=middle([through.first - straight.first for straight, through in rounds]),
        ratio=middle([through.first / straight.first for straight, through in rounds]),
        cpu_sdk=middle([straight.client / straight.tokens for straight, _ in rounds]),
        cpu_server=middle([through.server / through.tokens for _, through in rounds]),
        cpu_ratio=middle([(t.server / t.tokens) / (s.client / s.tokens) for s, t in rounds]),
        cpu_client=middle([through.client / through.tokens for _, through in rounds]),
        cpu_simulator_straight=middle([straight.simulator / straight.tokens for straight, _ in rounds]),
        cpu_simulator_through=middle([through.simulator / through.tokens for _, through in rounds]),
    )


async def measure(sim: Running, lamella: Running, rounds: int, scenarios: Sequence[tuple[int, int]]) -> list[Figures]:
    """Every scenario, after a round of each that is not counted."""
    # The servers let a silent connection go after 5 s: it must not be used again in that very moment.
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200, keepalive_expiry=3)
    client = anthropic.DefaultAsyncHttpxClient(limits=limits)
    sdk = anthropic.AsyncAnthropic(api_key=KEY, base_url=sim.url, max_retries=0, http_client=client)
    async with httpx2.AsyncClient(base_url=lamella.url, timeout=60, limits=limits) as http, sdk:
        bench = Bench(sim, lamella, sdk, http)
        await script(sim.url)
        await bench.prepare()
        found = []
        for streams, ttft_ms in scenarios:
            await settings(sim.url, {"ttft_ms": ttft_ms})
            repeats = 25 if streams == 1 else 1
            await bench.straight(streams, 1)
            await bench.through(streams, 1)
            pairs = [
                (await bench.straight(streams, repeats), await bench.through(streams, repeats)) for _ in range(rounds)
            ]
            found.append(figures(streams, ttft_ms, pairs))
        return found


async def script(url: str) -> None:
    """The one reply of the simulator: so many tokens, each a delta of its own."""
    words = "".join(f"{number:03d} " for number in range(TOKENS))
    async with httpx2.AsyncClient(base_url=url) as client:
        answer = await client.post(
            "/_sim/replies", content=msgspec.json.encode({"long": {"text": words, "chunk": PIECE}})
        )
        answer.raise_for_status()
    await settings(url, {"default_reply": "long", "keep_requests": 10})


async def settings(url: str, changes: dict[str, object]) -> None:
    """Change settings of the simulator."""
    async with httpx2.AsyncClient(base_url=url) as client:
        (await client.post("/_sim/settings", content=msgspec.json.encode(changes))).raise_for_status()


def table(found: Sequence[Figures]) -> list[list[str]]:
    """A line for each scenario."""
    rows = [
        [
            "streams",
            "provider",
            "straight",
            "through",
            "added",
            "ratio",
            "CPU/token: SDK",
            "server",
            "ratio",
            "client",
            "simulator",
        ]
    ]
    for f in found:
        cpus = [f.cpu_sdk, f.cpu_server, f.cpu_client, f.cpu_simulator_through]
        sdk, lamella, client, sim = (f"{cpu * 1e6:.0f} µs" for cpu in cpus)
        times = [milliseconds(t) for t in (f.first_straight, f.first_through, f.added)]
        rows.append(
            [
                str(f.streams),
                f"{f.ttft_ms} ms",
                *times,
                f"{f.ratio:.2f}",
                sdk,
                lamella,
                f"{f.cpu_ratio:.2f}",
                client,
                sim,
            ]
        )
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--streams", type=int, help="only this many streams")
    options = parser.parse_args()
    scenarios = [s for s in SCENARIOS if options.streams in (None, s[0])]
    with simulator() as sim, server({"ANTHROPIC_BASE_URL": sim.url, "ANTHROPIC_API_KEY": KEY}) as lamella:
        found = asyncio.run(measure(sim, lamella, options.rounds, scenarios))
    if options.json:
        emit([asdict(f) for f in found])
    else:
        show(table(found))


if __name__ == "__main__":
    main()
