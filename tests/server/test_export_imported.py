"""A conversation with turns that no model answered here is carried away too: what a client sent, and copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.server.testing import Object, ServerClient
from lamella_lab.replay.report import nothing_asked

from .agent_clients import AgentClient
from .asking import patched
from .carrying import CHINESE, GREEK, assert_carried, carried, carrier

pytestmark = pytest.mark.anyio

ITEMS: list[Object] = [
    {"role": "user", "content": "Which tide?"},
    {"type": "function_call", "call_id": "c1", "name": "tides", "arguments": '{"harbour": "北方"}'},
    {"type": "function_call_output", "call_id": "c1", "output": f"High. {CHINESE}"},
    {"role": "assistant", "content": "The spring tide."},
    {"role": "user", "content": f"When? {GREEK}"},
]


@pytest.fixture
async def carrying(tmp_path: Path) -> AsyncIterator[ServerClient]:
    """A server over a simulated provider."""
    async with carrier(tmp_path, keep_recent_tokens=200, titles=False) as (_, client):
        yield client


async def with_items(client: ServerClient, items: list[Object], **fields: object) -> str:
    """A conversation that begins with these items."""
    made = await client.http.post("/v1/conversations", json={"items": items, **fields})
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


async def test_a_replay_asks_no_model_for_items_that_were_added(client: ServerClient) -> None:
    conversation = await with_items(client, ITEMS)
    for query in ("", "?content=false"):
        found = await carried(client, conversation, query)
        assert found.raw["exported"]["not_carried"] == []
        assert [len(turn.get("steps", [])) for turn in found.raw["turns"]] == [2, 0]
        assert found.report.requests == ()
        assert nothing_asked(found.trace) == "no model was asked: a client sent 2 messages, with their answers"


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-6.1-terra"])
async def test_the_requests_after_items_that_were_added_are_sent_again(carrying: ServerClient, model: str) -> None:
    conversation = await with_items(carrying, ITEMS)
    await patched(carrying, f"/conversations/{conversation}", model=model)
    await carrying.send(conversation, "look at both, please")
    added = await carrying.http.post(f"/v1/conversations/{conversation}/items", json={"items": ITEMS[:2]})
    assert added.status_code == 200, added.text
    await carrying.send(conversation, "said")
    found = await assert_carried(carrying, conversation)
    assert found.raw["exported"]["not_carried"] == []
    assert [turn.get("told", False) for turn in found.raw["turns"] if "user" in turn] == [
        True,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
async def test_a_history_that_a_client_sent_along_and_another_one_that_branches(
    carrying: ServerClient, api: str
) -> None:
    await carrying.post("/agents", {"name": "Pilot", "prompt": "You know tides.", "model": "claude-opus-5-5"})
    told = [("user", "When?"), ("assistant", "At noon."), ("user", "Why?"), ("assistant", "The moon.")]
    first = AgentClient(carrying.http, api, history=list(told))
    await first.ask("look at both, please")
    await first.ask("said")
    edited = [*first.history[:6], ("user", "Is it so?"), ("assistant", "It is.")]
    second = AgentClient(carrying.http, api, history=edited)
    await second.ask("said again")
    [line] = (await carrying.get("/lines"))["data"]
    found = await assert_carried(carrying, line["id"])
    assert found.raw["exported"]["not_carried"] == []
    assert sum(turn.get("told", False) for turn in found.raw["turns"]) == 3


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
    assert copied["exported"]["not_carried"] == []
    assert [turn.get("told", False) for turn in copied["turns"] if "user" in turn] == [True, False]
    assert copied["turns"][0]["steps"][0]["parts"] == [{"text": "At noon."}]


async def test_a_copy_of_answers_with_thinking_is_sent_again(carrying: ServerClient) -> None:
    """A second request while the first is answered goes on in a copy."""
    await carrying.post("/agents", {"name": "Pilot", "prompt": "You know tides.", "model": "claude-opus-5-5"})
    first = AgentClient(carrying.http, "chat")
    await first.ask("read the page, please")
    second = AgentClient(carrying.http, "chat", history=list(first.history))
    slow = asyncio.create_task(first.ask("slowly"))
    await asyncio.sleep(1)
    await second.ask("said")
    await second.ask("look at both")
    await slow
    lines = (await carrying.get("/lines"))["data"]
    assert len(lines) == 2
    for line in lines:
        found = await carried(carrying, line["id"])
        assert sorted(found.replayed) == sorted(found.bodies)
        assert found.raw["exported"]["not_carried"] == []
    blank = [await carried(carrying, line["id"], "?content=false") for line in lines]
    told = [reason for one in blank for reason in one.raw["exported"]["not_carried"]]
    assert told == ["the thinking of turns that were copied here, which is only sent after the words before it"]
