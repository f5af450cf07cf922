"""What clients of each door get while PostgreSQL is stopped or stands still: an error in its shape, and in time.

The server waits for the database for 20 seconds, so most outages are not noticed at all; these last longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import pytest

from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.balancing import ANSWER_SECONDS
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from postgres import PostgresServer, running, skip_if_absent

pytestmark = [pytest.mark.long, pytest.mark.anyio]

SLACK = 5.0
"""Seconds that a busy machine may add."""

HI = [{"role": "user", "content": "Hi"}]
DOORS: dict[str, tuple[str, str, Any]] = {
    "list": ("GET", "/api/v1/conversations", None),
    "turn": ("POST", "/api/v1/conversations/{id}/turns", {"text": "Hi"}),
    "upload": ("GET", "/api/v1/files", None),
    "messages": ("POST", "/v1/messages", {"model": "agent:Pilot", "max_tokens": 99, "messages": HI}),
    "messages streamed": (
        "POST",
        "/v1/messages",
        {"model": "agent:Pilot", "max_tokens": 99, "messages": HI, "stream": True},
    ),
    "chat": ("POST", "/v1/chat/completions", {"model": "agent:Pilot", "messages": HI}),
    "responses": ("POST", "/v1/responses", {"model": "agent:Pilot", "input": "Hi"}),
    "engine": ("POST", "/v1/responses", {"input": "Hi"}),
    "ag-ui": (
        "POST",
        "/api/v1/agui",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hi"}]},
    ),
    "ui-chat": (
        "POST",
        "/api/v1/ui/chat",
        {
            "id": "u",
            "trigger": "submit-message",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
        },
    ),
}


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    skip_if_absent()
    with running() as server:
        yield server


async def _asked(client: ServerClient, name: str, conversation: str) -> tuple[str, httpx2.Response, float]:
    method, path, body = DOORS[name]
    headers = {"idempotency-key": "the-one"} if name == "turn" else {}
    began = monotonic()
    answer = await client.http.request(
        method, path.format(id=conversation), json=body, headers=headers, timeout=ANSWER_SECONDS + 4 * SLACK
    )
    return name, answer, monotonic() - began


def _in_the_shape_of_its_door(name: str, answer: httpx2.Response, said: str) -> None:
    assert (answer.status_code, answer.headers["retry-after"]) == (504, "1"), (name, answer.text)
    told = answer.json()
    error = told["error"]
    assert error["message"].startswith(said), (name, error)
    assert "\n" not in error["message"]
    path = DOORS[name][1]
    if path == "/v1/messages":
        assert (told["type"], error["type"]) == ("error", "timeout_error")
    elif path.startswith("/v1/"):
        assert error["type"] == "server_error"
    else:
        assert (error["type"], error["code"]) == ("StoreUnreachable", "store_unreachable")


@pytest.mark.parametrize(
    ("leaves", "comes", "said"),
    [("stop", "start", "PostgreSQL can't be reached."), ("freeze", "thaw", "PostgreSQL ")],
    ids=["stopped", "standing still"],
)
async def test_each_door_says_in_its_shape_and_in_time_that_postgresql_is_away(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: str, comes: str, said: str
) -> None:
    monkeypatch.setenv("LAMELLA_DATABASE_URL", own.url(own.copied()))
    models = ScriptedModels(ScriptedModel(saying("Hello.") for _ in range(40)))
    async with served(read_settings(data=tmp_path, titles=False), models=models, checked=False) as (_, client):
        await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        conversation = await client.conversation()
        await asyncio.to_thread(getattr(own, leaves))
        try:
            asked = asyncio.gather(*(_asked(client, name, conversation) for name in DOORS))
            await asyncio.sleep(3)
            assert (await client.http.get("/")).status_code == 200, "the page needs no database"
            assert (await client.http.get("/healthz")).status_code == 200
            ready = await client.http.get("/readyz")
            assert (ready.status_code, ready.json()["error"]["param"]) == (503, "database")
            for name, answer, seconds in await asked:
                _in_the_shape_of_its_door(name, answer, said)
                assert seconds < ANSWER_SECONDS + SLACK, name
        finally:
            await asyncio.to_thread(getattr(own, comes))
        for name in DOORS:
            _, answer, seconds = await _asked(client, name, conversation)
            assert answer.status_code == 200, (name, answer.text)
            assert seconds < SLACK
        [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert turn["status"] == "finished", "sent twice with one key, it happened once"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
