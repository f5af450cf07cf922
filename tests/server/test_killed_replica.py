"""Two servers on one PostgreSQL database: what one of them does is gone on with by the other when it is killed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lamella.server.testing import Object
from postgres import PostgresServer

from .processes import Server, started, stuck

pytestmark = [pytest.mark.anyio, pytest.mark.long]

JSON = {"accept": "application/json"}
MOST = 15.0
"""The most seconds that anything stands still after a kill."""


def settings_of(postgres: PostgresServer) -> dict[str, str]:
    """The environment of servers that share a database. Nobody listens at the address of Redis."""
    return {
        "LAMELLA_DATABASE_URL": postgres.url(postgres.copied()),
        "LAMELLA_REDIS_URL": "redis://127.0.0.1:9/0",
        "LAMELLA_TITLES": "false",
    }


@asynccontextmanager
async def two(postgres: PostgresServer, folder: Path) -> AsyncIterator[tuple[Server, Server]]:
    """A server whose tool never comes back, and one that answers."""
    shared = settings_of(postgres)
    async with (
        started(*stuck(folder), **shared) as one,
        started(*stuck(folder, "It goes on."), **shared) as other,
    ):
        yield one, other


async def turns(server: Server, path: str) -> list[Object]:
    found: list[Object] = (await server.client.get(f"{path}/turns?order=asc"))["data"]
    return found


async def send(server: Server, path: str, text: str) -> None:
    answer = await server.client.call("POST", f"{path}/turns", json={"text": text}, headers=JSON)
    assert answer.status_code == 202, answer.text


async def all_done(server: Server, path: str, count: int) -> list[Object]:
    async with asyncio.timeout(MOST):
        while True:
            found = await turns(server, path)
            if len(found) == count and all(turn["finished_at"] for turn in found):
                return found
            await asyncio.sleep(0.05)


async def hanging(server: Server, conversation: str) -> None:
    """Send what hangs in its second tool call; what was said until then is journaled."""
    answer = asyncio.create_task(server.client.send(conversation, "First"))
    answer.add_done_callback(lambda task: task.cancelled() or task.exception())
    async with asyncio.timeout(MOST):
        while True:
            found = await turns(server, f"/conversations/{conversation}")
            if found and found[0]["status"] == "running":
                break
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)


async def test_the_other_one_ends_the_turn_and_answers_the_queue(postgres: PostgresServer, tmp_path: Path) -> None:
    async with two(postgres, tmp_path) as (one, other):
        conversation = await one.client.conversation()
        path = f"/conversations/{conversation}"
        await hanging(one, conversation)
        for server, text in ((one, "Second"), (other, "Third"), (one, "Fourth"), (other, "Fifth")):
            await send(server, path, text)
        one.kill()
        killed = time.monotonic()
        found = await all_done(other, path, 5)
        assert time.monotonic() - killed < MOST
        assert [turn["text"] for turn in found] == ["First", "Second", "Third", "Fourth", "Fifth"]
        assert [turn["status"] for turn in found] == ["interrupted", *["finished"] * 4]
        assert [turn["answer"] for turn in found[1:]] == ["It goes on."] * 4
        assert found[0]["answer"] == "First.\n\nThen.", "what was streamed is kept"
        assert (await other.client.get(f"{path}/queue"))["data"] == []


async def test_a_server_that_was_stopped_for_long_wakes_up_without_its_turn(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with two(postgres, tmp_path) as (one, other):
        conversation = await one.client.conversation()
        path = f"/conversations/{conversation}"
        await hanging(one, conversation)
        await send(other, path, "Second")
        one.process.send_signal(signal.SIGSTOP)
        found = await all_done(other, path, 2)
        one.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(3.0)
        assert await turns(one, path) == found, "it changed nothing"
        await send_and_wait(one, other, path)


async def send_and_wait(one: Server, other: Server, path: str) -> None:
    """The one that woke up serves again: a message to it is answered, or waits for the other."""
    answer = await one.client.call("POST", f"{path}/turns", json={"text": "/context"}, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert (await other.client.get(f"{path}/commands"))["data"]
