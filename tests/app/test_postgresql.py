"""A server on PostgreSQL: a message, a restart, a search, and one process for a database."""

from __future__ import annotations

import asyncio
import os
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
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import COMMITTED, postgres_engine
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


def _newer_version(url: str) -> None:
    """What the next version's migration may do: it adds, and holds its locks for a while."""
    engine = postgres_engine(database_url(url), COMMITTED)
    with engine.begin() as connection:
        for table in ("conversations", "turns", "messages", "processes"):
            connection.exec_driver_sql(
                f"ALTER TABLE {table} ADD COLUMN mood TEXT, ADD COLUMN rank INT NOT NULL DEFAULT 1"
            )
        connection.exec_driver_sql("CREATE TABLE moods (turn_id TEXT PRIMARY KEY REFERENCES turns ON DELETE CASCADE)")
        connection.exec_driver_sql("CREATE INDEX ix_turns_mood ON turns (mood)")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.exec_driver_sql("SELECT pg_sleep(1)")
    engine.dispose()


@pytest.mark.anyio
@pytest.mark.long
async def test_processes_serve_on_while_a_newer_version_adds_to_their_database(
    postgres: PostgresServer, valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with both(postgres, valkey, tmp_path, monkeypatch) as (here, there):
        conversation, url = await here.conversation(), os.environ["LAMELLA_DATABASE_URL"]
        await here.send(conversation, "Question 0?")
        migrating, asked = asyncio.create_task(asyncio.to_thread(_newer_version, url)), 1
        after = 3
        while after:
            packets = await (here, there)[asked % 2].send(conversation, f"Question {asked}?")
            assert packets[-1]["status"] == "finished"
            found = (await (there, here)[asked % 2].get(f"/conversations/{conversation}/turns?limit=1"))["data"]
            assert [(turn["text"], turn["status"]) for turn in found] == [(f"Question {asked}?", "finished")]
            asked, after = asked + 1, after - migrating.done()
        await migrating
        with pytest.raises(ConfigurationError, match="A newer lamella wrote this database"):
            async with open_app(read_settings(data=tmp_path / "late")):
                pass
        assert (await there.call("DELETE", f"/conversations/{conversation}")).status_code == 204
