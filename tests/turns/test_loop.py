"""The loop of a run behind a server: bills, reminders of tools that the server has, and files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.agent.reminders import CITATION, LAST_STEP, OPEN_PAGES
from lamella.app.app import SHIPPED_TOOLS, App
from lamella.core.messages import ToolCall
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from scripted_tools import Wait, WebSearch, finding, reminders, wait

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A server with this model and the waiting tool, and a conversation in it."""
    opened = read_settings(data=folder, **settings)
    async with served(opened, models=ScriptedModels(model), tools=(Wait(), WebSearch(), *SHIPPED_TOOLS)) as (
        app,
        client,
    ):
        yield app, client, await client.conversation()


def of(packets: list[Object], kind: str) -> list[Object]:
    return [packet for packet in packets if packet["type"] == kind]


async def test_usage_is_that_of_all_steps(tmp_path: Path) -> None:
    model = ScriptedModel(
        [calling(wait("c1"), text="Wait."), saying("Done.", usage=Usage(input=300, cache_read=200, output=7))]
    )
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert [packet["usage"]["input"] for packet in of(packets, "usage")] == [100, 300]
        total = packets[-1]["usage"]
        assert (total["input"], total["cache_read"], total["fresh"], total["output"]) == (400, 200, 200, 17)
        assert packets[-1]["cost"] == pytest.approx(sum(packet["cost"] for packet in of(packets, "usage")))
        turn = await client.get(f"/turns/{packets[0]['turn_id']}")
        assert turn["answer"] == "Wait.\n\nDone."
        assert (turn["usage"], turn["cost"]) == (total, pytest.approx(packets[-1]["cost"]))


HITS = '{"documents": [{"document": 1, "title": "Ships", "url": "https://ships.example/", "contents": "Ships are…"}]}'
PASSAGE = '{"documents": [{"document": 1, "title": "Notes", "contents": "See https://ships.example/ for more."}]}'


@pytest.mark.parametrize(
    ("calls", "fields", "expected"),
    [
        (finding("c1", HITS), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", "Ships, https://ships.example/: Ships are…"), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", '[{"link": "http://ships.example/a", "snippet": "…"}]'), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", PASSAGE), {}, [CITATION]),
        (finding("c1", "Nothing was found."), {}, [CITATION]),
        (finding("c1", HITS), {"open_url": False}, [CITATION]),
        (finding("c1", HITS), {"step_limit": 2}, [CITATION, LAST_STEP]),
        (wait("c1"), {}, []),
    ],
)
async def test_the_tool_to_call_after_web_hits(
    tmp_path: Path, calls: ToolCall, fields: dict[str, Any], expected: list[str]
) -> None:
    model = ScriptedModel([calling(calls), saying("Done.")])
    async with talking(tmp_path, model, **{"open_url": True, **fields}) as (_, client, conversation):
        await client.send(conversation, "Go")
    assert reminders(model.requests[1]) == expected


async def test_pages_that_were_opened_are_not_asked_for_again(tmp_path: Path) -> None:
    opened = ToolCall("c2", "open_url", '{"url":"http://127.0.0.1/"}')
    model = ScriptedModel([calling(finding("c1", HITS)), calling(opened), saying("Done.")])
    async with talking(tmp_path, model, open_url=True) as (_, client, conversation):
        await client.send(conversation, "Go")
    assert [reminders(request) for request in model.requests] == [[], [CITATION, OPEN_PAGES], [CITATION]]


async def test_a_file_too_large_for_the_window_is_read_in_pieces_and_cited(tmp_path: Path) -> None:
    """Listed, read by the tool, and from then on the model is reminded to cite."""
    model = ScriptedModel()
    async with talking(tmp_path, model, context_budget=4_000) as (_, client, conversation):
        text = "Nothing of interest stands here. " * 2_000 + "The treasure lies under the oak. " + "Nor here. " * 500
        file = await client.upload("map.txt", text.encode())
        assert (file["status"], file["fits"]) == ("ready", False)
        assert "read in pieces" in file["reason"]
        call = ToolCall("c1", "read_file", f'{{"file_id":"{file["id"]}","query":"treasure"}}')
        model.then(calling(call), saying("The treasure lies under the oak [1]."))
        packets = await client.send(conversation, "Where is the treasure?", file_ids=[file["id"]])
        assert packets[-1]["status"] == "finished"
        [degraded] = of(packets, "context.degraded")
        assert degraded["subject"].startswith(file["id"])
        assert "map.txt" in degraded["why"]
        assert "under the oak" in of(packets, "tool.result")[0]["content"]
        assert [reminders(request) for request in model.requests] == [[], [CITATION]]
        [source], [citation] = of(packets, "source"), of(packets, "citation")
        assert (source["document"], source["title"], source["file_id"]) == (1, "map.txt", file["id"])
        content = await client.get(f"/files/{file['id']}/text")
        passage = content["text"][citation["passage_start"] : citation["passage_end"]]
        assert passage == "The treasure lies under the oak"
        model.then(saying("Yes [1]."))
        packets = await client.send(conversation, "Is that so?")
        assert of(packets, "citation")[0]["document"] == 1
