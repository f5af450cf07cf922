"""What is sent while a conversation answers waits its turn; quick messages are answered together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from databases import change
from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.clock import VirtualClock
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Event, Object, ServerClient, served
from lamella.settings import read_settings

from .stage import text_of, types
from .test_stop import until

pytestmark = pytest.mark.anyio

JSON = {"accept": "application/json"}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def asked(model: ScriptedModel) -> list[str]:
    """The newest user message of each request, without its time."""
    found = []
    for request in model.requests:
        texts = [str(b.value.get("text")) for b in request.blocks if b.role == "user" and "text" in b.value]
        found.append(texts[-1].rsplit("\n\n", 1)[0])
    return found


async def post(client: ServerClient, conversation: str, text: str, **fields: Any) -> Any:
    headers = JSON | fields.pop("headers", {})
    path = f"/conversations/{conversation}/turns"
    return await client.call("POST", path, json={"text": text, **fields}, headers=headers)


async def waiting(client: ServerClient, conversation: str) -> list[Object]:
    found: list[Object] = (await client.get(f"/conversations/{conversation}/queue"))["data"]
    return found


async def answered(client: ServerClient, conversation: str, count: int) -> list[Object]:
    """The turns in order, once there are so many and all have ended."""
    async with asyncio.timeout(20):
        while True:
            turns = (await client.get(f"/conversations/{conversation}/turns?order=asc&limit=100"))["data"]
            if len(turns) >= count and all(turn["finished_at"] for turn in turns):
                return list(turns)
            await asyncio.sleep(0.01)


async def rest_of(events: AsyncIterator[Event]) -> list[Object]:
    """The packets that are still to come; comments are none."""
    return [event.packet async for event in events if event.n is not None]


@asynccontextmanager
async def answering(
    client: ServerClient, model: ScriptedModel, conversation: str
) -> AsyncIterator[tuple[Gate, AsyncIterator[Any]]]:
    """A conversation in the middle of its first answer."""
    gate = Gate()
    model.then([deltas.TextDelta(0, "Half"), gate, *saying(" an answer.")])
    async with client.sending(conversation, "First") as events:
        await until(events, "text.delta")
        yield gate, events


async def test_messages_that_come_during_an_answer_are_answered_next_and_in_order(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Two."), saying("Three."))
        second = await post(client, conversation, "Second")
        third = await post(client, conversation, "Third")
        assert (second.status_code, third.status_code) == (202, 202)
        assert [(one["text"], one["position"], one["status"]) for one in await waiting(client, conversation)] == [
            ("Second", 1, "queued"),
            ("Third", 2, "queued"),
        ]
        gate.opened.set()
        turns = await answered(client, conversation, 3)
    assert [(turn["text"], turn["answer"]) for turn in turns] == [
        ("First", "Half an answer."),
        ("Second", "Two."),
        ("Third", "Three."),
    ]
    assert [turn["parent_id"] for turn in turns] == [None, turns[0]["id"], turns[1]["id"]]
    assert asked(model) == ["First", "Second", "Third"]
    found = await client.get(f"/conversations/{conversation}/queue/{second.json()['id']}")
    assert (found["status"], found["turn_id"], found["position"]) == ("begun", turns[1]["id"], None)
    assert await waiting(client, conversation) == []


async def test_a_stream_says_that_its_message_waits_and_then_what_it_comes_to(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Two."))
        async with client.sending(conversation, "Second") as events:
            [queued] = await until(events, "turn.queued")
            assert (queued["position"], queued["n"], queued["turn_id"]) == (1, 0, "")
            gate.opened.set()
            packets = await rest_of(events)
    assert types(packets)[0] == "turn.started"
    assert [packet["n"] for packet in packets] == list(range(1, len(packets) + 1))
    assert text_of(packets) == "Two."
    path = f"/api/v1/conversations/{conversation}/queue/{queued['message_id']}/events"
    again = (await client.http.get(path)).text
    assert again.index("turn.queued") < again.index("turn.started") < again.index("turn.finished")


async def test_a_waiting_message_is_changed_and_another_taken_out(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Better."))
        first, second = [(await post(client, conversation, text)).json()["id"] for text in ("Worse", "Away")]
        path = f"/conversations/{conversation}/queue"
        async with client.sending(conversation, "Never mind") as events:
            [queued] = await until(events, "turn.queued")
            assert (await client.call("DELETE", f"{path}/{queued['message_id']}")).status_code == 204
            [end] = await rest_of(events)
            assert (end["type"], end["reason"]) == ("turn.stopped", "user_cancelled")
        assert (await client.call("DELETE", f"{path}/{second}")).status_code == 204
        changed = await client.call("PATCH", f"{path}/{first}", json={"text": "Better"})
        assert (changed.json()["text"], changed.json()["position"]) == ("Better", 1)
        for text in ("", "/new"):
            assert (await client.call("PATCH", f"{path}/{first}", json={"text": text})).status_code == 400
        gate.opened.set()
        turns = await answered(client, conversation, 2)
    assert [turn["text"] for turn in turns] == ["First", "Better"]
    for method, id in (("PATCH", first), ("DELETE", first), ("DELETE", second)):
        late = await client.call(method, f"{path}/{id}", **({"json": {"text": "Late"}} if method == "PATCH" else {}))
        assert (late.status_code, late.json()["error"]["code"]) == (409, "not_waiting")
    other = await client.conversation()
    assert (await client.call("GET", f"/conversations/{other}/queue/{first}")).status_code == 404


async def test_a_queued_question_gets_its_answer_before_the_command_behind_it(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Two."), saying("Three."))
        await post(client, conversation, "Second")
        async with client.sending(conversation, "/new") as events:
            await until(events, "turn.queued")
            third = await client.post(f"/conversations/{conversation}/commands", {"text": "/queue"})
            assert third["answer"].splitlines()[:2] == ["1. Second", "2. /new"]
            await post(client, conversation, "Third")
            gate.opened.set()
            [ran] = await rest_of(events)
    assert (ran["type"], ran["name"]) == ("command", "new")
    turns = await answered(client, conversation, 3)
    sessions = (await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"]
    assert [turn["answer"] for turn in turns] == ["Half an answer.", "Two.", "Three."]
    assert sessions[1]["begins_after"] == turns[1]["id"]
    assert [block.role for block in model.requests[-1].blocks if block.role == "assistant"] == []


async def test_abort_stops_the_answer_and_what_waits_is_answered_next(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation):
        model.then(saying("Two."))
        await post(client, conversation, "Second")
        aborted = await client.post(f"/conversations/{conversation}/commands", {"text": "/abort"})
        assert aborted["answer"].splitlines()[1].startswith("1 message in the queue is done next.")
        turns = await answered(client, conversation, 2)
    assert [(turn["status"], turn["answer"]) for turn in turns] == [("stopped", "Half"), ("finished", "Two.")]


async def test_queue_drops_by_number_and_clears(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        for text in ("One", "Two", "Three"):
            await post(client, conversation, text)

        async def queue(argument: str) -> Object:
            return await client.post(f"/conversations/{conversation}/commands", {"text": f"/queue {argument}"})

        assert (await queue("drop 2"))["answer"] == "Taken out: Two"
        wrong = await client.call("POST", f"/conversations/{conversation}/commands", json={"text": "/queue drop 3"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "argument")
        assert [one["text"] for one in await waiting(client, conversation)] == ["One", "Three"]
        assert (await queue("clear"))["answer"] == "Taken out: One\nTaken out: Three"
        assert (await queue(""))["answer"] == "Nothing waits."
        gate.opened.set()
        assert len(await answered(client, conversation, 1)) == 1


async def test_a_message_that_can_not_be_answered_blocks_nothing_and_is_told(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Fine."))
        file = await client.upload("a.txt", b"Gone tomorrow.")
        async with client.sending(conversation, "With a file", file_ids=[file["id"]]) as events:
            await until(events, "turn.queued")
            await post(client, conversation, "Without")
            assert (await client.call("DELETE", f"/files/{file['id']}")).status_code == 204
            gate.opened.set()
            [failed] = await rest_of(events)
    assert (failed["type"], failed["error"]["code"]) == ("error", "not_found")
    turns = await answered(client, conversation, 2)
    assert [turn["text"] for turn in turns] == ["First", "Without"]
    [told] = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    assert (told["object"], told["name"], told["data"]["text"]) == ("notification", "not_answered", "With a file")
    assert "With a file" in told["text"]


async def test_a_damaged_row_blocks_nothing_and_is_told(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Fine."))
        async with client.sending(conversation, "Damaged") as events:
            await until(events, "turn.queued")
            await change(tmp_path, "UPDATE queued_messages SET payload = '{}';")
            assert (await post(client, conversation, "Whole")).json()["position"] == 2
            gate.opened.set()
            [failed] = await rest_of(events)
    assert (failed["type"], failed["error"]["code"]) == ("error", "store_failed")
    assert [turn["text"] for turn in await answered(client, conversation, 2)] == ["First", "Whole"]
    [told] = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    assert (told["name"], told["data"]["text"]) == ("not_answered", "Damaged")


async def test_a_queued_message_that_could_never_be_answered_is_refused(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        for fields, status in (
            ({"file_ids": ["file_none"]}, 404),
            ({"models": ["none"]}, 400),
            ({"layout": "none"}, 400),
            ({"agent_id": "agent_none"}, 404),
            ({"timezone": "Mars"}, 400),
        ):
            assert (await post(client, conversation, "Second", **fields)).status_code == status
        assert await waiting(client, conversation) == []
        gate.opened.set()


async def test_a_failed_answer_does_not_block_what_waits(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    gate = Gate()
    model.then([gate], saying("Fine."))
    async with client.sending(conversation, "First") as events:
        await until(events, "request.started")
        await post(client, conversation, "Second")
        gate.opened.set()
        await until(events, "turn.finished")
    turns = await answered(client, conversation, 2)
    assert [turn["status"] for turn in turns] == ["failed", "finished"]


async def test_a_full_queue_refuses(tmp_path: Path, model: ScriptedModel) -> None:
    async with served(read_settings(data=tmp_path, queue_limit=2), models=ScriptedModels(model)) as (_, client):
        conversation = await client.conversation()
        async with answering(client, model, conversation) as (gate, _):
            key = {"Idempotency-Key": "later"}
            for text in ("One", "/new"):
                assert (await post(client, conversation, text)).status_code == 202
            full = await post(client, conversation, "Three", headers=key)
            assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
            assert "LAMELLA_QUEUE_LIMIT" in full.json()["error"]["message"]
            await client.post(f"/conversations/{conversation}/commands", {"text": "/queue clear"})
            assert (await post(client, conversation, "Other", headers=key)).status_code == 202
            model.then(saying("Two."))
            gate.opened.set()
            await answered(client, conversation, 2)


async def test_a_key_queues_once(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    key = {"headers": {"Idempotency-Key": "key-1"}}
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Two."))
        answers = await asyncio.gather(*(post(client, conversation, "Second", **key) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["id"] for answer in answers}) == 1
        commands = await asyncio.gather(
            *(post(client, conversation, "/new", headers={"Idempotency-Key": "key-2"}) for _ in range(5))
        )
        assert len({answer.json()["id"] for answer in commands}) == 1
        assert len(await waiting(client, conversation)) == 2
        gate.opened.set()
        turns = await answered(client, conversation, 2)
        again = await post(client, conversation, "Second", **key)
        assert (again.status_code, again.json()["id"]) == (200, turns[1]["id"])


async def test_a_waiting_message_keeps_the_settings_of_its_time(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    async with answering(client, model, conversation) as (gate, _):
        model.then(saying("Two."), saying("Three."))
        await post(client, conversation, "Second", layout="onyx", dynamic_context=["The weather is fine."])
        await client.call("PATCH", f"/conversations/{conversation}", json={"title": "Changed"})
        await post(client, conversation, "Third")
        gate.opened.set()
        turns = await answered(client, conversation, 3)
    requests = [(await client.get(f"/turns/{turn['id']}/requests"))["data"][0] for turn in turns]
    assert [request["layout"] for request in requests] == ["lamella", "onyx", "lamella"]
    assert "D" in requests[1]["letters"].split()


async def test_deleting_a_conversation_removes_what_waits(tmp_path: Path) -> None:
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        async with client.sending(conversation, "Soon") as events:
            await until(events, "turn.queued")
            assert (await client.call("DELETE", f"/conversations/{conversation}")).status_code == 204
            [end] = await rest_of(events)
        assert end["type"] == "turn.stopped"
    assert model.requests == []


# Debounce, on virtual time


@asynccontextmanager
async def debounced(
    folder: Path, model: ScriptedModel, clock: VirtualClock, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    given = {"debounce_ms": 3000, **settings}
    async with served(read_settings(data=folder, **given), models=ScriptedModels(model), clock=clock, silence=60) as (
        app,
        client,
    ):
        yield app, client, await client.conversation()


async def test_quick_messages_become_one_turn(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("Both.")]), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        files = [(await client.upload(f"{n}.txt", f"Text {n}".encode()))["id"] for n in range(2)]
        first = {"file_ids": files[:1], "dynamic_context": ["It rains."], "timezone": "UTC"}
        second = {"file_ids": files, "dynamic_context": ["It clears up."], "timezone": "Europe/Berlin"}
        async with client.sending(conversation, "One thing", **first) as one:
            await until(one, "turn.queued")
            clock.advance(2.5)
            async with client.sending(conversation, "and another", **second) as two:
                [queued] = await until(two, "turn.queued")
                assert (queued["position"], queued["due_at"]) == (2, "2026-03-01T12:00:05.500000+00:00")
                clock.advance(2.9)
                await asyncio.sleep(0.05)
                assert model.requests == []
                clock.advance(0.2)
                packets = [await rest_of(events) for events in (one, two)]
        assert packets[0] == packets[1]
        [turn] = await answered(client, conversation, 1)
        assert turn["text"] == "One thing\n\nand another"
        assert turn["sent_at"] == "2026-03-01T13:00:02.500000+01:00"
        assert [document["title"] for document in turn["documents"]] == ["0.txt", "1.txt"]
        body = (await client.call("GET", f"/requests/{packets[0][2]['request_id']}/raw")).text
        assert "It clears up." in body
        assert "It rains." not in body


async def test_without_a_debounce_only_what_waits_anyway_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMELLA_DEBOUNCE_MS")
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock, debounce_ms=None) as (_, client, conversation):
        async with answering(client, model, conversation) as (gate, _):
            model.then(saying("Both."))
            for text in ("Second", "and third"):
                await post(client, conversation, text)
                clock.advance(2)
            clock.advance(1)
            gate.opened.set()
            turns = await answered(client, conversation, 2)
        assert [turn["text"] for turn in turns] == ["First", "Second\n\nand third"]


async def test_slow_messages_are_answered_one_by_one(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("One."), saying("Two.")]), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        for count, text in enumerate(("First", "Second"), start=1):
            sending = asyncio.create_task(post(client, conversation, text))
            await until_waiting(client, conversation, 1)
            clock.advance(3)
            assert (await sending).json()["text"] == text
            assert len(model.requests) == count


async def until_waiting(client: ServerClient, conversation: str, count: int) -> list[Object]:
    async with asyncio.timeout(20):
        while True:
            found = await waiting(client, conversation)
            if len(found) == count:
                return found
            await asyncio.sleep(0.005)


async def test_answer_now_waits_no_longer_and_closes_the_group(tmp_path: Path) -> None:
    gate = Gate()
    model, clock = ScriptedModel([[gate, *saying("One.")], saying("Two.")]), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        sending = asyncio.create_task(post(client, conversation, "First"))
        await until_waiting(client, conversation, 1)
        await client.post(f"/conversations/{conversation}/queue/flush")
        await asyncio.wait_for(gate.reached.wait(), 10)
        await post(client, conversation, "Second", debounce_ms=0)
        gate.opened.set()
        assert (await sending).json()["answer"] == "One."
        turns = await answered(client, conversation, 2)
    assert [turn["text"] for turn in turns] == ["First", "Second"]


async def test_a_message_at_once_takes_those_before_it_along(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("Both.")]), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        sending = asyncio.create_task(post(client, conversation, "One"))
        await until_waiting(client, conversation, 1)
        clock.advance(1)
        second = await post(client, conversation, "two", debounce_ms=0)
        assert (await sending).json()["id"] == second.json()["id"]
        assert second.json()["text"] == "One\n\ntwo"


@pytest.mark.parametrize("apart", [{"layout": "onyx"}, {"agent_id": None}, {"models": ["other"]}])
async def test_messages_with_other_settings_are_not_merged(tmp_path: Path, apart: dict[str, Any]) -> None:
    model, clock = ScriptedModel([saying("One."), saying("Two.")]), VirtualClock(NOON)
    models = ScriptedModels(model, ScriptedModel([saying("Two.")], facts=replace(model.facts, name="other")))
    settings = read_settings(data=tmp_path, debounce_ms=3000)
    async with served(settings, models=models, clock=clock) as (_, client):
        conversation = await client.conversation()
        await asyncio.gather(
            asyncio.create_task(_then(client, conversation, clock, apart)),
            asyncio.create_task(post(client, conversation, "First")),
        )
        turns = await answered(client, conversation, 2)
    assert [turn["text"] for turn in turns] == ["First", "Second"]


async def _then(client: ServerClient, conversation: str, clock: VirtualClock, fields: dict[str, Any]) -> None:
    await until_waiting(client, conversation, 1)
    sending = asyncio.create_task(post(client, conversation, "Second", **fields))
    # The first is closed by the second, and answered without its debounce passing.
    await answered(client, conversation, 1)
    await until_waiting(client, conversation, 1)
    clock.advance(3)
    await sending


async def test_a_command_flushes_the_debounce_before_it(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("One.")]), VirtualClock(NOON)
    async with debounced(tmp_path, model, clock) as (_, client, conversation):
        sending = asyncio.create_task(post(client, conversation, "First"))
        await until_waiting(client, conversation, 1)
        listed = await client.post(f"/conversations/{conversation}/commands", {"text": "/queue"})
        assert listed["answer"].splitlines()[0] == "1. First"
        [command] = [packet for packet in await client.send(conversation, "/new") if packet["type"] == "command"]
        assert (await sending).json()["answer"] == "One."
        sessions = (await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"]
        assert (command["name"], sessions[1]["begins_after"]) == ("new", (await sending).json()["id"])


async def test_a_pending_debounce_and_a_queue_outlive_the_server(tmp_path: Path) -> None:
    model, clock = ScriptedModel([[deltas.TextDelta(0, "Half"), Gate()]]), VirtualClock(NOON)
    key = {"headers": {"Idempotency-Key": "key-1"}}
    async with debounced(tmp_path, model, clock, debounce_ms=0) as (app, client, conversation):
        async with client.sending(conversation, "First") as events:
            await until(events, "text.delta")
            async with client.sending(conversation, "Second", debounce_ms=3000) as second:
                await until(second, "turn.queued")
                await post(client, conversation, "and more", debounce_ms=3000, **key)
                await post(client, conversation, "/new")
                await post(client, conversation, "Third")
                await app.chat.close()
                [told] = await rest_of(second)
                assert (told["type"], told["error"]["code"]) == ("error", "overloaded")
        assert model.left == 1
        assert len(await waiting(client, conversation)) == 4
    model.then(saying("Two."), saying("Three."))
    async with debounced(tmp_path, model, clock) as (app, client, _):
        turns = await answered(client, conversation, 3)
        assert [turn["text"] for turn in turns] == ["First", "Second\n\nand more", "Third"]
        again = await post(client, conversation, "and more", debounce_ms=3000, **key)
        assert again.json()["id"] == turns[1]["id"]
        sessions = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert sessions[1].begins_after == turns[1]["id"]
