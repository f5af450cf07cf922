"""Real clients, run as people run them, against a server whose upstream is the simulator."""

from __future__ import annotations

import asyncio
import os
import re
import signal
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
HOW_TO = Path(__file__).parents[2] / "docs/how-to/clients.md"


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

    async def run(self, name: str, *arguments: str, typed: str = "", seconds: int = SECONDS) -> str:
        """Run a client in its home. `typed` is its input. Returns what it printed; fails if the client fails."""
        if not is_installed(name):
            pytest.skip("not installed: see tests/clients/install.py")
        return await self._ran([str(program(name)), *arguments], self._keys(), typed, seconds)

    async def follow(self, name: str, heading: str, *, typed: str = "", only: slice = slice(None)) -> str:
        """Run the commands of the how-to under this heading, as they stand there but for the address; `only` is the
        part of them that is run. What a client is told before its commands, it has to be told there.
        """
        if not is_installed(name):
            pytest.skip("not installed: see tests/clients/install.py")
        exports, told = commands(heading)
        script = "\n".join(["set -e", *exports, *told[only]]).replace(ADDRESS, self.url)
        return await self._ran(["bash", "-c", script], {"PATH": f"{program(name).parent}:{os.environ['PATH']}"}, typed)

    def _keys(self) -> dict[str, str]:
        """What a client is told by its environment."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "any",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "any",
        }

    async def _ran(self, command: list[str], told: dict[str, str], typed: str, seconds: int = SECONDS) -> str:
        quiet = {"DISABLE_AUTOUPDATER": "1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **quiet, **told, **self.environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, said = await asyncio.wait_for(process.communicate(typed.encode()), seconds)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
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


# The how-to


ADDRESS = "http://127.0.0.1:8377"
"""Where the server is in the how-to."""


def section(heading: str) -> str:
    """The text under this heading."""
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##)", HOW_TO.read_text(), re.M | re.S)
    assert found is not None, heading
    return found[1]


def shown(heading: str, language: str = "") -> list[str]:
    """The blocks of code in this language under a heading; commands have none."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section(heading), re.M | re.S)
    return [code for spoken, code in blocks if spoken == language]


def commands(heading: str) -> tuple[list[str], list[str]]:
    """The lines under a heading that set the environment, and its commands."""
    lines = [line for block in shown(heading) for line in block.splitlines()]
    exports = [line for line in lines if line.startswith("export ")]
    return exports, [line for line in lines if line not in exports]


def is_told(heading: str, found: str) -> bool:
    """Whether a sentence that `why` said is quoted under this heading, whatever its figures are."""
    quotes = re.findall(r"(?:^> .*\n)+", section(heading), re.M)
    return any(_figureless(quote) in _figureless(found) for quote in quotes)


def _figureless(text: str) -> str:
    """A text with a sign in the place of each figure, in one line."""
    return re.sub(r"\d[\d.,]*k?", "#", " ".join(text.replace("\n>", " ").lstrip("> ").split())).rstrip(".")


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
