"""Breaks planted into whole conversations, with a server, a provider and their clock: each is named for what it was,
with the block and the byte that the bodies as sent show, and nothing is named where nothing broke.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from pydantic import SecretStr

from lamella.core.clock import VirtualClock
from lamella.core.prompt import ToolSpec
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from lamella_simulator.testing import running

pytestmark = [pytest.mark.anyio, pytest.mark.long]

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LONG = "The tide turns twice a day, and the harbour with it. " * 60
HIGH = "Says when the tide is high."


@pytest.fixture(scope="module")
def bench() -> Iterator[str]:
    """The address of a simulated provider on virtual time."""
    with running() as url:
        yield url


class Tide:
    """A tool whose description can be changed, as a tool server changes its own."""

    kind = ToolKind.OTHER
    timeout = 1.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.describe(HIGH)

    def describe(self, text: str) -> None:
        self.spec = ToolSpec(self.name, text, '{"type": "object", "properties": {}}')

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "At noon."


@dataclass
class Talk:
    """A conversation at a server and a provider, whose clocks go on together."""

    client: ServerClient
    simulator: httpx2.AsyncClient
    clock: VirtualClock
    tools: list[Tide]
    agent: str
    id: str
    draw: random.Random
    runs: list[str] = field(default_factory=list)
    """The answers of its path, in its session."""
    requests: list[str] = field(default_factory=list)
    pinned: dict[str, str] = field(default_factory=dict)

    def offer_again(self) -> None:
        """The tools as the conversation has them."""
        for tool in self.tools:
            tool.describe(self.pinned.get(tool.name, HIGH))

    async def wait(self, minutes: float) -> None:
        self.clock.set(self.clock.now() + timedelta(minutes=minutes))
        await self.told("clock", {"advance_seconds": minutes * 60})

    async def told(self, call: str, body: object) -> None:
        (await self.simulator.post(f"/_sim/{call}", json=body)).raise_for_status()

    async def say(self, **fields: Any) -> Object:
        """One turn; why its first request read what it read."""
        await self.wait(1)
        packets = await self.client.send(self.id, f"And then, number {len(self.requests)}?", **fields)
        assert packets[-1]["status"] == "finished", packets[-1]
        first = next(packet["request_id"] for packet in packets if packet["type"] == "request.started")
        self.requests.append(first)
        turn = await self.client.get(f"/turns/{packets[0]['turn_id']}")
        self.runs.append(turn["runs"][0]["id"])
        return await self.client.get(f"/requests/{first}/why")

    async def blocks(self, request: str) -> list[bytes]:
        """What was sent, block by block, without markers."""
        body = await self.client.get(f"/requests/{request}/raw")
        parts = [*body["tools"], *body["system"], *(part for one in body["messages"] for part in one["content"])]
        bare = [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]
        return [json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode() for part in bare]


@dataclass(frozen=True)
class Planted:
    """What has to be said; `at` is where in the window: the tools, the agent, a message, or nowhere."""

    cause: str
    by: str | None
    fields: dict[str, Any] = field(default_factory=dict)
    is_somewhere: bool = False


async def agent_edited(talk: Talk) -> Planted:
    name = f"Captain {talk.draw.randrange(1_000_000)}"
    changed = {"prompt": f"You are {name}. {LONG}"}
    (await talk.client.call("PATCH", f"/agents/{talk.agent}", json=changed)).raise_for_status()
    return Planted("decided", "agent", is_somewhere=True)


async def message_edited(talk: Talk) -> Planted:
    """An early message is sent in another form: behind an earlier answer, or at the beginning."""
    place = talk.draw.randrange(max(1, len(talk.runs) - 1))
    behind = talk.runs[place - 1] if place else None
    del talk.runs[place:]
    return Planted("edited", "user", {"parent_message_id": behind}, is_somewhere=True)


async def expired(talk: Talk) -> Planted:
    await talk.wait(talk.draw.uniform(61, 300))
    return Planted("expired", None)


async def missed(talk: Talk) -> Planted:
    await talk.told("faults", [{"kind": "cold_cache"}])
    return Planted("missed", None)


async def clock_set_back(talk: Talk) -> Planted:
    """The provider's own time goes on, and it loses what it had."""
    talk.clock.put_back(talk.draw.uniform(600, 100_000))
    await talk.told("faults", [{"kind": "cold_cache"}])
    return Planted("clock", "clock")


async def tools_changed(talk: Talk) -> Planted:
    """A tool server describes a tool in another way, and the conversation takes what there is now."""
    talk.offer_again()
    tool = talk.draw.choice(talk.tools)
    tool.describe(f"Says when the tide is high, in way {talk.draw.randrange(1_000_000)}.")
    talk.pinned[tool.name] = tool.spec.description
    await talk.client.post(f"/conversations/{talk.id}/tools/refresh")
    return Planted("decided", "tools", is_somewhere=True)


async def begun_anew(talk: Talk) -> Planted:
    talk.offer_again()
    talk.runs.clear()
    await talk.client.post(f"/conversations/{talk.id}/new")
    return Planted("shorter", "engine", is_somewhere=True)


async def tools_offered(talk: Talk) -> Planted:
    """A server's list is another, also in its order: the conversation keeps its own."""
    tool = talk.tools[0]
    tool.describe(f"{tool.spec.description} ")
    talk.tools.reverse()
    return Planted("read", None)


async def nothing(talk: Talk) -> Planted:
    return Planted("read", None)


Break = Callable[[Talk], Awaitable[Planted]]
BREAKS: tuple[Break, ...] = (
    *(agent_edited, message_edited, expired, missed, clock_set_back, tools_changed, begun_anew),
    *(tools_offered, nothing),
)


@asynccontextmanager
async def talking(bench: str, folder: Path, seed: int) -> AsyncIterator[Talk]:
    """A conversation of three turns with an agent and two tools."""
    draw, clock = random.Random(seed), VirtualClock(START)
    tools = [Tide("high"), Tide("low")]
    settings = read_settings(
        data=folder, model="claude-opus-4-8", anthropic_base_url=bench, anthropic_api_key=SecretStr(uuid4().hex)
    )
    async with (
        served(settings, clock=clock, tools=tools) as (_, client),
        httpx2.AsyncClient(base_url=bench, trust_env=False) as simulator,
    ):
        agent = (await client.post("/agents", {"name": "Captain", "prompt": f"You are Ann. {LONG}"}))["id"]
        id = await client.conversation(agent_id=agent)
        talk = Talk(client, simulator, clock, tools, agent, id, draw)
        for _ in range(3):
            await talk.say()
        yield talk


@pytest.mark.parametrize("seed", range(3))
async def test_planted_breaks_are_named(bench: str, tmp_path: Path, seed: int) -> None:
    async with talking(bench, tmp_path, seed) as talk:
        for plant in talk.draw.sample(BREAKS, len(BREAKS)):
            before = talk.requests[-1]
            await talk.wait(0.1)
            planted = await plant(talk)
            why = await talk.say(**planted.fields)
            assert (why["cause"], why["by"]) == (planted.cause, planted.by), (plant, planted, why["text"])
            assert (why["lost"] > 0) == (planted.cause != "read")
            # The vendor compares what it was sent by rules of its own: it denies none of this.
            assert why["provider"] is None or why["provider"]["agrees"] is not False, why["text"]
            if plant is tools_changed:
                assert ": the tools changed (" in why["text"]
            if planted.is_somewhere:
                old, new = [await talk.blocks(request) for request in (before, talk.requests[-1])]
                block = next(i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
                pairs = enumerate(zip(old[block], new[block], strict=False))
                byte = next(i for i, (one, other) in pairs if one != other)
                assert (why["block"], why["byte"]) == (block, byte), (plant, planted, why["text"])
                assert f"block {block}, byte {byte})" in why["text"]
            else:
                assert why["block"] is None
