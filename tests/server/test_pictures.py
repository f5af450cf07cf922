"""Pictures of a message: sent again after a restart, counted by the provider's rule, refused before they are stored."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image as Pillow

from lamella.app.app import LOCAL_OWNER, App
from lamella.context.layouts import LAYOUTS
from lamella.core.messages import Image
from lamella.core.models import ImageRule
from lamella.core.records import File
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

from .asking import error_of, patched, window

pytestmark = pytest.mark.anyio

SEEING = replace(FACTS, images=ImageRule(patch=28, longest_edge=1568, most=1600))


async def pictures(app: App, count: int) -> list[str]:
    """The ids of stored pictures, each as large as can be."""
    ids = [app.ids.new("file") for _ in range(count)]
    for id in ids:
        row = File(id, f"{id}.png", "image/png", 4, "ready", 0, app.clock.now(), width=1200, height=1000)
        await app.store.files.add_file(
            LOCAL_OWNER, row, None, Image(id, "image/png", 1200, 1000, id, f"PNG {id}".encode())
        )
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
        assert question["blocks"] == 3
        assert question["text_preview"].startswith(f"[Picture “{id}.png”] [picture] What is this?")
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        await client.send(conversation, "And its colour?")
    first, second = (
        [block.data for block in request.blocks if block.level == "messages"] for request in model.requests
    )
    assert second[: len(first)] == first
    assert b'"type":"image"' in first[1]


RED, BLUE = ("red.png", (255, 0, 0)), ("blue.png", (0, 0, 255))


async def uploaded(client: ServerClient, name: str, colour: tuple[int, int, int]) -> str:
    """The id of a picture of one colour that came in over HTTP."""
    target = BytesIO()
    Pillow.new("RGB", (40, 30), colour).save(target, "PNG")
    file = await client.upload(name, target.getvalue())
    assert file["status"] == "ready"
    return str(file["id"])


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_pictures_of_a_project_are_in_every_turn_by_their_names(tmp_path: Path, layout: str) -> None:
    """A model without vision is told their names instead; both see the instructions."""
    seeing, blind = ScriptedModel(facts=SEEING), ScriptedModel(facts=replace(FACTS, name="blind"))
    async with served(read_settings(data=tmp_path), models=ScriptedModels(seeing, blind)) as (_, client):
        files = [await uploaded(client, *one) for one in (RED, BLUE)]
        project = await client.post("/projects", {"name": "Colours", "instructions": "Be exact.", "file_ids": files})
        assert [(file["name"], file["width"], file["height"]) for file in project["files"]] == [
            ("red.png", 40, 30),
            ("blue.png", 40, 30),
        ]
        for model, place in ((seeing, "in_context"), (blind, "left_out")):
            path = f"/projects/{project['id']}?model={model.facts.name}&layout={layout}"
            assert [file["availability"] for file in (await client.get(path))["files"]] == [place, place]
        conversation = await client.conversation(project_id=project["id"], layout=layout, model=SEEING.name)
        for text in ("Compare red.png with blue.png.", "And again?"):
            seeing.then(saying("One is red."))
            await client.send(conversation, text)
        blind.then(saying("I can't see them."))
        await patched(client, f"/conversations/{conversation}", model="blind")
        packets = await client.send(conversation, "And you?")
        mapped = await window(client, packets)
    for request in seeing.requests:
        parts = [block.value for block in request.blocks if block.segment == project["id"]]
        assert [part["type"] for part in parts] == ["text", "image", "text", "image", "text"]
        assert [part["text"] for part in parts[::2]] == [
            "[Picture “red.png”]",
            "[Picture “blue.png”]",
            "Instructions of the project “Colours”:\nBe exact.",
        ]
    first, second = ([b.data for b in r.blocks if b.segment == project["id"]] for r in seeing.requests)
    assert first == second
    told = [block.value["text"] for block in blind.requests[0].blocks if block.segment == project["id"]]
    assert told[1] == "[A picture, “blue.png”, 40 × 30 pixels: this model can't see it.]"
    assert "“red.png” is not shown: blind sees no pictures" in [note["text"] for note in mapped["notes"]]


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


async def turns(client: ServerClient, conversation: str) -> list[object]:
    found: list[object] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
    return found
