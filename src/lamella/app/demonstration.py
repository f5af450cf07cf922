"""The offline default: a provider simulator in a process of its own, for use without a key."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

import msgspec

from lamella.core.errors import ConfigurationError

MODEL = "lamella-demo"
NOTICE = (
    "This is a demonstration, not an AI: answers are sentences quoted from your documents. "
    "Set ANTHROPIC_API_KEY or OPENAI_API_KEY (and LAMELLA_MODEL) and start again to talk to a real model."
)
CHARACTERS_PER_SECOND = 1200
START_SECONDS = 30


class _Announcement(msgspec.Struct):
    simulator: str


class Simulator:
    """The simulator's process; it ends with ours, however ours ends, and never before: Ctrl-C does not reach it."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: Process | None = None
        self.url = ""

    async def start(self) -> str:
        """Its address; restarts it if it died. Raises `ConfigurationError` if it does not start."""
        if self._process is not None and self._process.returncode is None:
            return self.url
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lamella_simulator",
            "--exit-with-stdin",
            *self._arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._process.stdout.readline()
            self.url = msgspec.json.decode(line, type=_Announcement).simulator
        except (TimeoutError, msgspec.DecodeError):
            await self.close()
            raise ConfigurationError("The offline simulator did not start.") from None
        return self.url

    async def close(self) -> None:
        """End the process; nothing in it needs saving."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


def demonstration() -> Simulator:
    """The simulator as `serve` starts it: real time, at a speed that people read."""
    return Simulator("--clock", "system", "--rate", str(CHARACTERS_PER_SECOND))
