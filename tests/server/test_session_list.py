"""The sessions of a conversation come in pages, as every list does."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


async def test_sessions_come_in_pages(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        conversation = await client.conversation()
        for _ in range(3):
            await client.post(f"/conversations/{conversation}/new", {})
        path = f"/conversations/{conversation}/sessions"
        first = await client.get(f"{path}?limit=3")
        assert [session["number"] for session in first["data"]] == [4, 3, 2]
        assert (first["data"][0]["current"], first["has_more"]) == (True, True)
        rest = await client.get(f"{path}?limit=3&after={first['last_id']}")
        assert [session["number"] for session in rest["data"]] == [1]
        assert rest["has_more"] is False
        rising = await client.get(f"{path}?limit=2&order=asc")
        assert [session["number"] for session in rising["data"]] == [1, 2]
