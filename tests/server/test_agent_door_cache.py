"""What an agent's client sends again is read from the provider's cache, request for request."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER
from lamella.core.prompt import Kind
from lamella.core.records import PageQuery
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella_simulator.provider import simulated

from .agent_clients import PATHS, AgentClient

pytestmark = pytest.mark.anyio

PROMPT = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. " * 90
TURNS = 60


@pytest.mark.parametrize("api", [*PATHS, "all"])
async def test_the_prefix_of_sixty_turns_is_read_from_the_cache(tmp_path: Path, api: str) -> None:
    """`all`: the client changes to another API with each turn."""
    with simulated() as provider:
        keys = {"anthropic_api_key": "k", "anthropic_base_url": provider.url, "model": "claude-opus-5"}
        async with served(read_settings(data=tmp_path, **keys), checked=False) as (app, client):
            await client.post("/agents", {"name": "Pilot", "prompt": PROMPT})
            talk = AgentClient(client.http, "chat", system="Answer in one sentence. " * 20)
            for number in range(TURNS):
                talk.api = list(PATHS)[number % 3] if api == "all" else api
                talk.streams = number % 2 == 0
                await talk.ask(f"What about night number {number}?")
            [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
            path = await app.store.turns.path(LOCAL_OWNER, line.id)
            found = [request for turn in path for request in await app.store.requests.requests(LOCAL_OWNER, turn.id)]
            found = [request for request in found if request.purpose == "chat"]
            sent = [await app.store.requests.blocks(LOCAL_OWNER, request.id) for request in found]
    assert all(request.segments[-1].kind == Kind.REMINDER for request in found), "it stays in no later request"
    assert (line.turns, len(path)) == (TURNS, TURNS)
    for before, after in pairwise(sent):
        stays = [block.digest for block in before[:-1]]
        assert [block.digest for block in after][: len(stays)] == stays
    usages = [request.usage for request in found if request.usage is not None]
    assert len(usages) == len(found)
    for before_usage, usage in pairwise(usages):
        assert usage.cache_read >= before_usage.cache_read + before_usage.cache_write > 0
    assert all(usage.cache_read == request.predicted_read for usage, request in zip(usages, found, strict=True))
