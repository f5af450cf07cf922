"""Real servers as processes of their own, the model behind them, and what a page says and asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from playwright.sync_api import ConsoleMessage, Request

START = "from lamella.cli import main; main()"


@dataclass
class Server:
    """`lamella serve` on a free port over one data folder; it can be killed and started again."""

    data: Path
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LAMELLA_", "ANTHROPIC_"))}
        own.pop("OPENAI_API_KEY", None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "serve", "--port", str(self.port), "--data", str(self.data)],
            env=own
            | {"LAMELLA_DEBOUNCE_MS": "0", "LAMELLA_TITLES": "false", "LAMELLA_KNOWLEDGE_SUMMARIES": "false"}
            | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Lamella"), line
        self.port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        """As a crash would: no chance to say anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=20)


@dataclass(frozen=True)
class Model:
    """The provider simulator, whose pace a test sets."""

    url: str

    def pace(self, characters_per_second: float) -> None:
        httpx2.post(f"{self.url}/_sim/settings", json={"rate": characters_per_second}).raise_for_status()


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Watched:
    """What a page complained about and whom it asked."""

    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def see(self, request: Request) -> None:
        self.asked.append(request.url)
