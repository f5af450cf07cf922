"""A document has one number in a turn, whether it came as a file, from the project, by a search, or from the web."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

from .sites import site

pytestmark = pytest.mark.anyio


async def ready(app: App, document_id: str) -> None:
    async with asyncio.timeout(30):
        while True:
            if (await app.knowledge.store.document_on_shelf(LOCAL_OWNER, document_id)).state == "ready":
                break
            await asyncio.sleep(0.01)


async def furnished(app: App, client: ServerClient) -> tuple[str, str, str]:
    """A conversation whose project has a file and which searches a base; the file's id, and one to attach."""
    base = (await app.access.add_base(LOCAL_OWNER, "kb_1", BaseContent("Ships"), app.clock.now())).id
    sent = {"file": ("base.md", b"The zeppelin of the base is grey.")}
    document = (await client.call("POST", f"/knowledge-bases/{base}/documents", files=sent)).json()["id"]
    planned = (await client.upload("plan.md", b"The zeppelin of the plan is red."))["id"]
    project = (await client.post("/projects", {"name": "Plans", "file_ids": [planned]}))["id"]
    conversation = await client.conversation(project_id=project)
    bound = {"knowledge_base_ids": [base]}
    assert (await client.call("PUT", f"/conversations/{conversation}/knowledge-bases", json=bound)).status_code == 200
    for one in (document, planned):
        await ready(app, one)
    return conversation, planned, (await client.upload("note.txt", b"The zeppelin of the note is blue."))["id"]


def call(id: str, name: str, **arguments: str) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


def numbers(packets: list[Object]) -> dict[str, set[int]]:
    """The numbers that each document had in the results of a turn, by title."""
    found: dict[str, set[int]] = {}
    for packet in packets:
        if packet["type"] == "tool.result":
            content = str(packet["content"])
            for document in json.loads(content[content.index("{") :])["documents"]:
                found.setdefault(document["title"], set()).add(document["document"])
    return found


async def test_over_files_project_search_and_web(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with site() as here:
        here.page("/web", b"<title>Web</title><p>The zeppelin of the web is green.", type="text/html")
        url = f"http://127.0.0.1:{here.port}/web"
        settings = read_settings(data=tmp_path, open_url=True, open_url_allow=f"127.0.0.1:{here.port}", titles=False)
        async with served(settings, models=ScriptedModels(model)) as (app, client):
            conversation, planned, note = await furnished(app, client)
            for _ in range(2):
                model.then(
                    calling(call("c1", "knowledge_base_search", query="zeppelin"), call("c2", "open_url", url=url)),
                    calling(call("c3", "knowledge_base_search", query="grey"), call("c4", "open_url", url=url)),
                    calling(call("c5", "read_file", file_id=planned), call("c6", "read_file", file_id=note)),
                    saying("Red [1], blue [2], grey [3], green [4]."),
                )
            first = await client.send(conversation, "Which colours?", file_ids=[note])
            second = await client.send(conversation, "Sure?")
    found = numbers(first)
    assert set(found) == {"plan.md", "note.txt", "base.md", "Web"}
    assert all(len(given) == 1 for given in found.values()), found
    assert sorted(number for given in found.values() for number in given) == [1, 2, 3, 4]
    assert numbers(second) == found
    sources = {packet["title"]: {packet["document"]} for packet in first if packet["type"] == "source"}
    assert sources == found
