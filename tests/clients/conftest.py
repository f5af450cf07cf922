"""Real clients, run as people run them, against a server whose upstream is the simulator."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import App
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.provider import Provider, simulated

from .install import is_installed, program

Object = dict[str, Any]
SECONDS = 120
"""A client that has not ended by then hangs."""

PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Door:
    """A server, its upstream, and an empty home in which clients run."""

    app: App
    client: ServerClient
    provider: Provider
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self.client.http.base_url).rstrip("/")

    def write(self, name: str, text: str) -> str:
        """A file in the home. Returns its path."""
        path = self.home / name
        path.write_text(text)
        return str(path)

    def git(self, *arguments: str) -> None:
        """Run git in the home."""
        named = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *named, *arguments], cwd=self.home, check=True, capture_output=True)

    def calls(self, question: str, tool: str, arguments: Object) -> None:
        """A message with these words is answered by a call, and its result by what it says of the lamp."""
        self.provider.script(calls(question, tool, arguments))

    async def run(self, name: str, *arguments: str, typed: str = "") -> str:
        """Run a client in its home. `typed` is its input. Returns what it printed; fails if the client fails."""
        if not is_installed(name):
            pytest.skip("not installed: see tests/clients/install.py")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "any",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "any",
            "DISABLE_AUTOUPDATER": "1",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            **self.environment,
        }
        process = await asyncio.create_subprocess_exec(
            str(program(name)),
            *arguments,
            cwd=self.home,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, said = await asyncio.wait_for(process.communicate(typed.encode()), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, (out + said).decode()[-3000:]
        return out.decode()

    async def lines(self) -> list[Object]:
        """The recorded lines, the newest first."""
        await self.app.gateway.recorder.drain()
        found: list[Object] = (await self.client.get("/lines"))["data"]
        return found

    async def conversation(self) -> Object:
        """The one line that is a conversation."""
        [line] = [one for one in await self.lines() if one["label"] == "conversation"]
        return line

    async def requests(self, line: Object) -> list[Object]:
        """The requests of a line, oldest first, also those that were asked again."""
        found: list[Object] = []
        for turn in (await self.client.get(f"/conversations/{line['id']}/tree?limit=100"))["data"]:
            found += (await self.client.get(f"/turns/{turn['id']}/requests"))["data"]
        return sorted(found, key=lambda request: request["id"])

    async def why(self, line: Object) -> list[Object]:
        """Why each request of a line read what it read."""
        return [await self.client.get(f"/requests/{one['id']}/why") for one in await self.requests(line)]


def calls(question: str, tool: str, arguments: Object, **said: str) -> dict[str, Object]:
    """The script of `Door.calls`. `said` are more fields of the last answer."""
    called = {"match": question, "tool_calls": [{"name": tool, "arguments": arguments}]}
    return {"said": {"match": "lamp is green", "text": "The lamp is green.", **said}, "called": called}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with simulated() as found:
        yield found


@pytest.fixture
async def door(provider: Provider, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Door]:
    settings = read_settings(
        data=tmp_path / "data",
        anthropic_api_key="sk-upstream",
        anthropic_base_url=provider.url,
        openai_api_key="sk-upstream",
        openai_base_url=provider.openai_url,
    )
    home = tmp_path / "home"
    home.mkdir()
    async with served(settings) as (app, client):
        yield Door(app, client, provider, home)
