"""A look at the request that a message would make: the same window, and nothing stored."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import App
from lamella.core import deltas
from lamella.core.json import encode
from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.server.testing import Object, ServerClient

from .asking import error_of, window

pytestmark = pytest.mark.anyio


def stored(data: Path) -> list[str]:
    """Everything in the database, as SQL, but what is stored in the background of what was said and uploaded before."""
    behind = re.compile(r'INSERT INTO "?(recall_|knowledge_|postings|cache_entries|jobs|sqlite_)')
    with closing(sqlite3.connect(data / "lamella.db")) as connection:
        return [line for line in connection.iterdump() if not behind.match(line)]


def essence(mapped: Object) -> list[Any]:
    """What a window is, whatever the ids of its turn are."""
    return [
        [segment[name] for name in ("kind", "zone", "owner", "label", "letters", "text_preview", "blocks")]
        for segment in mapped["segments"]
    ]


async def test_a_preview_is_the_window_that_the_message_gets(
    client: ServerClient, app: App, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("One."), saying("Two."))
    files = [(await client.upload(f"{name}.txt", f"The text of {name}.".encode()))["id"] for name in "abcd"]
    agent = await client.post("/agents", {"name": "Editor", "prompt": "You edit.", "reminder": "Be kind."})
    project = await client.post("/projects", {"name": "Plan", "file_ids": files[:2]})
    conversation = await client.conversation(agent_id=agent["id"], project_id=project["id"])
    asked: Object = {"conversation_id": conversation}
    for fields in (
        {"text": "Hello", "file_ids": files[2:3], "dynamic_context": ["You are in Rome."]},
        {"text": "And now?", "file_ids": files[3:], "timezone": "Asia/Tokyo", "layout": "onyx", "agent_id": None},
    ):
        before = stored(tmp_path)
        ahead = await client.post("/context/preview", asked | fields)
        assert stored(tmp_path) == before
        assert (ahead["id"], ahead["turn_id"], ahead["usage"], ahead["cost"]) == (None, None, None, None)
        assert all(not segment["measured"] for segment in ahead["segments"])
        sent = dict(fields)
        mapped = await window(client, await client.send(conversation, str(sent.pop("text")), **sent))
        assert essence(mapped) == essence(ahead)
        assert set(mapped) == set(ahead)
        for name in ("letters", "layout", "marker_policy", "estimate", "budget", "predicted", "absent"):
            assert mapped[name] == ahead[name], name
        assert [note["text"] for note in mapped["notes"]] == [note["text"] for note in ahead["notes"]]
    assert len(model.requests) == 2


async def test_a_preview_says_what_is_absent(client: ServerClient) -> None:
    conversation = await client.conversation()
    ahead = await client.post("/context/preview", {"conversation_id": conversation, "text": "Hello"})
    absent = {one["kind"]: one["why"] for one in ahead["absent"]}
    assert {"agent", "project", "files", "dynamic"} <= absent.keys()
    assert all(absent.values())


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"text": ""}, 400, "text"),
        ({"text": "a", "conversation_id": "conv_nobody"}, 404, "conversation_id"),
        ({"text": "a", "conversation_id": None}, 400, "conversation_id"),
        ({"text": "a", "file_ids": ["file_nobody"]}, 404, "file_ids"),
        ({"text": "a", "layout": "sideways"}, 400, "layout"),
        ({"text": "a", "marker_policy": "everywhere"}, 400, "marker_policy"),
        ({"text": "a", "model": "nobody"}, 400, "model"),
        ({"text": "a", "agent_id": "agent_nobody"}, 404, "agent_id"),
        ({"text": "a", "timezone": "Mars/Olympus"}, 400, "timezone"),
        ({"text": "a", "models": ["scripted"]}, 400, "models"),
    ],
)
async def test_a_preview_that_cannot_be_is_refused(client: ServerClient, fields: Any, status: int, param: str) -> None:
    body = {"conversation_id": await client.conversation()} | fields
    answer = await client.call("POST", "/context/preview", json=body)
    error_of(answer, status, "invalid_request" if status == 400 else "not_found", param)


async def test_a_conversation_that_answers_has_no_next_request_yet(client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([deltas.TextDelta(0, "Half"), gate, *saying("and whole.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "Hello") as events:
        await gate.reached.wait()
        answer = await client.call("POST", "/context/preview", json={"conversation_id": conversation, "text": "a"})
        error_of(answer, 409, "turn_in_progress", None)
        gate.opened.set()
        async for _ in events:
            pass
    ahead = await client.post("/context/preview", {"conversation_id": conversation, "text": "a"})
    assert ahead["letters"] == "S U1 A1 U2"


async def test_the_bytes_of_a_preview_are_counted_not_sent(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    ahead = await client.post("/context/preview", {"conversation_id": conversation, "text": "Hello " * 500})
    assert ahead["estimate"] == sum(segment["tokens"] for segment in ahead["segments"])
    assert model.requests == []
    assert encode(ahead)
