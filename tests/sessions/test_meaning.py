"""A search by an embedder that knows words and no meaning says so if it finds nothing, with the setting that helps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.core.json import decode_object, encode_text
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.testing import running

pytestmark = pytest.mark.anyio

SETTING, NOTHING = "LAMELLA_EMBEDDING_MODEL=minilm", "zzzqq"


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[ServerClient, str]]:
    """A conversation of two sessions."""
    async with served(read_settings(data=folder, **settings), models=ScriptedModels(model)) as (_, client):
        conversation = await client.conversation()
        for text in ("A lighthouse stands in my garden.", "Another lighthouse stands by the sea."):
            model.then(saying("Noted."))
            await client.send(conversation, text)
            await client.post(f"/conversations/{conversation}/new")
        yield client, conversation


async def commanded(client: ServerClient, conversation: str, text: str) -> Object:
    answer = await client.call("POST", f"/conversations/{conversation}/commands", json={"text": text})
    body: Object = answer.json()
    return body


async def test_an_empty_search_says_so(tmp_path: Path) -> None:
    async with talking(tmp_path, ScriptedModel()) as (client, _):
        empty = await client.get(f"/sessions/search?q={NOTHING}")
        assert empty["data"] == []
        assert SETTING in empty["lexical_only_reason"]
        assert (await client.get("/sessions/search?q=lighthouse"))["lexical_only_reason"] is None
        base = (await client.post("/knowledge-bases", {"name": "Ships"}))["id"]
        upload = {"file": ("ships.md", b"A zeppelin flies.")}
        (await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)).raise_for_status()
        empty = await client.post("/knowledge-bases/search", {"query": NOTHING, "knowledge_base_ids": [base]})
        assert empty["data"] == []
        assert SETTING in empty["lexical_only_reason"]


async def test_resume_says_so(tmp_path: Path) -> None:
    async with talking(tmp_path, ScriptedModel()) as (client, conversation):
        assert SETTING in (await commanded(client, conversation, "/resume"))["answer"]
        assert SETTING in (await commanded(client, conversation, "/resume lighthouse"))["answer"]
        assert SETTING in (await commanded(client, conversation, f"/resume {NOTHING}"))["error"]["hint"]


async def test_the_models_search_says_so(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (client, conversation):
        for query, says in ((NOTHING, True), ("lighthouse", False)):
            call = ToolCall(f"call_{query}", "search_conversation", encode_text({"query": query}))
            model.then(calling(call), saying("I see."))
            packets = await client.send(conversation, "Look it up.")
            [result] = [packet for packet in packets if packet["type"] == "tool.result"]
            assert (decode_object(result["content"])["passages"] == []) == says
            assert (SETTING in result["content"]) == says


async def test_an_embedder_that_knows_meaning_says_nothing_of_it(tmp_path: Path) -> None:
    with running("--clock", "system") as url:
        at = {
            "embedding_base_url": f"{url}/v1",
            "embedding_model": "lamella-embed",
            "embedding_api_key": SecretStr("k"),
        }
        async with talking(tmp_path, ScriptedModel(), **at) as (client, conversation):
            assert (await client.get(f"/sessions/search?q={NOTHING}"))["lexical_only_reason"] is None
            assert SETTING not in (await commanded(client, conversation, "/resume"))["answer"]
