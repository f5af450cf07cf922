"""Branches: an edited message, one asked again, and going on from any answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


class Talk:
    """A conversation with a scripted model; every answer repeats its number."""

    def __init__(self, client: ServerClient, model: ScriptedModel, conversation: str) -> None:
        self.client, self.model, self.conversation, self.count = client, model, conversation, 0

    async def say(self, text: str = "", **fields: object) -> Object:
        """A turn, as the list of turns shows it."""
        self.count += 1
        self.model.then(saying(f"Answer {self.count}."))
        packets = await self.client.send(self.conversation, text, **fields)  # type: ignore[arg-type]
        return await self.client.get(f"/turns/{packets[0]['turn_id']}")

    async def shown(self) -> list[tuple[str, str]]:
        """The path: texts and answers."""
        found = await self.client.get(f"/conversations/{self.conversation}/turns?order=asc")
        return [(turn["text"], turn["answer"]) for turn in found["data"]]

    def sent(self) -> list[bytes]:
        """The blocks of the last request."""
        return [block.data for block in self.model.requests[-1].blocks]


@pytest.fixture
async def talk(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Talk]:
    model = ScriptedModel()
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        yield Talk(client, model, await client.conversation())


async def test_an_edited_message_is_a_sibling(talk: Talk) -> None:
    first = await talk.say("One")
    second = await talk.say("Two")
    edited = await talk.say("Two, better", parent_message_id=first["runs"][0]["message_id"])
    assert edited["parent_id"] == first["id"]
    assert await talk.shown() == [("One", "Answer 1."), ("Two, better", "Answer 3.")]
    path = await talk.client.get(f"/conversations/{talk.conversation}/turns")
    assert path["data"][0]["siblings"] == [second["id"], edited["id"]]
    assert not any(b"Answer 2." in block for block in talk.sent())
    tree = await talk.client.get(f"/conversations/{talk.conversation}/tree")
    assert {node["id"] for node in tree["data"]} == {first["id"], second["id"], edited["id"]}
    assert tree["head"] == edited["id"]


async def test_the_first_message_can_be_edited(talk: Talk) -> None:
    await talk.say("One")
    await talk.say("Uno", parent_message_id=None)
    assert await talk.shown() == [("Uno", "Answer 2.")]
    await talk.say("Due")
    assert [text for text, _ in await talk.shown()] == ["Uno", "Due"]


async def test_a_turn_is_asked_again_with_its_files(talk: Talk) -> None:
    upload = await talk.client.http.post("/api/v1/files", files={"file": ("a.txt", b"Fact: 42.")})
    file_id = upload.json()["id"]
    first = await talk.say("What is the fact?", file_ids=[file_id])
    again = await talk.say(regenerate=first["id"])
    assert (again["text"], again["parent_id"]) == ("What is the fact?", None)
    assert [d["file_id"] for d in again["documents"]] == [file_id]
    numbers = [d["document"] for turn in (first, again) for d in turn["documents"]]
    assert len(numbers) == 2
    assert len(set(numbers)) == 1, "a file is one document of the conversation"


async def test_a_branch_that_is_gone_back_to_has_the_same_prefix(talk: Talk) -> None:
    await talk.say("One")
    second = await talk.say("Two")
    before = talk.sent()
    await talk.say("Uno", parent_message_id=None)
    answer = await talk.client.call("POST", f"/turns/{second['id']}/prefer", json={})
    assert answer.status_code == 200
    await talk.say("Three")
    assert [text for text, _ in await talk.shown()] == ["One", "Two", "Three"]
    assert talk.sent()[: len(before)] == before


async def test_foreign_places_are_not_found(talk: Talk) -> None:
    await talk.say("One")
    other = await talk.client.conversation()
    turns = f"/conversations/{other}/turns"
    [turn] = (await talk.client.get(f"/conversations/{talk.conversation}/turns"))["data"]
    for fields in ({"parent_message_id": turn["user_message_id"], "text": "x"}, {"regenerate": turn["id"]}):
        assert (await talk.client.call("POST", turns, json=fields)).status_code == 404
    body = {"regenerate": turn["id"], "text": "x"}
    answer = await talk.client.call("POST", f"/conversations/{talk.conversation}/turns", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "regenerate")
    assert (await talk.client.call("POST", f"/turns/{turn['id']}/prefer", json={"run_id": "run_x"})).status_code == 404
    assert (await talk.client.call("POST", "/runs/run_x/stop")).status_code == 404


async def test_a_branch_from_an_older_session_has_its_window(talk: Talk) -> None:
    await talk.say("One")
    second = await talk.say("Two")
    before = talk.sent()
    await talk.client.call("POST", f"/conversations/{talk.conversation}/new")
    third = await talk.say("Three")
    assert not any(b"One" in block for block in talk.sent())
    # Going on from the second turn is after /new; beside it is before.
    await talk.say("Two again", parent_message_id=second["parent_run_id"])
    assert talk.sent()[: len(before) - 1] == before[:-1]
    sessions = (await talk.client.get(f"/conversations/{talk.conversation}/sessions?order=asc"))["data"]
    assert [session["opened_by"] for session in sessions] == ["created", "new", "branch"]
    assert sessions[2]["parent_id"] == sessions[0]["id"]
    await talk.client.call("POST", f"/turns/{third['id']}/prefer", json={})
    await talk.say("Four")
    assert not any(b"One" in block for block in talk.sent())
    assert any(b"Three" in block for block in talk.sent())
    sessions = (await talk.client.get(f"/conversations/{talk.conversation}/sessions?order=asc"))["data"]
    assert [session["current"] for session in sessions] == [False, True, False]


async def test_another_place_is_refused_while_it_answers(talk: Talk) -> None:
    first = await talk.say("One")
    await talk.say("Two")
    found = await talk.client.get(f"/conversations/{talk.conversation}")
    assert found["head"] != first["id"]
    gone = await talk.client.call("POST", f"/turns/{first['id']}/prefer", json={})
    assert gone.json()["head"] == first["id"]
    again = await talk.client.call("POST", f"/turns/{first['id']}/prefer", json={})
    assert again.json()["head"] == first["id"]
    _ = LOCAL_OWNER


async def test_figures_are_those_of_the_branch_that_is_followed(talk: Talk) -> None:
    """The gauge, `/status` and why a request read what it read: nothing of another branch."""
    first = await talk.say("One")
    small, large = Usage(input=1_000, cache_read=700), Usage(input=9_000, cache_read=2_000)
    talk.model.then(saying("Small.", usage=small))
    two = (await talk.client.send(talk.conversation, "Two"))[0]["turn_id"]
    talk.model.then(saying("Large.", usage=large))
    run = first["runs"][0]["id"]
    other = (await talk.client.send(talk.conversation, "Two, better", parent_message_id=run))[0]["turn_id"]
    for turn, usage in ((two, small), (other, large), (two, small)):
        prefer = {"run_id": (await talk.client.get(f"/turns/{turn}"))["runs"][0]["id"]}
        assert (await talk.client.call("POST", f"/turns/{turn}/prefer", json=prefer)).status_code == 200
        gauge = await talk.client.get(f"/conversations/{talk.conversation}/context")
        assert (gauge["input"], gauge["read"], gauge["estimate"]) == (usage.input, usage.cache_read, False)
        said = await talk.client.call("POST", f"/conversations/{talk.conversation}/commands", json={"text": "/status"})
        assert said.json()["data"]["context"] == usage.input
        said = await talk.client.call("POST", f"/conversations/{talk.conversation}/commands", json={"text": "/why"})
        [request] = (await talk.client.get(f"/turns/{turn}/requests"))["data"]
        assert said.json()["data"]["request_id"] == request["id"]
