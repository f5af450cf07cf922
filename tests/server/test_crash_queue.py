"""A server that dies while messages and commands wait: the next one does each once, in the order of the queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lamella.server.testing import Object

from .processes import Server, started, stuck

pytestmark = [pytest.mark.anyio, pytest.mark.long]

JSON = {"accept": "application/json"}
KEYED = {**JSON, "Idempotency-Key": "third"}
TOGETHER = {"debounce_ms": 60_000}
PATIENCE = 60.0
"""The most seconds for what takes a moment on a machine that has little to do."""


async def turns(server: Server, path: str) -> list[Object]:
    found: list[Object] = (await server.client.get(f"{path}/turns?order=asc"))["data"]
    return found


async def all_done(server: Server, path: str) -> list[Object]:
    """The turns, when nothing waits and none runs."""
    async with asyncio.timeout(PATIENCE):
        while True:
            waiting = (await server.client.get(f"{path}/queue"))["data"]
            found = await turns(server, path)
            if not waiting and len(found) == 4 and found[-1]["status"] != "running":
                return found
            await asyncio.sleep(0.05)


async def send(server: Server, path: str, body: Object, headers: dict[str, str] = JSON) -> Object:
    """Send what has to wait; gives its row."""
    answer = await server.client.call("POST", f"{path}/turns", json=body, headers=headers)
    assert answer.status_code == 202
    row: Object = answer.json()
    return row


async def fill(server: Server, path: str) -> str:
    """Messages of all kinds and a command, behind an answer that runs; gives the command's id."""
    await send(server, path, {"text": "Second", **TOGETHER})
    await send(server, path, {"text": "Third", **TOGETHER}, KEYED)
    command = await send(server, path, {"text": "/new"})
    never = await send(server, path, {"text": "Never"})
    await server.client.call("DELETE", f"{path}/queue/{never['id']}")
    wrong = await send(server, path, {"text": "Fuorth"})
    await server.client.call("PATCH", f"{path}/queue/{wrong['id']}", json={"text": "Fourth"})
    await send(server, path, {"text": "Last"})
    waiting = (await server.client.get(f"{path}/queue"))["data"]
    assert [one["text"] for one in waiting] == ["Second", "Third", "/new", "Fourth", "Last"]
    return str(command["id"])


async def test_what_waited_in_a_killed_server_is_done_once_and_in_order(tmp_path: Path) -> None:
    async with started(*stuck(tmp_path)) as server:
        conversation = await server.client.conversation()
        path = f"/conversations/{conversation}"
        async with server.client.sending(conversation, "First") as events:
            await anext(events)
            command_id = await fill(server, path)
            server.kill()

    async with started(*stuck(tmp_path, "It goes on.")) as server:
        again = await server.client.call("POST", f"{path}/turns", json={"text": "Third", **TOGETHER}, headers=KEYED)
        assert again.status_code in (200, 202)
        found = await all_done(server, path)
        assert [turn["text"] for turn in found] == ["First", "Second\n\nThird", "Fourth", "Last"]
        assert [turn["status"] for turn in found] == ["interrupted", "finished", "finished", "finished"]
        assert [turn["answer"] for turn in found[1:]] == ["It goes on."] * 3
        sessions = (await server.client.get(f"{path}/sessions?order=asc"))["data"]
        assert [session["begins_after"] for session in sessions] == [None, found[1]["id"]]
        ran = await server.client.get(f"{path}/queue/{command_id}")
        assert (ran["status"], ran["kind"]) == ("begun", "command")
        assert [one["name"] for one in (await server.client.get(f"{path}/commands"))["data"]] == ["new"]
