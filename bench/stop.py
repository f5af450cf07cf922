"""How soon a stop is acknowledged, and how soon the provider's stream is closed, while other turns go on.

    python bench/stop.py [--rounds 10] [--json]

Three turns stream at 30 tokens a second each, beside 20 others; then the three are stopped at the same moment. The time
to close is told from the characters that the simulator still sent after the stop, at its pace: one delta is 33 ms.
The first rounds, in which the server still warms up, are not counted. On a machine that has other things to do, start
it with `nice -n -20` and say so.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict, dataclass, replace

import httpx2
import msgspec

from lamella.server.testing import ServerClient
from processes import KEY, server, simulator
from tables import arguments, emit, milliseconds, show

PIECE = 4
RATE = 30 * PIECE
STOPPED, OTHERS = 3, 20
WARMING = 3
"""Rounds that are not counted."""
SEEN = 12
"""Deltas that a turn has shown when it is stopped."""
STORY = "All work and no play makes a long answer. " * 1_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds."""

    acknowledged: list[float]
    closed: list[float]
    load: float = 0.0
    """Processes that wanted to run, on average over the last minute."""


async def one(client: ServerClient, simulated: httpx2.AsyncClient, found: Figures) -> None:
    """A turn that is stopped."""
    conversation = await client.conversation()
    async with client.sending(conversation, f"Write! {conversation}") as events:
        deltas, turn_id, seen = 0, "", 0
        async for event in events:
            turn_id = str(event.packet.get("turn_id") or turn_id)
            if event.type == "text.delta":
                deltas, seen = deltas + 1, seen + len(event.packet["text"])
            if deltas == SEEN:
                break
        begun = time.perf_counter()
        (await client.call("POST", f"/turns/{turn_id}/stop")).raise_for_status()
        found.acknowledged.append(time.perf_counter() - begun)
    await asyncio.sleep(1.0)
    records = (await simulated.get("/_sim/requests")).json()["requests"]
    mine = [record for record in records if conversation in msgspec.json.encode(record["body"]).decode()]
    found.closed.append(max(0, mine[-1]["streamed"] - seen) / RATE)


async def other(client: ServerClient, streaming: asyncio.Semaphore) -> None:
    """A turn beside them, which nobody stops; `streaming` is released with its first words."""
    seen = False
    async with client.sending(await client.conversation(), "Write on!") as events:
        async for event in events:
            if event.type == "text.delta" and not seen:
                seen = True
                streaming.release()


async def measure(url: str, provider: str, rounds: int) -> Figures:
    found = Figures([], [])
    async with (
        httpx2.AsyncClient(base_url=url, timeout=120, trust_env=False) as http,
        httpx2.AsyncClient(base_url=provider, timeout=30, trust_env=False) as simulated,
    ):
        client = ServerClient(http)
        streaming = asyncio.Semaphore(0)
        beside = [asyncio.create_task(other(client, streaming)) for _ in range(OTHERS)]
        for _ in beside:
            await streaming.acquire()
        for number in range(WARMING + rounds):
            told = found if number >= WARMING else Figures([], [])
            await asyncio.gather(*(one(client, simulated, told) for _ in range(STOPPED)))
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    return replace(found, load=os.getloadavg()[0])


def share(values: list[float], percent: int) -> float:
    """The value that so many per cent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often three turns are stopped")
    given = parser.parse_args()
    options = ("--rate", str(RATE), "--option", "default_reply=story", "--option", f"chunk={PIECE}")
    with simulator(*options) as sim:
        httpx2.post(f"{sim.url}/_sim/replies", json={"story": {"text": STORY}}, trust_env=False).raise_for_status()
        environment = {"ANTHROPIC_BASE_URL": sim.url, "ANTHROPIC_API_KEY": KEY, "LAMELLA_DEBOUNCE_MS": "0"}
        with server(environment) as lamella:
            found = asyncio.run(measure(lamella.url, sim.url, given.rounds))
    if given.json:
        emit(asdict(found))
        return
    rows: list[tuple[str, ...]] = [("", "median", "p99", "most")]
    for name, values in (("acknowledged", found.acknowledged), ("closed upstream", found.closed)):
        rows.append((name, *(milliseconds(share(values, percent)) for percent in (50, 99, 100))))
    show(rows)
    print(f"\n{len(found.acknowledged)} stops, load average {found.load:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
