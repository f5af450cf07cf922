"""Threads of frontends: which messages are new, where they go, whose they are, and what happens if a client leaves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from lamella.app.app import App
from lamella.core.messages import ToolCall
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server that asks for no titles: the script has the answers alone."""
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as opened:
        yield opened


Sent = tuple[str, str, str]
"""Id, role and text of a message."""


def chat_body(messages: list[Sent], thread: str = "thread", **more: Any) -> Object:
    parts = [{"id": id, "role": role, "parts": [{"type": "text", "text": text}]} for id, role, text in messages]
    return {"id": thread, "messages": parts, "trigger": "submit-message", **more}


def run_body(messages: list[Sent], thread: str = "thread", **more: Any) -> Object:
    sent = [{"id": id, "role": role, "content": text} for id, role, text in messages]
    forwarded = {name: value for name, value in more.items() if name in ("append", "resumable", "model")}
    others = {name: value for name, value in more.items() if name not in forwarded}
    return {"threadId": thread, "runId": "run", "messages": sent, "forwardedProps": forwarded, **others}


Door = tuple[str, Callable[..., Object]]
DOORS: list[Door] = [("/ui/chat", chat_body), ("/agui", run_body)]
both = pytest.mark.parametrize("door", DOORS, ids=["ui-chat", "agui"])


def events_of(answer: httpx2.Response) -> list[Object]:
    assert answer.status_code == 200, answer.text
    frames = [frame.removeprefix("data: ") for frame in answer.text.split("\n\n") if frame.startswith("data: ")]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def message_id(events: list[Object]) -> str:
    """The id of the assistant's message."""
    return next(str(one["messageId"]) for one in events if one["type"] in ("start", "TEXT_MESSAGE_START"))


async def asked(client: ServerClient, door: Door, messages: list[Sent], **more: Any) -> list[Object]:
    path, body = door
    return events_of(await client.call("POST", path, json=body(messages, **more)))


def said(model: ScriptedModel, number: int = -1) -> str:
    """All texts of a request to the model."""
    return "\n".join(str(block.value.get("text", "")) for block in model.requests[number].blocks)


async def tree(client: ServerClient) -> list[tuple[str, str | None, str]]:
    """The turns of the one conversation, oldest first: text, text of the parent, status."""
    [conversation] = (await client.get("/conversations"))["data"]
    turns = (await client.get(f"/conversations/{conversation['id']}/tree?order=asc"))["data"]
    texts = {turn["id"]: turn["text"] for turn in turns}
    return [(turn["text"], texts.get(turn["parent_id"]), turn["status"]) for turn in turns]


@both
async def test_each_new_message_follows_what_the_client_shows(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    """A second message, an edit of it, another answer to the edit, and a message after that."""
    model.then(saying("Green."), saying("Two."), saying("Half."), saying("Less."), saying("Gladly."))
    first: Sent = ("u1", "user", "The lamp?")
    a1: Sent = (message_id(await asked(client, door, [first])), "assistant", "Green.")
    await asked(client, door, [first, a1, ("u2", "user", "The ships?")])
    edited: Sent = ("u2", "user", "The oil?")
    await asked(client, door, [first, a1, edited])
    again = await asked(client, door, [first, a1, edited])
    await asked(client, door, [first, a1, edited, (message_id(again), "assistant", "Less."), ("u3", "user", "Thanks")])
    lamp, oil = "The lamp?", "The oil?"
    asks = [(lamp, None), ("The ships?", lamp), (oil, lamp), (oil, lamp), ("Thanks", oil)]
    assert await tree(client) == [(*one, "finished") for one in asks]
    last = said(model)
    assert all(text in last for text in (lamp, "Green.", oil, "Less.", "Thanks"))
    assert not any(text in last for text in ("The ships?", "Two.", "Half."))


@both
async def test_a_message_that_was_never_answered_goes_along_with_the_next(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    model.then(saying("Yes."), saying("Gladly."))
    lost: Sent = ("u1", "user", "Are you there?")
    events = await asked(client, door, [lost, ("u2", "user", "Hello?")])
    assert await tree(client) == [("Are you there? Hello?", None, "finished")]
    history: list[Sent] = [lost, ("u2", "user", "Hello?"), (message_id(events), "assistant", "Yes.")]
    await asked(client, door, [*history, ("u3", "user", "Thanks")])
    assert (await tree(client))[1][:2] == ("Thanks", "Are you there? Hello?")


@both
async def test_what_is_not_stored_here_goes_along_as_dynamic_context(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    model.then(saying("Yes."))
    greeting: Sent = ("hello", "assistant", "What may I light?")
    await asked(
        client, door, [greeting, ("u0", "user", "Wait."), ("turn_no", "assistant", "I wait."), ("u", "user", "That.")]
    )
    assert "assistant: What may I light?\n\nuser: Wait.\n\nassistant: I wait." in said(model)
    assert await tree(client) == [("That.", None, "finished")]


@both
async def test_instructions_of_the_application_go_along_as_dynamic_context(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    model.then(saying("Yes."))
    await asked(client, door, [("s", "system", "Speak of lamps only."), ("u", "user", "Hi")])
    assert "Speak of lamps only." in said(model)


async def test_context_and_state_of_a_run_go_along_as_dynamic_context(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then(saying("Yes."))
    context = [{"description": "The hour", "value": "It is noon."}]
    more = {"context": context, "state": {"lamp": "green", "at": 3}}
    await asked(client, DOORS[1], [("d", "developer", "Be brief."), ("u", "user", "Hi")], **more)
    assert all(text in said(model) for text in ("Be brief.", "The hour:\nIt is noon.", '{"at":3,"lamp":"green"}'))


@both
async def test_new_messages_alone_follow_the_current_position(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    model.then(saying("Green."), saying("Two."), saying("Half."))
    await asked(client, door, [("u1", "user", "The lamp?")])
    await asked(client, door, [("u2", "user", "The ships?")], append=True)
    conversation = (await client.get("/conversations"))["data"][0]["id"]
    await asked(client, door, [("u3", "user", "The oil?")], thread=conversation, append=True)
    assert [one[:2] for one in await tree(client)] == [
        ("The lamp?", None),
        ("The ships?", "The lamp?"),
        ("The oil?", "The ships?"),
    ]


@both
async def test_a_thread_whose_conversation_was_deleted_begins_again(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    model.then(saying("Green."), saying("Gladly."))
    first: Sent = ("u1", "user", "The lamp?")
    answer: Sent = (message_id(await asked(client, door, [first])), "assistant", "Green.")
    conversation = (await client.get("/conversations"))["data"][0]["id"]
    assert (await client.call("DELETE", f"/conversations/{conversation}")).status_code == 204
    await asked(client, door, [first, answer, ("u2", "user", "Thanks")])
    assert await tree(client) == [("Thanks", None, "finished")]
    assert "user: The lamp?\n\nassistant: Green." in said(model)


# Owners


@both
async def test_the_ids_of_two_owners_never_meet(client: ServerClient, model: ScriptedModel, door: Door) -> None:
    """The same thread, the same ids of messages, and even the ids of the other's turn and conversation."""
    address = str(client.http.base_url)
    async with connected(address, authorization=f"Bearer {await client.set_up('Ann')}") as ann:
        key = (await ann.post("/users", {"name": "Bob"}))["key"]["secret"]
        async with connected(address, authorization=f"Bearer {key}") as bob:
            model.then(saying("Falcon."), saying("None."), saying("None."))
            first: Sent = ("u1", "user", "The code word?")
            events = await asked(ann, door, [first])
            anns = (await ann.get("/conversations"))["data"][0]["id"]
            await asked(bob, door, [first])
            await asked(bob, door, [first, (message_id(events), "assistant", ""), ("u2", "user", "And now?")])
            assert all("Falcon" not in said(model, number) for number in (1, 2))
            assert len(await tree(ann)) == 1
            assert len((await bob.get("/conversations"))["data"]) == 1
            path, body = door
            refused = await bob.call("POST", path, json=body([first], thread=anns))
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
            for method, end in (("GET", "stream"), ("POST", "stop")):
                assert (await bob.call(method, f"/ui/chat/{anns}/{end}")).status_code == 404


async def test_a_foreign_call_cannot_be_approved(client: ServerClient, model: ScriptedModel) -> None:
    for approval in ("turn_no:3:c1", "turn_no", "x:1:c"):
        part = {"type": "dynamic-tool", "state": "approval-responded", "approval": {"id": approval, "approved": True}}
        body = {"id": "thread", "messages": [{"id": "a", "role": "assistant", "parts": [part]}]}
        answer = await client.call("POST", "/ui/chat", json=body)
        assert answer.status_code == 404, answer.text
        resume = [{"interruptId": approval, "status": "resolved", "payload": {"approved": True}}]
        answer = await client.call("POST", "/agui", json=run_body([], resume=resume))
        assert answer.status_code == 404, answer.text


async def test_pages_of_other_origins_are_refused(client: ServerClient) -> None:
    for path, body in DOORS:
        answer = await client.call(
            "POST", path, json=body([("u", "user", "Hi")]), headers={"origin": "https://evil.example"}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")


# Leaving


async def _left(client: ServerClient, door: Door, gate: Gate, **more: Any) -> None:
    """Ask, and leave when the model has said something."""
    path, body = door
    async with client.http.stream("POST", f"/api/v1{path}", json=body([("u1", "user", "Tell me")], **more)) as answer:
        async for line in answer.aiter_lines():
            if "Once" in line:
                break
    assert gate.reached.is_set()


@both
async def test_a_turn_stops_if_the_client_leaves_and_the_next_message_waits_for_it(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    gate = Gate()
    model.then([*saying("Once ")[:1], gate, *saying("upon.")], saying("Gladly."))
    await _left(client, door, gate)
    await asked(client, door, [("u1", "user", "Tell me"), ("u2", "user", "Thanks")])
    assert await tree(client) == [("Tell me", None, "stopped"), ("Thanks", "Tell me", "finished")]
    assert "Once" in said(model)


@both
async def test_a_resumable_turn_goes_on_and_is_followed_from_its_beginning(
    client: ServerClient, model: ScriptedModel, door: Door
) -> None:
    gate = Gate()
    model.then([*saying("Once ")[:1], gate, *saying("upon a time.")])
    assert (await client.call("GET", "/ui/chat/thread/stream")).status_code == 204
    await _left(client, door, gate, resumable=True)
    following = asyncio.create_task(client.call("GET", "/ui/chat/thread/stream"))
    await asyncio.sleep(0.05)
    gate.opened.set()
    answer = await following
    text = "".join(one["delta"] for one in events_of(answer) if one["type"] == "text-delta")
    assert (text, answer.headers["x-vercel-ai-ui-message-stream"]) == ("Once upon a time.", "v1")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert (await client.call("GET", "/ui/chat/thread/stream")).status_code == 204
    assert await tree(client) == [("Tell me", None, "finished")]


async def test_a_run_without_a_new_message_follows_the_turn_that_runs(
    client: ServerClient, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then(saying("Green."), [*saying("Once ")[:1], gate, *saying("upon a time.")])
    first: Sent = ("u0", "user", "The lamp?")
    a1: Sent = (message_id(await asked(client, DOORS[1], [first])), "assistant", "Green.")
    path, body = DOORS[1]
    sent = body([first, a1, ("u1", "user", "Tell me")], resumable=True)
    async with client.http.stream("POST", f"/api/v1{path}", json=sent) as answer:
        async for line in answer.aiter_lines():
            if "Once" in line:
                break
    following = asyncio.create_task(asked(client, DOORS[1], []))
    await asyncio.sleep(0.05)
    gate.opened.set()
    events = await following
    snapshot = next(one for one in events if one["type"] == "MESSAGES_SNAPSHOT")
    assert [one["content"] for one in snapshot["messages"]] == ["The lamp?", "Green.", "Tell me"]
    assert "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT") == "Once upon a time."
    assert events[-1]["type"] == "RUN_FINISHED"


async def test_a_chat_is_stopped_by_name(client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([*saying("Once ")[:1], gate, *saying("upon.")])
    asking = asyncio.create_task(client.call("POST", "/ui/chat", json=chat_body([("u1", "user", "Tell me")])))
    await gate.reached.wait()
    assert (await client.call("POST", "/ui/chat/thread/stop")).status_code == 204
    chunks = events_of(await asking)
    assert {"type": "abort", "reason": "user_cancelled"} in chunks
    assert (await client.call("POST", "/ui/chat/thread/stop")).status_code == 204
    assert (await client.call("POST", "/ui/chat/unknown/stop")).status_code == 204


@both
async def test_a_thread_that_still_answers_is_busy(client: ServerClient, model: ScriptedModel, door: Door) -> None:
    gate = Gate()
    model.then([*saying("Once ")[:1], gate, *saying("upon.")])
    await _left(client, door, gate, resumable=True)
    path, body = door
    answer = await client.call("POST", path, json=body([("u1", "user", "Tell me"), ("u2", "user", "Thanks")]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "turn_in_progress")
    gate.opened.set()


async def test_two_first_messages_at_once_are_one_conversation(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("One."), saying("Two."))
    bodies = [chat_body([(id, "user", text)]) for id, text in (("u1", "First"), ("u2", "Second"))]
    answers = await asyncio.gather(*(client.call("POST", "/ui/chat", json=body) for body in bodies))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len((await client.get("/conversations"))["data"]) == 1


async def test_a_thread_goes_on_from_the_answer_that_was_chosen(tmp_path: Path, anyio_backend: str) -> None:
    """A conversation of the page, in which two models answered side by side."""
    one, two = (ScriptedModel(facts=replace(FACTS, name=name)) for name in ("one", "two"))
    one.then(saying("Green."), saying("Gladly."))
    two.then(saying("Red."))
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(one, two)) as (_, client):
        conversation = await client.conversation()
        await client.send(conversation, "The lamp?", models=["one", "two"])
        turn = (await client.get(f"/conversations/{conversation}/turns"))["data"][0]
        await client.post(f"/turns/{turn['id']}/prefer", {"run_id": turn["runs"][1]["id"]})
        events = await asked(client, DOORS[1], [], thread=conversation)
        snapshot = next(one for one in events if one["type"] == "MESSAGES_SNAPSHOT")
        shown: list[Sent] = [(one["id"], one["role"], one["content"]) for one in snapshot["messages"]]
        assert [text for _, _, text in shown] == ["The lamp?", "Red."]
        await asked(client, DOORS[1], [*shown, ("u2", "user", "Thanks")], thread=conversation, model="one")
        assert "Red." in said(one)
        assert "Green." not in said(one)


# Tools of the application

LOOK = {"look": {"description": "Looks.", "inputSchema": {"type": "object"}}}
TOOLS = [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]
ASKED: Object = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "The lamp?"}]}


def ui_call(id: str, **state: Any) -> Object:
    """A part of the assistant's message: a call of the application's tool."""
    return {"type": "tool-look", "toolCallId": id, "input": {}, **state}


def results(model: ScriptedModel) -> list[tuple[str, str]]:
    """The results in the newest request to the model."""
    blocks = [block.value for block in model.requests[-1].blocks if block.value.get("type") == "tool_result"]
    return [(str(block["tool_use_id"]), str(block["content"])) for block in blocks]


async def test_a_chat_goes_on_with_the_results_of_its_own_tools(client: ServerClient, model: ScriptedModel) -> None:
    """Twice in one message of the assistant, then a question; each as the client sends itself."""
    model.then(calling(ToolCall("c1", "look", "{}")), calling(ToolCall("c2", "look", "{}")), saying("Green."))
    model.then(saying("Gladly."))
    body: Object = {"id": "t", "messages": [ASKED], "tools": LOOK}
    chunks = events_of(await client.call("POST", "/ui/chat", json=body))
    assert chunks[-1]["finishReason"] == "tool-calls"
    assert not any("providerExecuted" in one for one in chunks)
    id = message_id(chunks)
    parts = [{"type": "step-start"}, ui_call("c1", state="output-available", output={"lamp": "green"})]
    for number, part in ((1, ui_call("c2", state="output-error", errorText="It is dark.")), (2, None)):
        body["messages"] = [ASKED, {"id": id, "role": "assistant", "parts": parts}]
        chunks = events_of(await client.call("POST", "/ui/chat", json=body))
        assert message_id(chunks) == id, "the message goes on"
        parts += [{"type": "step-start"}, *([part] if part else [])]
        assert len(results(model)) == number
    assert results(model) == [("c1", '{"lamp":"green"}'), ("c2", "It is dark.")]
    thanks = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks"}]}
    body["messages"] = [ASKED, {"id": id, "role": "assistant", "parts": parts}, thanks]
    events_of(await client.call("POST", "/ui/chat", json=body))
    assert all(text in said(model) for text in ("The lamp?", "Green.", "Thanks"))
    assert [one[0] for one in await tree(client)] == ["The lamp?", "", "", "Thanks"]
    model.then(saying("Green, again."))
    chunks = events_of(await client.call("POST", "/ui/chat", json={**body, "messages": body["messages"][:2]}))
    assert "Green, again." in [one.get("delta") for one in chunks], "the same results again are answered again"


async def test_a_run_goes_on_with_the_results_of_its_own_tools(client: ServerClient, model: ScriptedModel) -> None:
    model.then(calling(ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")), saying("Green."), saying("Green."))
    asked_first = {"id": "u1", "role": "user", "content": "The lamp?"}
    body = run_body([]) | {"messages": [asked_first], "tools": TOOLS}
    events = events_of(await client.call("POST", "/agui", json=body))
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1", "c2"]}
    parent = next(one["parentMessageId"] for one in events if one["type"] == "TOOL_CALL_START")
    gave = [{"id": f"r{n}", "role": "tool", "toolCallId": f"c{n}", "content": f"green {n}"} for n in (1, 2)]
    body["messages"] = [asked_first, {"id": parent, "role": "assistant"}, *gave]
    for _ in range(2):  # sent again, as after a broken connection, it begins a branch
        events_of(await client.call("POST", "/agui", json=body))
        assert results(model) == [("c1", "green 1"), ("c2", "green 2")]
    turns = await tree(client)
    assert [(one[0], one[1]) for one in turns] == [("The lamp?", None), ("", "The lamp?"), ("", "The lamp?")]
    snapshot = next(one for one in await asked(client, DOORS[1], []) if one["type"] == "MESSAGES_SNAPSHOT")
    assert [one["role"] for one in snapshot["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_a_question_leaves_calls_open(client: ServerClient, model: ScriptedModel) -> None:
    """With one result of two, and with none."""
    model.then(calling(ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")), saying("Yes."), saying("Yes."))
    body: Object = {"id": "t", "messages": [ASKED], "tools": LOOK}
    id = message_id(events_of(await client.call("POST", "/ui/chat", json=body)))
    thanks = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks"}]}
    for first in ({"state": "output-available", "output": "green"}, {"state": "input-available"}):
        parts = [ui_call("c1", **first), ui_call("c2", state="input-available")]
        body["messages"] = [ASKED, {"id": id, "role": "assistant", "parts": parts}, thanks]
        events_of(await client.call("POST", "/ui/chat", json=body))
        given = dict(results(model))
        assert given.keys() == {"c1", "c2"}
        assert ("green" in given["c1"]) == ("output" in first)


# Files and refusals

PLAIN = "data:text/plain;base64," + base64.b64encode(b"The lamp is green.").decode()


def ui_file(url: str, **more: Any) -> Object:
    part = {"type": "file", "mediaType": "text/plain", "filename": "lamp.txt", "url": url, **more}
    return {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "What is in it?"}, part]}


async def test_files_of_a_message_are_uploaded_once(client: ServerClient, model: ScriptedModel, app: App) -> None:
    model.then(*(saying("Green.") for _ in range(4)))
    for _ in range(2):
        events_of(await client.call("POST", "/ui/chat", json={"id": "thread", "messages": [ui_file(PLAIN)]}))
    [file] = (await client.get("/files"))["data"]
    assert (file["name"], file["media_type"]) == ("lamp.txt", "text/plain")
    assert "The lamp is green." in said(model)
    url = f"https://chat.example/api/v1/files/{file['id']}/content"
    events_of(await client.call("POST", "/ui/chat", json={"id": "other", "messages": [ui_file(url)]}))
    source = {"type": "data", "value": PLAIN.partition(",")[2], "mimeType": "text/plain"}
    content = [{"type": "text", "text": "And this?"}, {"type": "document", "source": source}]
    body = run_body([]) | {"messages": [{"id": "m", "role": "user", "content": content}]}
    events_of(await client.call("POST", "/agui", json=body))
    assert sorted(one["name"] for one in (await client.get("/files"))["data"]) == ["file.txt", "lamp.txt"]


async def test_a_thread_may_hold_more_than_a_message_can(client: ServerClient, model: ScriptedModel) -> None:
    """The files of earlier messages come with each request."""
    model.then(saying("Green."), saying("Gladly."))
    large = "data:text/plain," + "The lamp is green.%0A" * 230_000
    sent = ui_file("data:text/plain,The lamp")
    answer = message_id(events_of(await client.call("POST", "/ui/chat", json={"id": "t", "messages": [sent]})))
    shown = [
        ui_file(large),
        {"id": answer, "role": "assistant", "parts": []},
        chat_body([("u2", "user", "Hi")])["messages"][0],
    ]
    events_of(await client.call("POST", "/ui/chat", json={"id": "t", "messages": shown}))
    assert len((await client.get("/files"))["data"]) == 1


U: Object = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
A: Object = {"id": "u", "role": "user", "content": "Hi"}
SCHEMA = "tools.look.inputSchema"
RUN: Object = {"threadId": "t", "runId": "r", "messages": [A]}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/ui/chat", {"messages": [U]}, "id"),
        ("/ui/chat", {"id": "t", "messages": []}, "messages"),
        ("/ui/chat", {"id": "t", "messages": [U, {"id": "a", "role": "assistant", "parts": []}]}, "messages"),
        ("/ui/chat", {"id": "t", "messages": [U | {"role": "tool"}]}, "messages.0.role"),
        ("/ui/chat", {"id": "t", "messages": [U | {"parts": [{"type": "data-x", "data": 1}]}]}, "messages.0.parts.0"),
        ("/ui/chat", {"id": "t", "messages": [U], "temperature": 1}, "temperature"),
        ("/ui/chat", {"id": "t", "messages": [U], "trigger": "resume-stream"}, "trigger"),
        ("/ui/chat", {"id": "t", "messages": [U], "model": "nobody"}, "model"),
        ("/ui/chat", {"id": "t", "messages": [U], "thinking_effort": "much"}, "thinking_effort"),
        ("/ui/chat", {"id": "t", "messages": [ui_file("https://x.example/a.txt")]}, "messages.0.parts.1.url"),
        ("/ui/chat", {"id": "t", "messages": [ui_file("data:text/plain;base64,!")]}, "messages.0.parts.1.url"),
        ("/ui/chat", {"id": "t", "messages": [ui_file("data:text/plain;base64,ü")]}, "messages.0.parts.1.url"),
        ("/agui", RUN | {"messages": [A | {"content": [{"type": "text"}]}]}, "messages.0.content.0"),
        ("/ui/chat", {"id": "t", "messages": [U], "tools": {"no name": {}}}, "tools.no name.name"),
        ("/agui", RUN | {"tools": [{"name": "no name", "description": ""}]}, "tools.0.name"),
        ("/ui/chat", {"id": "t", "messages": [ui_file(PLAIN, filename="\ud800")]}, "messages.0.parts.1.filename"),
        (
            "/ui/chat",
            {"id": "t", "messages": [U], "tools": {"look": {"inputSchema": {"\ud800": 1}}}},
            "tools.look.inputSchema",
        ),
        ("/agui", RUN | {"state": {"lamp": "\ud800"}}, "state.lamp"),
        (
            "/agui",
            RUN | {"messages": [A | {"content": [{"type": "text", "text": "\ud800"}]}]},
            "messages.0.content.0.text",
        ),
        ("/agui", {"runId": "r", "messages": [A]}, "threadId"),
        ("/agui", {"threadId": "t", "messages": [A]}, "runId"),
        ("/agui", RUN | {"messages": [A | {"role": "robot"}]}, "messages.0.role"),
        (
            "/agui",
            RUN | {"messages": [A | {"content": [{"type": "x"}]}]},
            "messages.0.content.0",
        ),
        (
            "/agui",
            RUN | {"forwardedProps": {"mood": 1}},
            "forwardedProps.mood",
        ),
        (
            "/agui",
            RUN | {"context": [{"value": "x"}]},
            "context.0.description",
        ),
        (
            "/agui",
            RUN | {"messages": [], "resume": [{"interruptId": "i", "status": "resolved"}]},
            "resume.payload",
        ),
    ],
)
async def test_what_cannot_be_done_is_named_and_nothing_is_stored(
    client: ServerClient, model: ScriptedModel, path: str, body: Object, param: str
) -> None:
    answer = await client.call("POST", path, content=json.dumps(body), headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert (await client.get("/conversations"))["data"] == []
    assert model.requests == []


async def test_a_run_without_a_new_message_gives_those_of_the_thread(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then(calling(ToolCall("c1", "read_file", '{"file_id":"file_no"}')), saying("None."))
    events = await asked(client, DOORS[1], [("u1", "user", "What is in it?")])
    [snapshot] = [one for one in await asked(client, DOORS[1], []) if one["type"] == "MESSAGES_SNAPSHOT"]
    user, call, result, answer = snapshot["messages"]
    assert (user["role"], user["content"]) == ("user", "What is in it?")
    assert call["toolCalls"][0]["function"] == {"name": "read_file", "arguments": '{"file_id":"file_no"}'}
    assert (result["toolCallId"], answer["content"]) == ("c1", "None.")
    begun = [one for one in events if one["type"] in ("TOOL_CALL_START", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START")]
    assert [call["id"], result["id"], answer["id"]] == [
        one.get("parentMessageId", one.get("messageId")) for one in begun
    ]
    assert await asked(client, DOORS[1], [], thread="nobody's") == [
        {"type": "RUN_STARTED", "threadId": "nobody's", "runId": "run", "protocolVersion": "1.0"},
        {"type": "MESSAGES_SNAPSHOT", "messages": []},
        {"type": "RUN_FINISHED", "threadId": "nobody's", "runId": "run", "outcome": {"type": "success"}},
    ]
    assert len((await client.get("/conversations"))["data"]) == 1
