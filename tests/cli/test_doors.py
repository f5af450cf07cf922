"""The terminal without a server sends what a server sends: the same bytes reach the provider by either way."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.cli.api import open_api
from lamella.cli.own_server import own_client
from lamella.server.testing import ServerClient
from lamella.settings import Settings, read_settings
from lamella_simulator.testing import running

ZONE = "Europe/Berlin"
QUESTION = "What does the manual say about tides?"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with running("--clock", "system") as url:
        yield url


@asynccontextmanager
async def api(settings: Settings) -> AsyncIterator[ServerClient]:
    """The API over the data folder, without a socket."""
    async with own_client(settings, {}) as (http, _):
        yield ServerClient(http)


async def _base(client: ServerClient) -> str:
    about = {"summary": "Tide tables of the North Sea.", "topics": ["tides"], "name": "Tables"}
    base = str((await client.post("/knowledge-bases", about))["id"])
    upload = {"file": ("tides.md", b"# Tides\n\nThe tide turns twice a day.")}
    document = (await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)).json()
    async with asyncio.timeout(60):
        while document["state"] != "ready":
            await asyncio.sleep(0.05)
            document = await client.get(f"/knowledge-bases/{base}/documents/{document['id']}")
    return base


async def _conversation(client: ServerClient, base: str) -> str:
    id = await client.conversation()
    bound = await client.call("PUT", f"/conversations/{id}/knowledge-bases", json={"knowledge_base_ids": [base]})
    assert bound.is_success, bound.text
    return id


async def _by_terminal(settings: Settings, conversation: str) -> None:
    async with open_api(settings) as terminal:
        async for _ in terminal.send(conversation, QUESTION, timezone=ZONE, debounce_ms=0):
            pass


async def _by_http(client: ServerClient, conversation: str) -> None:
    body = {"text": QUESTION, "timezone": ZONE, "debounce_ms": 0}
    sent = await client.call(
        "POST", f"/conversations/{conversation}/turns", json=body, headers={"accept": "application/json"}
    )
    assert sent.is_success, sent.text


async def _bodies(client: ServerClient, conversation: str) -> list[str]:
    """What was sent for the conversation's turn, without markers: what the other left in the cache decides of them."""
    [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
    assert turn["status"] == "finished"
    requests = (await client.get(f"/turns/{turn['id']}/requests"))["data"]
    bodies = [_unmarked(await client.get(f"/requests/{request['id']}/raw")) for request in requests]
    return [_NEW.sub("new", json.dumps(body, ensure_ascii=False)) for body in bodies]


_NEW = re.compile(r"\d{1,2}:\d{2}|toolu_\w+")
"""What is another each time: the time, and what the provider calls a call."""


def _unmarked(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _unmarked(value) for name, value in part.items() if name != "cache_control"}
    return [_unmarked(one) for one in part] if isinstance(part, list) else part


def test_both_doors_send_the_same_bytes(provider: str, tmp_path: Path) -> None:
    """With dynamic context by a provider of the deployment, and a knowledge base that the conversation may search."""
    settings = read_settings(
        data=tmp_path,
        model="claude-opus-4-8",
        anthropic_base_url=provider,
        anthropic_api_key=SecretStr("any"),
        dynamic_context="user_role:UserRole",
        cache_diagnostics=False,
        titles="off",
        knowledge_summaries=False,
    )

    async def sent() -> tuple[list[str], list[str]]:
        async with api(settings) as client:
            base = await _base(client)
            ours, theirs = [await _conversation(client, base) for _ in range(2)]
        await _by_terminal(settings, ours)
        async with api(settings) as client:
            await _by_http(client, theirs)
            return await _bodies(client, ours), await _bodies(client, theirs)

    ours, theirs = asyncio.run(sent())
    assert ours == theirs
    assert "Tide tables of the North Sea." in ours[0]
    assert "admin" in ours[0]
