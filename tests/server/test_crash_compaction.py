"""A server that is killed while it makes a summary: the next one goes on with it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from lamella_simulator.testing import running

from .processes import lamella, started

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SECONDS = 60.0
"""The most that a compaction stands still after a restart: a moment, and more on a machine that has a lot to do. The
lease of the process that was killed has longer than that."""

LONG = "They spoke of ships and of harbours, of tides and of winds. " * 100


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """A provider that answers at once and summarises slowly."""
    with running("--clock", "system", "--rate", "60", "--option", "default_reply=yes") as url:
        summary = "# Facts\n" + "\n".join(f"- The ship {number} came in." for number in range(30))
        replies = {"yes": {"text": "Yes."}, "sum": {"match": "Summarise this conversation now", "text": summary}}
        httpx2.post(f"{url}/_sim/replies", json=replies, trust_env=False)
        yield url


async def summaries(provider: str) -> int:
    """The requests for a summary that have reached the provider."""
    async with httpx2.AsyncClient(base_url=provider, trust_env=False) as http:
        requests = (await http.get("/_sim/requests")).json()["requests"]
    return sum("Summarise this conversation now" in str(request["body"]) for request in requests)


async def asked(provider: str, count: int) -> None:
    """Come back when so many summaries were asked for."""
    async with asyncio.timeout(SECONDS):
        while await summaries(provider) < count:  # noqa: ASYNC110  # another process knows
            await asyncio.sleep(0.05)


async def test_a_compaction_goes_on_after_a_kill(provider: str, tmp_path: Path) -> None:
    command, environment = lamella(tmp_path, provider)
    environment |= {"LAMELLA_KEEP_RECENT_TOKENS": "500"}
    async with started(*command, **environment) as server:
        conversation = await server.client.conversation()
        for number in range(4):
            await server.client.send(conversation, f"Question {number}? {LONG}")
        await server.client.post(f"/conversations/{conversation}/compact")
        await asked(provider, 1)
        server.kill()
        await server.process.wait()
    async with started(*command, **environment) as server:
        path = f"/conversations/{conversation}"
        await asked(provider, 2)
        assert (await server.client.get(f"{path}/context"))["compacting"]
        status = await server.client.post(f"{path}/commands", {"text": "/status"})
        assert status["data"]["compacting"]
        answer = await server.client.post(f"{path}/compact")
        assert answer["data"] == {"started": False, "why": "running"}
        async with asyncio.timeout(120):
            while len((await server.client.get(f"{path}/sessions"))["data"]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await summaries(provider) == 2
