"""An agent's citations in the APIs of other vendors, as annotations of each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import App
from lamella.core.deltas import ReasoningDelta, TextDelta
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME

from .agent_clients import PATHS, Library
from .carrying import Opening
from .test_knowledge import base_of, upload

pytestmark = pytest.mark.anyio

APIS = pytest.mark.parametrize("api", PATHS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
MAST = "The mast is 60 m high"
FIRST, SECOND = "The page 7 says so [1].", "😀 The mast is 60 m high [2], as the page 7 says [1]"


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    """An agent with a knowledge base, and a tool that opens pages."""
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model), more_tools=(Opening(),)) as (app, client):
        agent = await client.post("/agents", {"name": "Pilot", "prompt": "You know airships."})
        base = await base_of(app)
        text = f"The crew sleeps aft. {MAST}. It stands at the shore."
        await upload(client, base, "mast.md", text)
        bound = {"knowledge_base_ids": [base]}
        assert (await client.call("PUT", f"/agents/{agent['id']}/knowledge-bases", json=bound)).status_code == 200
        yield app, client


def cites(model: ScriptedModel, *, thinks: bool) -> None:
    """Opens a page and cites it; searches the base, perhaps thinks, and cites both."""
    thought = [ReasoningDelta(0, "Hm.")] if thinks else []
    *words, bill, end = saying(SECOND)
    model.then(
        calling(ToolCall("c1", "open", '{"n": 7}')),
        [
            *(TextDelta(0, FIRST[:9]), TextDelta(0, FIRST[9:])),
            *calling(ToolCall("c2", NAME, encode_text({"query": "How high is the mast?"}))),
        ],
        [*thought, *[TextDelta(1, one.text) for one in words if isinstance(one, TextDelta)], bill, end],
    )


def places(api: str, talk: Library, said: str) -> list[tuple[str, str, str]]:
    """Of each citation its source, its title, and what it says of the text or of the document."""
    if api == "messages":
        return [(one["source"], one["title"], one["cited_text"]) for one in talk.citations]
    found = [one["url_citation"] if api == "chat" else one for one in talk.citations]
    return [(one["url"], one["title"], said[one["start_index"] : one["end_index"]]) for one in found]


@APIS
@BOTH
@pytest.mark.parametrize("thinks", [False, True], ids=["", "thinking"])
async def test_the_libraries_get_citations_at_their_places(
    client: ServerClient, model: ScriptedModel, api: str, streams: bool, thinks: bool
) -> None:
    cites(model, thinks=thinks)
    model.then(saying("Yes."))
    talk = Library(str(client.http.base_url).rstrip("/"), api)
    said = await talk.ask("How high?", streams=streams)
    assert said == f"{FIRST}\n\n{SECOND}"
    if api == "responses" and thinks:  # places count in the item's own text
        items = [item for item in talk.history if item.get("type") == "message"]
        assert [item["content"][0]["text"] for item in items] == [FIRST, f"\n\n{SECOND}"]
        found = [one for item in items for one in item["content"][0]["annotations"]]
        assert [items[n > 0]["content"][0]["text"][a["start_index"] : a["end_index"]] for n, a in enumerate(found)] == [
            "[1]",
            "[2]",
            "[1]",
        ]
    else:
        page, base = "https://example.org/", "/api/v1/knowledge-bases/"
        sources, titles, told = zip(*places(api, talk, said), strict=True)
        assert (sources[0], sources[2], sources[1].startswith(base)) == (page, page, True)
        assert titles == ("A page", "mast.md", "A page")
        if api == "messages":
            assert told[1] == MAST
            assert told[0] == told[2]
            assert told[0].startswith("The page 7 says: ")
            assert [one["search_result_index"] for one in talk.citations] == [0, 1, 0]
        else:
            assert told == ("[1]", "[2]", "[1]")
    assert await talk.ask("Sure?", streams=streams) == "Yes."
    assert talk.citations == []
    assert encode_text(model.body(model.requests[-1])).count("mast.md") == 1, "the steps came back, not the citations"


@BOTH
async def test_a_citation_of_a_text_before_thinking_in_one_answer_of_the_model(
    client: ServerClient, model: ScriptedModel, streams: bool
) -> None:
    """The text ends with its citation: it is decided when the next block begins, while the client's block is open."""
    page: list[ReplayEvent] = [
        TextDelta(0, "The page 7 says so [1]"),
        ReasoningDelta(1, "Hm."),
        TextDelta(2, "Yes [1]"),
    ]
    model.then(calling(ToolCall("c1", "open", '{"n": 7}')), [*page, *saying("")[1:]])
    talk = Library(str(client.http.base_url).rstrip("/"), "messages")
    await talk.ask("How high?", streams=streams)
    texts: list[Object] = [block for block in talk.history[-1]["content"] if block["type"] == "text"]
    assert [len(block["citations"]) for block in texts] == [1, 1]


async def test_a_packet_quotes_the_passage_of_a_base_and_names_no_place_in_a_text(
    client: ServerClient, model: ScriptedModel
) -> None:
    cites(model, thinks=False)
    talk = Library(str(client.http.base_url).rstrip("/"), "chat")
    await talk.ask("How high?")
    [line] = (await client.get("/lines"))["data"]
    [turn] = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    packets: list[Object] = await client.packets(turn["id"])
    quoted = [(one["quote"], one["passage_start"]) for one in packets if one["type"] == "citation"]
    assert quoted[1] == (MAST, None)
    assert quoted[0][0]
    assert quoted[0][1] is not None
