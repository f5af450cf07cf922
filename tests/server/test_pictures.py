"""Pictures of a message: sent again after a restart, counted by the provider's rule, refused before they are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.messages import Image
from lamella.core.models import ImageRule
from lamella.core.records import File
from lamella.engine.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Client, served
from lamella.settings import read_settings

from .asking import error_of, window

pytestmark = pytest.mark.anyio

SEEING = replace(FACTS, images=ImageRule(patch=28, longest_edge=1568, most=1600))


async def pictures(app: App, count: int) -> list[str]:
    """The ids of stored pictures, each as large as can be."""
    ids = [app.ids.new("file") for _ in range(count)]
    for id in ids:
        row = File(id, f"{id}.png", "image/png", 4, "ready", 0, app.clock.now(), width=1200, height=1000)
        await app.store.add_file(LOCAL_OWNER, row, None, Image(id, "image/png", 1200, 1000, id, f"PNG {id}".encode()))
    return ids


async def test_a_picture_stays_with_its_message(tmp_path: Path) -> None:
    model = ScriptedModel([saying("A square."), saying("Still red.")], SEEING)
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (app, client):
        [id] = await pictures(app, 1)
        conversation = await client.conversation()
        packets = await client.send(conversation, "What is this?", file_ids=[id])
        assert [one["file_id"] for one in packets[0]["documents"]] == [id]
        mapped = await window(client, packets)
        [question] = [segment for segment in mapped["segments"] if segment["letters"] == "U1"]
        assert question["blocks"] == 2
        assert question["text_preview"].startswith("[picture] What is this?")
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        await client.send(conversation, "And its colour?")
    first, second = (
        [block.data for block in request.blocks if block.level == "messages"] for request in model.requests
    )
    assert second[: len(first)] == first
    assert b'"type":"image"' in first[0]


async def test_pictures_that_fit_no_window_are_refused_before_they_are_stored(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Ah.")], SEEING)
    settings = read_settings(data=tmp_path, context_budget=8_000)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        ids = await pictures(app, 8)
        conversation = await client.conversation()
        body = {"text": "What are these?", "file_ids": ids}
        answer = await client.call("POST", f"/conversations/{conversation}/turns", json=body)
        error_of(answer, 400, "context_length_exceeded", "text")
        assert await turns(client, conversation) == []
        ahead = await client.call("POST", "/context/preview", json={"conversation_id": conversation, **body})
        error_of(ahead, 400, "context_length_exceeded", "text")
        assert (await client.send(conversation, "What is this?", file_ids=ids[:1]))[-1]["status"] == "finished"


async def turns(client: Client, conversation: str) -> list[object]:
    found: list[object] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
    return found
