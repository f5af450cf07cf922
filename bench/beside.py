"""Whether a turn waits for the compaction beside it: turns beside a compaction against turns without, in pairs.

    python bench/beside.py [--pairs 200] [--turns 40] [--json]

The app runs in this process over a file, the simulator in another. Two conversations of the same length take turns: in
each pair one answers a message while its own compaction runs (the summary streams for a second), the other answers
the same message while nothing runs; which comes first alternates. The compaction is taken back after each pair, so that
the next one has the whole conversation to summarise. A block is CPU time that the event loop's thread spends without
giving another task a chance: counted over 10 ms, beside compactions and without.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2
import structlog
from pydantic import SecretStr

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.app.conversations import NewConversation
from lamella.app.garbage import keep_loaded
from lamella.chat import Message
from lamella.commands.parse import TypedCommand
from lamella.settings import read_settings
from processes import KEY, simulator
from tables import arguments, emit, middle, milliseconds, show

ANSWER = "The keeper wrote that the lamp was lit at dusk and that the wind had turned. "
SUMMARY = "The keeper's diary: lamp lit at dusk, wind turned, oil low. " * 20
RATE = 400.0
"""Characters a second of an answer: about 100 tokens, a fast model."""
SECONDS_OF_SUMMARY = 1.0
QUESTION = "What did the keeper write on the next day, and what did he leave out? " * 12
BLOCK = 0.010


def paced(turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
    """Answers and summaries take their time."""
    if purpose == "chat":
        return {"x-sim-reply": "answer", "x-sim-rate": str(RATE)}
    return {"x-sim-reply": "summary", "x-sim-rate": str(len(SUMMARY) / SECONDS_OF_SUMMARY)}


@dataclass(slots=True)
class Blocks:
    """Blocks of the event loop: seconds of CPU of each chance that another task had to wait for, by what ran."""

    pauses: dict[str, list[float]] = field(default_factory=lambda: {"beside": [], "without": []})
    running: str | None = None

    async def listen(self) -> None:
        while True:
            before, running = time.thread_time(), self.running
            await asyncio.sleep(0.001)
            if running is not None:
                self.pauses[running].append(time.thread_time() - before)

    def over(self, kind: str) -> int:
        return sum(pause > BLOCK for pause in self.pauses[kind])


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of the turns, pair by pair, and of the longest block; how many blocks were over 10 ms."""

    beside: list[float]
    without: list[float]
    overlapped: int
    ratio: float
    blocks_beside: int
    blocks_without: int
    longest_beside: float
    longest_without: float


async def turn(app: App, conversation_id: str) -> float:
    """Seconds until the whole answer has come."""
    begun = time.perf_counter()
    turn_id = await app.chat.sender.begin(LOCAL_OWNER, conversation_id, Message(QUESTION))
    async for _ in app.chat.stream(LOCAL_OWNER, turn_id):
        pass
    return time.perf_counter() - begun


async def beside(app: App, conversation_id: str) -> tuple[float, bool]:
    """Seconds of a turn beside a compaction, and whether the compaction was still running at its end."""
    await app.chat.orders.submit(LOCAL_OWNER, conversation_id, TypedCommand("compact"))
    await asyncio.sleep(SECONDS_OF_SUMMARY / 10)
    seconds = await turn(app, conversation_id)
    running = app.sessions.is_compacting(conversation_id)
    await app.sessions.wait_until_idle(conversation_id)
    return seconds, running


async def measure(app: App, pairs: int, turns: int) -> Figures:
    conversations = [(await app.conversations.create(LOCAL_OWNER, NewConversation())).id for _ in range(2)]
    for _ in range(turns):
        for conversation_id in conversations:
            await turn(app, conversation_id)
    blocks, times_beside, times_without, overlapped = Blocks(), [], [], 0
    listening = asyncio.create_task(blocks.listen())
    keep_loaded()  # as a server does when it is up
    for pair in range(pairs):
        compacted, plain = conversations if pair % 4 < 2 else reversed(conversations)
        for kind in ("beside", "without") if pair % 2 else ("without", "beside"):
            blocks.running = kind
            if kind == "without":
                times_without.append(await turn(app, plain))
            else:
                seconds, running = await beside(app, compacted)
                times_beside.append(seconds)
                overlapped += running
            blocks.running = None
        current = (await app.store.conversations.conversation(LOCAL_OWNER, compacted)).session_id
        await app.chat.orders.submit(LOCAL_OWNER, compacted, TypedCommand("undo", current))
    listening.cancel()
    return Figures(
        beside=times_beside,
        without=times_without,
        overlapped=overlapped,
        ratio=middle([one / other for one, other in zip(times_beside, times_without, strict=True)]),
        blocks_beside=blocks.over("beside"),
        blocks_without=blocks.over("without"),
        longest_beside=max(blocks.pauses["beside"]),
        longest_without=max(blocks.pauses["without"]),
    )


@asynccontextmanager
async def opened(provider: str, data: Path) -> AsyncIterator[App]:
    """The app with the simulator as its provider."""
    replies = {"answer": {"text": ANSWER}, "summary": {"text": SUMMARY}}
    async with httpx2.AsyncClient(base_url=provider, trust_env=False) as simulated:
        (await simulated.post("/_sim/replies", json=replies)).raise_for_status()
    settings = read_settings(
        data=data,
        anthropic_base_url=provider,
        anthropic_api_key=SecretStr(KEY),
        keep_recent_tokens=500,
        debounce_ms=0,
        titles=False,
    )
    async with open_app(settings, headers=paced) as app:
        yield app


async def run(provider: str, pairs: int, turns: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="lamella-bench-") as data:
        async with opened(provider, Path(data)) as app:
            return await measure(app, pairs, turns)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of turns (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=40, help="turns before the first pair (default: %(default)s)")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with simulator() as sim:
        found = asyncio.run(run(sim.url, given.pairs, given.turns))
    if given.json:
        emit(asdict(found))
        return
    rows = [("", "median turn", "longest turn", "blocks over 10 ms", "longest block")]
    for name, times, blocks, longest in (
        ("beside a compaction", found.beside, found.blocks_beside, found.longest_beside),
        ("without", found.without, found.blocks_without, found.longest_without),
    ):
        rows.append((name, milliseconds(middle(times)), milliseconds(max(times)), str(blocks), milliseconds(longest)))
    show(rows)
    print(
        f"median of the ratios {found.ratio:.3f}; {found.overlapped} of {given.pairs} turns ended before the compaction"
    )


if __name__ == "__main__":
    main()
