"""Projects over HTTP: instructions and files that every conversation of a project has in its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import App
from lamella.core.messages import ToolCall
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

from .asking import error_of, patched, settings, window

pytestmark = pytest.mark.anyio


async def uploaded(client: ServerClient, *names: str) -> list[str]:
    """The ids of small files of these names."""
    return [(await client.upload(name, f"What {name} says.".encode()))["id"] for name in names]


def held(project: Object) -> list[str]:
    return [file["name"] for file in project["files"]]


def shown(mapped: Object) -> str:
    """The project's text in a window, as far as the map shows it."""
    [text] = [segment["text_preview"] for segment in mapped["segments"] if segment["kind"] == "project"]
    return str(text)


async def test_a_project_is_kept_edited_and_removed(client: ServerClient) -> None:
    one, two = await uploaded(client, "a.txt", "b.txt")
    made = await client.post("/projects", {"name": "Plan", "instructions": "Be exact.", "file_ids": [two, one]})
    assert made["id"].startswith("proj_")
    assert (made["object"], made["instructions"], held(made), made["revision"]) == (
        "project",
        "Be exact.",
        ["b.txt", "a.txt"],
        1,
    )
    assert made["tokens"] == sum(file["tokens"] for file in made["files"]) > 0
    assert set(made["files"][0]) == {"id", "name", "media_type", "tokens", "status"}
    path = f"/projects/{made['id']}"
    assert await client.get(path) == made
    changed = await patched(client, path, name="Other plan", file_ids=[one])
    assert (changed["name"], changed["instructions"], held(changed), changed["revision"]) == (
        "Other plan",
        "Be exact.",
        ["a.txt"],
        2,
    )
    assert await patched(client, path, file_ids=[one]) == changed
    assert (await client.get("/projects"))["data"] == [changed]
    assert (await client.call("DELETE", path)).status_code == 204
    error_of(await client.call("GET", path), 404, "not_found", "project_id")
    assert len((await client.get("/files"))["data"]) == 2


async def test_files_are_put_in_and_taken_out_one_by_one(client: ServerClient) -> None:
    one, two = await uploaded(client, "a.txt", "b.txt")
    made = await client.post("/projects", {"name": "Plan"})
    path = f"/projects/{made['id']}/files"
    for file_id in (two, one, two):
        put = await client.post(path, {"file_id": file_id})
    assert (held(put), put["revision"]) == (["b.txt", "a.txt"], 3)
    taken = (await client.call("DELETE", f"{path}/{two}")).json()
    assert (held(taken), taken["revision"]) == (["a.txt"], 4)
    error_of(await client.call("DELETE", f"{path}/{two}"), 404, "not_found", "file_id")
    assert (await client.get(f"/projects/{made['id']}"))["revision"] == 4


async def bad_file(client: ServerClient, kind: str) -> str:
    """The id of a file that no project can hold."""
    if kind == "failed":
        return str((await client.upload("broken.pdf", b"%PDF-1.4 broken"))["id"])
    return "file_nobody"


@pytest.mark.parametrize(
    ("kind", "status", "says"),
    [("failed", 400, "could not be read"), ("unknown", 404, "There is no file")],
)
async def test_a_file_that_a_project_cannot_hold_is_refused(
    client: ServerClient, kind: str, status: int, says: str
) -> None:
    made = await client.post("/projects", {"name": "Plan"})
    wrong = await bad_file(client, kind)
    for method, path, body in (
        ("POST", "/projects", {"name": "Other", "file_ids": [wrong]}),
        ("PATCH", f"/projects/{made['id']}", {"file_ids": [wrong]}),
        ("POST", f"/projects/{made['id']}/files", {"file_id": wrong}),
    ):
        answer = await client.call(method, path, json=body)
        error = error_of(answer, status, "invalid_request" if status == 400 else "not_found", "file_ids")
        assert says in error["message"]
        assert error["hint"] or status == 404
    assert (await client.get("/projects"))["data"] == [made]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": " "}, "name"),
        ({"name": None}, "name"),
        ({"name": "P", "instructions": None}, "instructions"),
        ({"name": "P", "file_ids": "file_1"}, "file_ids"),
        ({"name": "P", "file_ids": ["f", "f"]}, "file_ids"),
        ({"name": "P", "file_ids": [f"file_{n}" for n in range(101)]}, "file_ids"),
        ({"name": "P", "owner": "user_bob"}, "owner"),
    ],
)
async def test_a_project_that_cannot_be_is_refused(client: ServerClient, body: Any, param: str) -> None:
    error = error_of(await client.call("POST", "/projects", json=body), 400, "invalid_request", param)
    assert error["hint"]
    assert (await client.get("/projects"))["data"] == []


async def test_a_key_makes_one_project(client: ServerClient) -> None:
    answers = [
        await client.call("POST", "/projects", json=body, headers={"Idempotency-Key": "k"})
        for body in ({"name": "P", "file_ids": ["file_x"]}, {"name": "P"}, {"name": "P"}, {"name": "Q"})
    ]
    assert [answer.status_code for answer in answers] == [404, 201, 201, 422]
    assert answers[1].json() == answers[2].json()


@pytest.mark.parametrize(("layout", "letters"), [("lamella", "S P U1"), ("onyx", "S P U1")])
async def test_a_conversation_of_a_project_has_it_in_its_window(
    client: ServerClient, app: App, model: ScriptedModel, layout: str, letters: str
) -> None:
    model.then(saying("It says so [1]."))
    files = await uploaded(client, "a.txt", "b.txt")
    project = await client.post("/projects", {"name": "Plan", "instructions": "Be exact.", "file_ids": files})
    conversation = await client.conversation(project_id=project["id"], layout=layout)
    packets = await client.send(conversation, "What does it say?")
    mapped = await window(client, packets)
    assert mapped["letters"] == letters
    assert "Be exact." in shown(mapped)
    [decision] = await settings(app, conversation)
    assert (decision.subject, decision.outcome) == ("project", f"{project['id']}@1")
    assert decision.first_changed == (project["id"] if layout == "lamella" else None)
    [citation] = [packet for packet in packets if packet["type"] == "citation"]
    assert citation["file_id"] == files[0]


async def test_agent_project_files_and_question_stand_in_the_order_of_the_layout(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then(saying("One."), saying("Two."), saying("Three."), saying("Four."))
    [held_file, sent] = await uploaded(client, "a.txt", "b.txt")
    agent = await client.post("/agents", {"name": "Editor", "prompt": "You edit.", "reminder": "Be kind."})
    project = await client.post("/projects", {"name": "Plan", "file_ids": [held_file]})
    found = []
    for layout in ("lamella", "onyx"):
        conversation = await client.conversation(project_id=project["id"], agent_id=agent["id"], layout=layout)
        first = await client.send(conversation, "Hello", file_ids=[sent])
        second = await client.send(conversation, "And now?")
        found.append([(await window(client, packets))["letters"] for packets in (first, second)])
    assert found == [
        ["S CA P F U1 R", "S CA P F U1 A1 U2 R"],
        ["S CA P F U1 R", "S F U1 A1 CA P U2 R"],
    ]


def documents(packets: Sequence[Object]) -> dict[str, int]:
    """The numbers of the files that a turn was sent with."""
    return {one["title"]: one["document"] for one in packets[0]["documents"]}


async def test_a_document_has_one_number_that_no_other_gets(client: ServerClient, model: ScriptedModel) -> None:
    model.then(*(saying("Yes.") for _ in range(4)))
    one, two, three, four = await uploaded(client, "a.txt", "b.txt", "c.txt", "d.txt")
    project = await client.post("/projects", {"name": "Plan", "file_ids": [one, two]})
    path = f"/projects/{project['id']}"
    conversation = await client.conversation(project_id=project["id"])
    packets = await client.send(conversation, "Hello", file_ids=[three])
    assert documents(packets) == {"c.txt": 3}
    before = shown(await window(client, packets))
    assert '"document":1,"title":"a.txt"' in before
    await patched(client, path, file_ids=[four, three])
    packets = await client.send(conversation, "And now?", file_ids=[three, one])
    assert documents(packets) == {"c.txt": 3, "a.txt": 1}
    held = shown(await window(client, packets))
    assert '"document":4,"title":"d.txt"' in held
    assert '"document":3,"title":"c.txt"' in held
    await patched(client, path, file_ids=[one, two])
    packets = await client.send(conversation, "And again?")
    assert shown(await window(client, packets)) == before


async def test_a_file_that_was_taken_out_is_gone_from_the_next_turn_and_recorded(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(saying("One."), saying("Two."), saying("Three."))
    one, two = await uploaded(client, "a.txt", "b.txt")
    project = await client.post("/projects", {"name": "Plan", "file_ids": [one, two]})
    conversation = await client.conversation(project_id=project["id"])
    await client.send(conversation, "Hello")
    await client.call("DELETE", f"/projects/{project['id']}/files/{one}")
    assert (await client.call("DELETE", f"/files/{one}")).status_code == 204
    mapped = await window(client, await client.send(conversation, "And now?"))
    assert "a.txt" not in shown(mapped)
    assert '"document":2,"title":"b.txt"' in shown(mapped)
    last = (await settings(app, conversation))[-1]
    assert (last.outcome, last.first_changed) == (f"{project['id']}@2", project["id"])
    assert last.why == "the project “Plan” was edited: this is revision 2"
    await client.call("DELETE", f"/projects/{project['id']}")
    mapped = await window(client, await client.send(conversation, "And without it?"))
    assert mapped["letters"] == "S U1 A1 U2 A2 U3"
    last = (await settings(app, conversation))[-1]
    assert (last.outcome, last.first_changed) == ("none", project["id"])
    assert "was deleted" in last.why


async def test_a_project_is_chosen_and_let_go(client: ServerClient) -> None:
    project = await client.post("/projects", {"name": "Plan"})
    conversation = await client.conversation()
    path = f"/conversations/{conversation}"
    assert (await patched(client, path, project_id=project["id"]))["project_id"] == project["id"]
    assert (await patched(client, path, title="T"))["project_id"] == project["id"]
    assert (await patched(client, path, project_id=None))["project_id"] is None
    answer = await client.call("PATCH", path, json={"project_id": "proj_nobody"})
    error_of(answer, 404, "not_found", "project_id")


LARGE = replace(FACTS, name="large", window=200_000)
SMALL = replace(FACTS, name="small", window=12_000, max_output=1_000)


async def test_a_model_that_is_too_small_for_a_project_searches_it_and_the_project_says_so(tmp_path: Path) -> None:
    large, small = ScriptedModel(facts=LARGE), ScriptedModel(facts=SMALL)
    async with served(read_settings(data=tmp_path), models=ScriptedModels(large, small)) as (_, client):
        note = (await client.upload("note.txt", b"The mast is 62 m high."))["id"]
        book = (await client.upload("book.txt", b"Words that fill a window. " * 3_000))["id"]
        project = (await client.post("/projects", {"name": "Masts", "file_ids": [note, book]}))["id"]
        conversation = await client.conversation(project_id=project, model=LARGE.name)
        for model, where in ((LARGE, "in_context"), (SMALL, "searched"), (LARGE, "in_context")):
            found = await client.get(f"/projects/{project}?model={model.name}")
            assert [file["availability"] for file in found["files"]] == ["in_context", where]
            assert model.name in found["files"][1]["why"]
            # What is said of the project is what the next request does.
            await patched(client, f"/conversations/{conversation}", model=model.name)
            mapped = await client.post("/context/preview", {"conversation_id": conversation, "text": "How high?"})
            listed = [one["text"] for one in mapped["notes"] if "book.txt" in one["text"]]
            assert bool(listed) == (where == "searched")
        whole = await client.get(f"/projects/{project}?model={SMALL.name}&layout=onyx")
        assert [file["availability"] for file in whole["files"]] == ["searched", "searched"]

        small.then(
            calling(ToolCall("call_1", "knowledge_base_search", '{"query": "mast"}')), saying("It is 62 m high.")
        )
        await patched(client, f"/conversations/{conversation}", model=SMALL.name)
        packets = await client.send(conversation, "How high is the mast?")
        [result] = [packet for packet in packets if packet["type"] == "tool.result"]
        assert not result["is_error"]
        error_of(await client.call("GET", f"/projects/{project}?model=gone"), 400, "invalid_request", "model")
