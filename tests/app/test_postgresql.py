"""A server on PostgreSQL: a message, a restart, a search, and one process for a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import open_app
from lamella.core.errors import ConfigurationError
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from postgres import PostgresServer
from valkey_server import Valkey


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_conversation_is_there_after_a_restart_and_is_found(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMELLA_DATABASE_URL", postgres.url(postgres.copied()))
    settings, models = (
        read_settings(data=tmp_path),
        ScriptedModels(ScriptedModel([saying("By the moon."), saying("Yes.")])),
    )
    async with served(settings, models=models) as (_, client):
        conversation = await client.conversation()
        await client.send(conversation, "What makes the quixotic tides?")
        with pytest.raises(ConfigurationError, match="Another lamella serves this database"):
            async with open_app(read_settings(data=tmp_path / "other"), models=models):
                pass
    async with served(settings, models=models) as (_, client):
        await client.send(conversation, "Surely?")
        turns = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert [turn["answer"] for turn in turns] == ["Yes.", "By the moon."]
        assert (await client.get("/sessions/search?q=quixotic"))["data"] != []


@asynccontextmanager
async def both(
    postgres: PostgresServer, valkey: Valkey, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[ServerClient, ServerClient]]:
    """Clients of two processes on one database."""
    monkeypatch.setenv("LAMELLA_DATABASE_URL", postgres.url(postgres.copied()))
    monkeypatch.setenv("LAMELLA_REDIS_URL", valkey.url)
    answers = [saying(f"Answer {number}.") for number in range(60)]
    one, other = (ScriptedModels(ScriptedModel(answers)) for _ in range(2))
    async with (
        served(read_settings(data=folder / "one"), models=one) as (_, here),
        served(read_settings(data=folder / "other"), models=other) as (_, there),
    ):
        yield here, there


async def at_once(clients: tuple[ServerClient, ServerClient], path: str, key: str, body: object) -> list[Any]:
    """What four requests with one key are answered, two at each process."""
    headers = {"idempotency-key": key, "accept": "application/json"}
    asked = [client.call("POST", path, json=body, headers=headers) for client in clients * 2]
    answers = await asyncio.gather(*asked)
    assert all(answer.status_code < 300 for answer in answers), [answer.text for answer in answers]
    return [answer.json() for answer in answers]


@pytest.mark.anyio
async def test_a_key_that_comes_to_two_processes_at_once_makes_one_conversation_with_one_turn(
    postgres: PostgresServer, valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(postgres, valkey, tmp_path, monkeypatch) as clients:
        client = clients[0]
        for number in range(8):
            made = await at_once(clients, "/conversations", f"conversation {number}", {"title": "Tides"})
            [conversation] = {one["id"] for one in made}
            path = f"/conversations/{conversation}/turns"
            for again in range(3):
                await at_once(clients, path, f"message {number} {again}", {"text": f"Question {again}?"})
            async with asyncio.timeout(20):
                while True:
                    turns = (await client.get(path))["data"]
                    if len(turns) >= 3 and all(turn["finished_at"] for turn in turns):
                        break
                    await asyncio.sleep(0.05)
            assert [turn["text"] for turn in turns] == [f"Question {again}?" for again in (2, 1, 0)]
            assert (await client.get(f"/conversations/{conversation}/queue"))["data"] == []
