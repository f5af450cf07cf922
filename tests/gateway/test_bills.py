"""Many clients at once, with errors and callers that leave: every bill of the provider is on a line, once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from random import Random
from typing import Any

import httpx2
import pytest

from lamella.app.app import App, database_path
from lamella.server.testing import ServerClient
from lamella_simulator.provider import Provider, simulated

from .clients import PATHS, Client
from .test_cache_keys import users

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = ("messages", "chat", "responses")
REQUESTS = 500
FAULTS: tuple[Object, ...] = (
    {"kind": 429, "retry_after": 0},
    {"kind": 529},
    {"kind": 500},
    {"kind": "drop_before"},
    {"kind": "drop_after", "when": 40},
    {"kind": "stream_error", "when": 40},
    {"kind": "max_tokens"},
)


async def all_lines(app: App, client: ServerClient) -> list[Object]:
    await app.gateway.recorder.drain()
    found: list[Object] = []
    page = await client.get("/lines?limit=100")
    found += page["data"]
    while page["has_more"]:
        page = await client.get(f"/lines?limit=100&after={found[-1]['id']}")
        found += page["data"]
    return found


def recorded(app: App) -> dict[str, tuple[float, bool]]:
    """The cost of each request by the id that the provider gave it, and whether its answer came whole."""
    with closing(sqlite3.connect(database_path(app.settings.data))) as database:
        rows = database.execute("SELECT provider_request_id, cost, error FROM requests").fetchall()
    return {str(name): (float(cost or 0.0), error is None) for name, cost, error in rows if name}


def inputs_of(app: App) -> dict[str, int]:
    """The input of each request that the provider gave an id, as it is stored."""
    with closing(sqlite3.connect(database_path(app.settings.data))) as database:
        rows = database.execute("SELECT provider_request_id, input_tokens FROM requests").fetchall()
    return {str(name): int(tokens or 0) for name, tokens in rows if name}


def _input(usage: Object) -> int:
    """The whole input of a provider's bill."""
    cached = usage.get("cache_creation_input_tokens", 0) + usage.get("cache_read_input_tokens", 0)
    return int(usage.get("prompt_tokens") or usage.get("input_tokens", 0) + cached)


async def talk(http: httpx2.AsyncClient, provider: Provider, random: Random, session: str, turns: int) -> None:
    """A conversation, some of whose requests fail, and some of whose answers nobody waits for."""
    wire = random.choice(WIRES)
    named = {"x-session-id": session} if random.random() < 0.6 else {}
    talking = Client(wire, f"client-{session}/1.0", named, marks=wire == "messages" and random.random() < 0.5)
    talking.system = f"{session}. {talking.system}"
    for turn in range(turns):
        if random.random() < 0.2:
            provider.fail(random.choice(FAULTS))
        talking.history.append({"role": "user", "content": f"Question {turn} of {session}"})
        try:
            if random.random() < 0.1:
                async with http.stream("POST", PATHS[wire], json=talking.body(), headers=named) as answer:
                    await anext(answer.aiter_raw())
                talking.history.pop()
            else:
                await talking.send(http)
        except (
            AssertionError,
            KeyError,
            httpx2.HTTPError,
            httpx2.StreamError,
            StopAsyncIteration,
        ):  # it failed, as asked
            if talking.history[-1]["role"] == "user":
                talking.history.pop()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with simulated(keep_requests=2_000) as found:
        yield found


async def test_the_lines_cost_what_the_provider_billed(app: App, client: ServerClient, provider: Provider) -> None:
    """To the micro-dollar, for 500 requests of four users, who name their sessions alike."""
    async with AsyncExitStack() as stack:
        people = await users(stack, client, "Bob", "Eve", "Kim")
        for number in range(REQUESTS // 50):
            async with asyncio.TaskGroup() as group:
                for place in range(10):
                    http = people[place % len(people)].http
                    group.create_task(talk(http, provider, Random(f"{number} {place}"), f"s{number}-{place % 5}", 5))
        lines = [await all_lines(app, one) for one in people]
    billed = {record.request_id: record.cost for record in provider.requests if record.cost}
    stored = dict.fromkeys(billed, (0.0, False)) | recorded(app)  # one that drops before the first byte has no name
    assert len(provider.requests) == REQUESTS == sum(line["requests"] for of_one in lines for line in of_one)
    whole = {name: cost for name, cost in billed.items() if stored[name][1]}
    assert len(whole) > 0.7 * REQUESTS
    assert {name: stored[name][0] for name in whole} == pytest.approx(whole, abs=1e-9)
    # A stream that was cut told no bill, or the input alone: the rest is estimated, the output as far as it came.
    inputs, told = inputs_of(app), {record.request_id: _input(record.usage) for record in provider.requests}
    estimated = (billed.keys() - whole) & inputs.keys()
    assert len(estimated) > 10
    assert {name: inputs[name] for name in estimated} == pytest.approx(
        {name: told[name] for name in estimated}, rel=0.1
    )
    for name in estimated:
        assert 0 < stored[name][0] <= 1.1 * billed[name]
    costs = sum(line["cost"] for of_one in lines for line in of_one)
    cut = sum(stored[name][0] for name in billed.keys() - whole)
    assert costs == pytest.approx(sum(whole.values()) + cut, abs=1e-6)
    owners = [{line["id"] for line in of_one} for of_one in lines]
    assert sum(map(len, owners)) == len(set().union(*owners)), "no line is of two users"
