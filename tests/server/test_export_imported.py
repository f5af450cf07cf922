"""A conversation with turns that no model answered here is carried away too: what a client sent, and copies."""

from __future__ import annotations

import asyncio

import pytest

from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.server.testing import ServerClient

from .agent_clients import AgentClient

pytestmark = pytest.mark.anyio

FROM = "where the answers come from of the {} sent or copied here: the replay asks a model for them"


async def test_items_that_were_added(client: ServerClient) -> None:
    items = [{"role": "user", "content": "Which tide?"}, {"role": "assistant", "content": "The spring tide."}]
    made = await client.http.post("/v1/conversations", json={"items": [*items, {"role": "user", "content": "When?"}]})
    for query in ("", "?content=false"):
        found = await client.call("GET", f"/conversations/{made.json()['id']}/export{query}")
        assert found.status_code == 200, found.text
        trace = found.json()
        assert trace["exported"]["not_carried"] == [FROM.format("2 turns that were")]
        assert [len(turn.get("steps", [])) for turn in trace["turns"]] == [1, 0]
        assert ("The spring tide." in found.text) == (not query)


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_copy_for_a_second_request_at_once(client: ServerClient, model: ScriptedModel, api: str) -> None:
    await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
    first = AgentClient(client.http, api)
    gate = Gate()
    model.then(saying("At noon."), [*saying("I think")[:1], gate, *saying(" so.")], saying("Not at one."))
    await first.ask("When?")
    second = AgentClient(client.http, api, history=list(first.history))
    asking = asyncio.create_task(first.ask("Sure?"))
    await gate.reached.wait()
    assert await second.ask("At one?") == "Not at one."
    gate.opened.set()
    await asking
    lines = (await client.get("/lines"))["data"]
    assert len(lines) == 2
    exports = [await client.call("GET", f"/conversations/{line['id']}/export") for line in lines]
    assert [one.status_code for one in exports] == [200, 200]
    [copied] = [one.json() for one in exports if "Not at one." in one.text]
    assert copied["exported"]["not_carried"] == [FROM.format("turn that was")]
    assert copied["turns"][0]["steps"][0]["parts"] == [{"text": "At noon."}]
