"""A server on PostgreSQL: a message, a restart, a search, and one process for a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.app.app import open_app
from lamella.core.errors import ConfigurationError
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings
from postgres import PostgresServer


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
