"""A real server on a real store, with the provider's simulator as its model: what it says, how fast, what it saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
from pydantic import SecretStr

from databases import rows
from lamella.app.app import SHIPPED_TOOLS, App
from lamella.core.json import Json
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

MODEL = "claude-opus-4-8"


@dataclass
class Steering:
    """The headers by which the simulator learns what to say to the requests of the next turn, and how fast."""

    name: str = field(default_factory=lambda: f"reply-{uuid4().hex}")
    rate: float | None = None
    replies: int = 0
    first: int = 0

    def __call__(self, turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
        rate = {} if self.rate is None else {"x-sim-rate": str(self.rate)}
        return {"x-sim-reply": f"{self.name}-{self.first + number}", **rate}


@dataclass(frozen=True)
class Playback:
    """Everything that a test of whole turns needs."""

    app: App
    client: ServerClient
    simulator: httpx2.AsyncClient
    steering: Steering
    data: Path

    async def script(self, *replies: Json, rate: float | None = None) -> None:
        """What the model says to the next turn's requests."""
        steering = self.steering
        steering.first, steering.rate = steering.replies, rate
        steering.replies += len(replies)
        named = {f"{steering.name}-{steering.first + number}": reply for number, reply in enumerate(replies)}
        (await self.simulator.post("/_sim/replies", json=named)).raise_for_status()

    async def seen(self) -> list[Object]:
        """The requests of this stage that reached the simulator, oldest first."""
        records = (await self.simulator.get("/_sim/requests")).json()["requests"]
        return [record for record in records if str(record["reply"]).startswith(self.steering.name)]

    async def turn(self, conversation_id: str, text: str, *replies: Json, **fields: Json) -> list[Object]:
        """A whole turn with these replies."""
        await self.script(*replies)
        return await self.client.send(conversation_id, text, **fields)

    async def rest(self) -> Object:
        """The last request as the simulator knows it once it streams no more."""
        before: Object = {}
        while True:
            now = (await self.seen())[-1]
            if before and before["streamed"] == now["streamed"]:
                return now
            before = now
            await asyncio.sleep(0.15)

    def rows(self, query: str, **values: str) -> list[dict[str, Any]]:
        """What another program reads from the database."""
        return rows(self.data, query, **values)


@asynccontextmanager
async def staged(provider: str, data: Path, **changes: Any) -> AsyncIterator[Playback]:
    """A stage over a data folder; the account at the provider is its own, so no cache is shared with other tests."""
    steering, tools = Steering(), changes.pop("tools", SHIPPED_TOOLS)
    key = SecretStr(uuid4().hex)
    given = {"anthropic_base_url": provider, "anthropic_api_key": key, "model": MODEL, "provider_retries": 0}
    settings = read_settings(data=data, **{**given, **changes})
    async with (
        served(settings, headers=steering, tools=tools) as (app, client),
        httpx2.AsyncClient(base_url=provider, trust_env=False) as simulator,
    ):
        yield Playback(app, client, simulator, steering, data)


def types(packets: list[Object]) -> list[str]:
    """The packets' types, equal neighbours once."""
    found = [str(packet["type"]) for packet in packets]
    return [kind for index, kind in enumerate(found) if index == 0 or found[index - 1] != kind]


def text_of(packets: list[Object]) -> str:
    """The answer that the packets tell."""
    return "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")


def only(packets: list[Object], kind: str) -> Object:
    """The one packet of this type."""
    [found] = [packet for packet in packets if packet["type"] == kind]
    return found
