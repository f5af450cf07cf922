"""One turn at a time in a conversation; a key that comes twice is one message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from databases import change, rows
from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

from .stage import only, text_of, types
from .test_stop import until

pytestmark = pytest.mark.anyio


async def test_a_second_message_that_is_not_to_wait_is_refused_while_a_turn_runs(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then([deltas.TextDelta(0, "Half"), gate := Gate(), *saying(" an answer.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "First") as events:
        seen = await until(events, "text.delta")
        turn_id = seen[0]["turn_id"]
        answer = await client.call(
            "POST", f"/conversations/{conversation}/turns", json={"text": "Second", "queue": False}
        )
        assert (answer.status_code, answer.headers["x-should-retry"]) == (409, "false")
        error = answer.json()["error"]
        assert error["code"] == "turn_in_progress"
        assert f"/api/v1/turns/{turn_id}/stop" in error["hint"]
        assert (await client.call("DELETE", f"/conversations/{conversation}")).status_code == 409
        assert (await client.get(f"/conversations/{conversation}"))["running_turn"] == turn_id
        gate.opened.set()
        rest = [event.packet async for event in events if event.n is not None]
    assert only(rest, "turn.finished")["status"] == "finished"
    assert len((await client.get(f"/conversations/{conversation}/turns"))["data"]) == 1
    assert len(model.requests) == 1


async def test_of_messages_sent_at_once_exactly_one_is_taken_where_none_is_to_wait(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    gate = Gate()
    model.then(*([gate, *saying(f"Answer {number}.")] for number in range(8)))
    conversation = await client.conversation()
    path = f"/conversations/{conversation}/turns"
    sent = [
        asyncio.create_task(client.call("POST", path, json={"text": f"Message {n}", "queue": False})) for n in range(8)
    ]
    await gate.reached.wait()
    refused = asyncio.as_completed(sent, timeout=20)
    for _ in range(7):
        await next(refused)
    gate.opened.set()
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    assert len(model.requests) == 1
    assert len(rows(tmp_path, "SELECT id FROM turns")) == 1
    assert len(rows(tmp_path, "SELECT id FROM messages WHERE role = 'user'")) == 1


async def test_conversations_do_not_wait_for_each_other(client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([gate, *saying("Slow.")], saying("Quick."))
    slow, quick = await client.conversation(), await client.conversation()
    async with client.sending(slow, "Take your time") as events:
        await until(events, "request.started")
        await gate.reached.wait()
        assert text_of(await client.send(quick, "Be quick")) == "Quick."
        gate.opened.set()
        assert [event.packet async for event in events if event.n is not None][-1]["status"] == "finished"


async def test_a_message_right_behind_the_end_of_a_turn_is_taken(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    for number in range(50):
        model.then(saying(f"Answer {number}."))
        async with client.sending(conversation, f"Question {number}") as events:
            assert types(await until(events, "turn.finished"))[-1] == "turn.finished"
    assert len(model.requests) == 50
    last = [block.value.get("text") for block in model.requests[-1].blocks if block.role == "assistant"]
    assert last == [f"Answer {number}." for number in range(49)]


async def send(client: ServerClient, conversation: str, key: str, **body: Any) -> Any:
    path = f"/conversations/{conversation}/turns"
    return await client.call("POST", path, json={"text": "Hi", **body}, headers={"Idempotency-Key": key})


def events_of(answer: httpx2.Response) -> str:
    """A stream without the comments that keep a connection open while nothing happens."""
    return "\n".join(line for line in answer.text.splitlines() if line and not line.startswith(":"))


async def test_a_key_that_comes_again_replays_the_turn(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("Once."))
    conversation = await client.conversation()
    first = await send(client, conversation, "key-1")
    second = await send(client, conversation, "key-1")
    assert (first.status_code, second.status_code) == (200, 200)
    assert events_of(first) == events_of(second)
    assert "Once." in first.text
    assert len(model.requests) == 1


async def test_a_key_that_comes_again_while_its_turn_runs_follows_it(
    client: ServerClient, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then([gate, *saying("Once.")])
    conversation = await client.conversation()
    sent = [asyncio.create_task(send(client, conversation, "key-1")) for _ in range(5)]
    await gate.reached.wait()
    sent.append(asyncio.create_task(send(client, conversation, "key-1")))
    await asyncio.sleep(0.1)
    gate.opened.set()
    answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} == {200}
    assert len({events_of(answer) for answer in answers}) == 1
    assert len(model.requests) == 1


@pytest.mark.parametrize("changed", [{"text": "Hello"}, {"timezone": "Europe/Berlin"}, {"models": ["scripted"]}])
async def test_a_key_with_another_message_is_refused(
    client: ServerClient, model: ScriptedModel, changed: dict[str, Any]
) -> None:
    model.then(saying("Once."))
    conversation = await client.conversation()
    await send(client, conversation, "key-1")
    answer = await send(client, conversation, "key-1", **changed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_mismatch")
    other = await client.conversation()
    assert (await send(client, other, "key-1")).status_code == 422


async def test_a_key_of_a_refused_message_can_be_used_again(client: ServerClient, model: ScriptedModel) -> None:
    model.then([gate := Gate(), *saying("First.")], saying("Second."))
    conversation = await client.conversation()
    async with client.sending(conversation, "First") as events:
        await until(events, "request.started")
        assert (await send(client, conversation, "key-1", queue=False)).status_code == 409
        gate.opened.set()
        await until(events, "turn.finished")
    assert "Second." in (await send(client, conversation, "key-1", text="Another text")).text


async def test_a_key_whose_turn_never_began_begins_it(tmp_path: Path) -> None:
    """As after a process that died between the two."""
    model = ScriptedModel([saying("Once."), saying("At last.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        conversation = await client.conversation()
        await send(client, conversation, "key-1")
        [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
    await change(tmp_path, "UPDATE conversations SET head = NULL; DELETE FROM turns;")
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        assert "At last." in (await send(client, conversation, "key-1")).text
        assert (await client.get(f"/turns/{turn['id']}"))["answer"] == "At last."


async def test_a_conversation_is_made_once_for_a_key(client: ServerClient) -> None:
    answers = await asyncio.gather(
        *(client.call("POST", "/conversations", json={}, headers={"Idempotency-Key": "made"}) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = await client.call("POST", "/conversations", json={"title": "x"}, headers={"Idempotency-Key": "made"})
    assert (other.status_code, other.json()["error"]["param"]) == (422, "Idempotency-Key")
    assert len((await client.get("/conversations"))["data"]) == 1


async def test_keys_belong_to_one_route(app: App, client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("Hi."))
    made = await client.call("POST", "/conversations", json={}, headers={"Idempotency-Key": "shared"})
    answer = await send(client, made.json()["id"], "shared")
    assert answer.status_code == 422
    assert (await app.store.conversations.conversation(LOCAL_OWNER, made.json()["id"])).head is None
