"""Servers as processes of their own, so that they can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from lamella.server.testing import ServerClient, client

LAMELLA = str(Path(sys.executable).with_name("lamella"))
STUCK_SERVER = str(Path(__file__).with_name("stuck_server.py"))

START = 90.0
"""The most seconds that a server takes to start: two, and many more on a machine that has a lot to do."""


@dataclass(frozen=True)
class Server:
    """A running server and a client of it."""

    process: Process
    client: ServerClient

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()

    async def terminate(self) -> int:
        """End it as an operating system asks a service to; gives the exit code. It takes a second, more when busy."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(6):
            return await self.process.wait()


@asynccontextmanager
async def started(*command: str, **environment: str) -> AsyncIterator[Server]:
    """Run a server that answers a message at once, and wait for its address on the first line of its output."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LAMELLA", "ANTHROPIC", "OPENAI"))
    }
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, env={**kept, "LAMELLA_DEBOUNCE_MS": "0", **environment}
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START):
            line = (await process.stdout.readline()).decode()
        async with client(line.split()[-1]) as speaking:
            yield Server(process, speaking)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def lamella(data: Path, provider: str | None = None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Command and environment of `lamella serve` on a data folder, with a provider's address or offline."""
    environment = {"LAMELLA_TITLES": "false", "LAMELLA_KNOWLEDGE_SUMMARIES": "false"}
    if provider is not None:
        environment |= {"ANTHROPIC_BASE_URL": provider, "ANTHROPIC_API_KEY": "key"}
    return (LAMELLA, "serve", "--port", "0", "--data", str(data)), environment


def stuck(data: Path, *words: str) -> tuple[str, ...]:
    """Command of a server whose tool never comes back, or whose model says these words."""
    return sys.executable, STUCK_SERVER, str(data), *words
