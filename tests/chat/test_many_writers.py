"""Many people who write a lot on a small budget: every message is answered, over HTTP, whatever has to give way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.testing import running

from .stage import MODEL

pytestmark = [pytest.mark.anyio, pytest.mark.long]

WRITERS = 8
MESSAGES = 12

SAID = "They spoke of the ships that came in with the tide, of the winds, and of what the harbour cost in spring. "


@pytest.fixture(scope="module")
def brief() -> Iterator[str]:
    """A provider that answers in one word, and whose summaries keep the facts that it is shown."""
    with running("--clock", "system", "--option", "default_reply=yes") as url:
        summary = {"match": "Summarise this conversation now|Make one summary of them now", "rule": "keep_facts"}
        httpx2.post(f"{url}/_sim/replies", json={"yes": {"text": "Yes."}, "summary": summary}, trust_env=False)
        yield url


async def write(client: ServerClient, conversation: str, writer: int) -> list[str]:
    """One writer's messages, one after the other; how each of them ended."""
    ended = []
    for number in range(MESSAGES):
        text = f"FACT-{writer}-{number} is message {number} of writer {writer}. {SAID * 20}"
        packets = await client.send(conversation, text)
        ended.append(str(packets[-1].get("status", packets[-1])))
    return ended


@pytest.mark.parametrize("together", [False, True])
async def test_eight_writers_on_eight_thousand_tokens(brief: str, tmp_path: Path, together: bool) -> None:
    """Each in a conversation of their own, or all in one, where a message waits for those before it."""
    settings = read_settings(
        data=tmp_path,
        anthropic_base_url=brief,
        anthropic_api_key=SecretStr("key"),
        model=MODEL,
        context_budget=8_000,
    )
    async with served(settings) as (_, client):
        shared = await client.conversation()
        places = [shared if together else await client.conversation() for _ in range(WRITERS)]
        written = await asyncio.gather(*(write(client, one, writer) for writer, one in enumerate(places)))
        assert [status for statuses in written for status in statuses] == ["finished"] * WRITERS * MESSAGES
        assert len((await client.get(f"/conversations/{places[0]}/sessions"))["data"]) > 1
