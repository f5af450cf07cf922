"""The layouts to choose from: those that ship, and those that a deployment brings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.app import open_app
from lamella.context.layouts import LAYOUTS
from lamella.core.errors import ConfigurationError
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

from .asking import error_of, patched, window

pytestmark = pytest.mark.anyio


async def test_the_layouts_are_listed_as_tables(client: ServerClient) -> None:
    listed = (await client.get("/layouts"))["data"]
    assert [layout["name"] for layout in listed] == list(LAYOUTS)
    assert listed[0]["name"] == "lamella"
    assert all(layout["object"] == "layout" and layout["description"] for layout in listed)
    assert (listed[0]["old_results"], listed[0]["markers"]) == ("stub", "planner")
    assert listed[0]["slots"][0] == {"kind": "tools", "zone": "fixed", "lifetime": "session", "when_changed": False}
    dynamic = next(slot for slot in listed[0]["slots"] if slot["kind"] == "dynamic")
    assert dynamic["when_changed"]


async def test_a_deployment_brings_its_own(tmp_path: Path) -> None:
    own = replace(LAYOUTS["onyx"], name="house", description="Ours.")
    model = ScriptedModel([saying("One."), saying("Two.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), layouts=[own]) as (_, client):
        assert "house" in [layout["name"] for layout in (await client.get("/layouts"))["data"]]
        agent = await client.post("/agents", {"name": "A", "prompt": "P", "layout": "house"})
        conversation = await client.conversation(agent_id=agent["id"])
        mapped = await window(client, await client.send(conversation, "Hello"))
        assert (mapped["layout"], mapped["letters"]) == ("house", "S CA U1")
        await patched(client, f"/conversations/{conversation}", layout="lis")
        mapped = await window(client, await client.send(conversation, "Hello", layout="house"))
        assert mapped["layout"] == "house"
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        answer = await client.call("POST", "/conversations", json={"agent_id": agent["id"]})
        assert "lamella" in error_of(answer, 400, "invalid_request", "layout")["hint"]


def reading(file_id: str) -> ToolCall:
    return ToolCall(f"c_{file_id}", "read_file", f'{{"file_id":"{file_id}"}}')


def system_text(model: ScriptedModel, request: int) -> str:
    """The system text of a request."""
    return "\n".join(str(block.value["text"]) for block in model.requests[request].blocks if block.level == "system")


async def test_onyx_says_how_to_cite_only_after_a_search_has_run(client: ServerClient, model: ScriptedModel) -> None:
    file = await client.upload("plan.txt", b"It is blue.")
    model.then(calling(reading("file_none")), calling(reading(file["id"])), saying("Blue [1]."), saying("Bye."))
    conversation = await client.conversation(layout="onyx")
    await client.send(conversation, "What colour?", file_ids=[file["id"]])
    await client.send(conversation, "Thank you")
    assert ["citation" in system_text(model, request).lower() for request in range(4)] == [False, False, True, False]
    assert "# Citations" in system_text(model, 2)
    assert "# How you write" in system_text(model, 0)


async def test_onyx_leaves_a_section_about_citations_that_somebody_wrote(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then(saying("Hi."))
    await client.post("/system-prompts", {"text": "# Documents and citations\n- Cite nothing, ever."})
    await client.send(await client.conversation(layout="onyx"), "Hello")
    assert system_text(model, 0).startswith("# Documents and citations\n- Cite nothing, ever.")


async def test_a_layout_whose_name_is_taken_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="lis"):
        async with open_app(read_settings(data=tmp_path), layouts=[replace(LAYOUTS["onyx"], name="lis")]):
            raise AssertionError("it started")
