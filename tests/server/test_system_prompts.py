"""Versions of the system prompt over HTTP: written, gone back to, and pinned to conversations."""

from __future__ import annotations

from typing import Any

import pytest

from lamella.app.app import App
from lamella.context.system_prompt import STATIC_SECTIONS, static_text
from lamella.llm.scripted import FACTS, ScriptedModel, saying
from lamella.server.testing import Object, ServerClient

from .asking import error_of, patched, settings, window

pytestmark = pytest.mark.anyio


async def versions(client: ServerClient, query: str = "") -> tuple[list[int], bool]:
    page = await client.get(f"/system-prompts{query}")
    return [one["version"] for one in page["data"]], page["has_more"]


def system_of(mapped: Object) -> str:
    [text] = [segment["text_preview"] for segment in mapped["segments"] if segment["kind"] == "system"]
    return str(text)


async def test_the_one_that_ships_is_version_0(client: ServerClient) -> None:
    shipped = await client.get("/system-prompts/current")
    assert (shipped["object"], shipped["version"], shipped["shipped"], shipped["created_at"]) == (
        "system_prompt",
        0,
        True,
        None,
    )
    assert shipped["text"] == static_text(STATIC_SECTIONS)
    assert await client.get("/system-prompts/0") == shipped
    assert (await client.get("/system-prompts"))["data"] == [shipped]


async def test_versions_are_written_and_gone_back_to(client: ServerClient) -> None:
    first = await client.post("/system-prompts", {"text": "Be brief.", "note": "shorter"})
    assert (first["version"], first["text"], first["note"], first["shipped"]) == (1, "Be brief.", "shorter", False)
    assert first["created_at"]
    back = await client.post("/system-prompts", {"text": static_text(STATIC_SECTIONS)})
    assert (back["version"], back["shipped"]) == (2, True)
    assert await client.get("/system-prompts/current") == back
    assert await client.get("/system-prompts/1") == first
    error_of(await client.call("GET", "/system-prompts/3"), 404, "not_found", "system_prompt_version")


async def test_pages_go_to_the_one_that_ships(client: ServerClient) -> None:
    for number in range(1, 4):
        await client.post("/system-prompts", {"text": f"Text {number}"})
    assert await versions(client) == ([3, 2, 1, 0], False)
    for order, pages in (("desc", [[3], [2], [1], [0]]), ("asc", [[0], [1], [2], [3]])):
        after, found = "", []
        while True:
            page, more = await versions(client, f"?limit=1&order={order}{after}")
            found.append(page)
            after = f"&after={page[-1]}"
            if not more:
                break
        assert found == pages
    assert await versions(client, "?limit=3") == ([3, 2, 1], True)
    assert await versions(client, "?limit=3&after=1") == ([0], False)
    assert await versions(client, "?after=0") == ([], False)
    assert await versions(client, "?order=asc&limit=3") == ([0, 1, 2], True)
    error_of(await client.call("GET", "/system-prompts?after=x"), 400, "invalid_request", "after")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": None}, "text"),
        ({"text": "T", "version": 7}, "version"),
        ({"text": "T", "note": "n" * 1001}, "note"),
        ({"text": "word " * FACTS.window}, "text"),
    ],
)
async def test_a_text_that_cannot_be_one_is_refused(client: ServerClient, body: Any, param: str) -> None:
    error = error_of(await client.call("POST", "/system-prompts", json=body), 400, "invalid_request", param)
    assert error["hint"]
    assert await versions(client) == ([0], False)


@pytest.mark.parametrize("version", ["-1", "x", "1.5", "9" * 30])
async def test_what_is_no_version_is_refused(client: ServerClient, version: str) -> None:
    error_of(await client.call("GET", f"/system-prompts/{version}"), 400, "invalid_request", "version")


async def test_a_key_writes_one_version(client: ServerClient) -> None:
    answers = [
        await client.call("POST", "/system-prompts", json={"text": text}, headers={"Idempotency-Key": "k"})
        for text in ("Be brief.", "Be brief.", "Be long.")
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 422]
    assert await versions(client) == ([1, 0], False)


async def test_a_conversation_keeps_its_version_until_it_is_moved(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(*(saying("Yes.") for _ in range(4)))
    old = await client.conversation()
    await client.post("/system-prompts", {"text": "Be brief."})
    new = await client.post("/conversations", {})
    assert new["system_prompt_version"] == 1
    assert (await client.get(f"/conversations/{old}"))["system_prompt_version"] == 0
    assert system_of(await window(client, await client.send(new["id"], "Hello"))) == "Be brief."
    before = system_of(await window(client, await client.send(old, "Hello")))
    assert before != "Be brief."
    moved = await patched(client, f"/conversations/{old}", system_prompt_version=1)
    assert moved["system_prompt_version"] == 1
    assert await patched(client, f"/conversations/{old}", system_prompt_version=1)
    assert system_of(await window(client, await client.send(old, "And now?"))) == "Be brief."
    [decision] = await settings(app, old)
    assert (decision.subject, decision.outcome, decision.first_changed) == ("system", "1", "system")
    await patched(client, f"/conversations/{old}", system_prompt_version=0)
    assert system_of(await window(client, await client.send(old, "And now?"))) == before
    for wrong, status in ((9, 404), (-1, 400), ("1", 400)):
        answer = await client.call("PATCH", f"/conversations/{old}", json={"system_prompt_version": wrong})
        error_of(answer, status, "not_found" if status == 404 else "invalid_request", "system_prompt_version")
