"""Kills the server with SIGKILL at random moments under running turns, and looks at what the next one makes of it.

    python bench/kills.py [--kills 100] [--seed N] [--json]

Twenty conversations speak at once, some to several models, some with a second message that waits; a twentieth of the
kills hit a server that is still starting. After each the laws of `killing/laws.py` are checked: no message lost that
was acknowledged, none twice, no turn stuck, nothing changed that a client saw. A seed says after how many
packets a server dies, not at which instruction.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random, SystemRandom

import httpx2

from killing import laws, people
from lamella.server.testing import ServerClient, client
from processes import KEY, clean_environment, simulator
from tables import arguments, emit, show

TURNS = 20
MOST = 500
"""Packets that clients have heard when a server is killed, at most: a busy machine is only slower by that."""
EARLY = 0.05
"""How often a server is killed while it starts."""
START = 90.0
STORY = "It was a dark and stormy night, and the rain fell in torrents."
OPTIONS = ("--rate", "250", "--option", "default_reply=story", "--option", "chunk=6", "--option", "keep_requests=50")


@dataclass(slots=True)
class Figures:
    """What happened in all."""

    seed: int
    kills: int = 0
    early: int = 0
    messages: int = 0
    acknowledged: int = 0
    cut_off: int = 0
    unknown: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)


class Nursery:
    """Where servers over one data folder come from."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def begin(self) -> int:
        """Start one; gives its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        return int((await self._line("pid ")).split()[1])

    async def up(self) -> str:
        """The address of the server that starts, once it listens."""
        return (await self._line("Lamella ")).split()[1]

    async def _line(self, first: str) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(START):
            while line := (await self._process.stdout.readline()).decode():
                if line.startswith(first):
                    return line
        raise RuntimeError("the server did not start")


@asynccontextmanager
async def nursery(data: Path, provider: str) -> AsyncIterator[Nursery]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parent / "killing" / "nursery.py"),
        str(data),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=clean_environment()
        | {"ANTHROPIC_BASE_URL": provider, "ANTHROPIC_API_KEY": KEY}
        | {"LAMELLA_DEBOUNCE_MS": "0", "LAMELLA_TITLES": "false"},
    )
    try:
        yield Nursery(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.kill()
        await process.wait()


async def life(born: Nursery, random: Random, found: Figures, name: str, before: list[list[people.Sent]]) -> None:
    """One server: the laws of what the last one left in `before`, new turns, and its end; leaves its own there."""
    pid = await born.begin()
    if random.random() < EARLY:
        await asyncio.sleep(random.uniform(0.0, 0.6))
        os.kill(pid, signal.SIGKILL)
        found.early += 1
        found.kills += 1
        return
    async with client(await born.up(), False) as speaking:
        found.broken += await laws.after(speaking, before)
        before[:] = await load(speaking, random, name)
        hearing = people.Hearing(random.randrange(MOST))
        speech = asyncio.create_task(people.speak(speaking, before, hearing))
        await hearing.enough.wait()
        await asyncio.sleep(random.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        await speech
    found.kills += 1
    told = [sent for conversation in before for sent in conversation]
    found.messages += len(told)
    found.acknowledged += sum(sent.known for sent in told)
    found.unknown += sum(not sent.known for sent in told)
    found.cut_off += sum(bool(sent.turn_id) and not sent.ended for sent in told)


async def load(speaking: ServerClient, random: Random, name: str) -> list[list[people.Sent]]:
    """Conversations and what is said in them."""
    ids = [await speaking.conversation() for _ in range(TURNS)]
    return [people.messages(random, f"{name}-{number}", id) for number, id in enumerate(ids)]


async def kill_often(provider: str, kills: int, seed: int) -> Figures:
    """So many kills, and one last server under which everything comes to its end."""
    random, found, before = Random(seed), Figures(seed), list[list[people.Sent]]()
    httpx2.post(f"{provider}/_sim/replies", json={"story": {"reasoning": "Hm. " * 5, "text": STORY}}, trust_env=False)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lamella-kills-") as folder:
        async with nursery(Path(folder), provider) as born:
            while found.kills < kills:
                await life(born, random, found, f"{seed}-{found.kills}", before)
            pid = await born.begin()
            async with client(await born.up(), False) as speaking:
                found.broken += await laws.after(speaking, before)
            os.kill(pid, signal.SIGKILL)
        found.broken += laws.of_rows(Path(folder))
    found.seconds = time.monotonic() - begun
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    with simulator(*OPTIONS) as provider:
        found = asyncio.run(kill_often(provider.url, given.kills, given.seed))
    if given.json:
        emit(asdict(found))
    else:
        rows = [("seed", str(found.seed)), ("kills", f"{found.kills}, of which {found.early} of a server that started")]
        rows += [(name, str(getattr(found, name))) for name in ("messages", "acknowledged", "unknown", "cut_off")]
        show([*rows, ("laws broken", str(len(found.broken))), ("seconds", f"{found.seconds:.0f}")])
        for law in found.broken[:20]:
            print(law)
    sys.exit(1 if found.broken else 0)


if __name__ == "__main__":
    main()
