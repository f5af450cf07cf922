"""`/abort` holds from the moment that a message's request begins: before its turn has an id, while it begins, while it
waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import App
from lamella.chat.dynamic_context import Blocks, BlockScope
from lamella.chat.message import ExecutionRequest
from lamella.core import deltas
from lamella.core.clock import VirtualClock
from lamella.core.json import encode
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

from .stage import types

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STOPPED = ["turn.started", "turn.stopped", "turn.finished"]


@dataclass
class Slow:
    """A deployment's block that takes as long as its gate is closed."""

    gate: Gate = field(default_factory=Gate)
    name: str = "slow"
    order: int = 0

    async def block(self, scope: BlockScope) -> str | None:
        await self.gate.passed()
        return "It rains."


@asynccontextmanager
async def opened(
    folder: Path, model: ScriptedModel, blocks: Blocks | None = None, clock: VirtualClock | None = None, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    parts: dict[str, Any] = {"models": ScriptedModels(model), "blocks": blocks}
    if clock is not None:
        parts["clock"] = clock
    async with served(read_settings(data=folder, **settings), **parts) as (app, client):
        yield app, client, await client.conversation()


async def abort(client: ServerClient, conversation: str, text: str = "/abort", where: str = "commands") -> Object:
    options: Any = {"headers": {"accept": "application/json"}}
    return await client.post(f"/conversations/{conversation}/{where}", {"text": text}, **options)


async def turns_of(client: ServerClient, conversation: str) -> list[Object]:
    found: list[Object] = (await client.get(f"/conversations/{conversation}/turns?order=asc"))["data"]
    return found


async def waiting(client: ServerClient, conversation: str, count: int) -> None:
    """Come back when so many messages wait."""
    async with asyncio.timeout(10):
        while True:
            if len((await client.get(f"/conversations/{conversation}/queue"))["data"]) == count:
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def raw_post(client: ServerClient, path: str, body: Object) -> AsyncIterator[asyncio.StreamReader]:
    """A request whose bytes are all with the server when the block begins, over a connection that was open before."""
    address = urlsplit(str(client.http.base_url))
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    data = encode(body)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
    writer.write(head.encode() + f"content-length: {len(data)}\r\n\r\n".encode() + data)
    try:
        yield reader
    finally:
        writer.close()


OFTEN = (*range(16), 20, 25, 30, 40, 50)
"""Milliseconds between a message and its `/abort`."""


@pytest.mark.parametrize(
    ("length", "debounce", "offsets"), [(20, 0, OFTEN), (20, 25, OFTEN), (100_000, 0, (0, 2, 5, 10, 20, 50))]
)
async def test_an_abort_holds_at_every_moment_after_the_post(
    tmp_path: Path, length: int, debounce: int, offsets: tuple[int, ...]
) -> None:
    model = ScriptedModel()
    text = ("Why is that so? " * (length // 16 + 1)).strip()
    async with opened(tmp_path, model, debounce_ms=debounce) as (_, client, _):
        for offset in offsets:
            conversation = await client.conversation()
            model.then([deltas.TextDelta(0, "Half"), Gate()])
            path = f"/api/v1/conversations/{conversation}/turns"
            async with raw_post(client, path, {"text": text}) as answer:
                await asyncio.sleep(offset / 1000)
                said = await abort(client, conversation)
                assert said["data"]["stopped"], (offset, said)
                received = await asyncio.wait_for(answer.read(), 30)
            assert b"event: turn.stopped" in received or b'"turn.stopped"' in received, offset
            [turn] = await turns_of(client, conversation)
            assert (turn["status"], turn["text"]) == ("stopped", text), offset


@pytest.mark.parametrize("where", ["commands", "turns"])
async def test_an_abort_holds_while_the_server_makes_a_message_ready(tmp_path: Path, where: str) -> None:
    model, slow = ScriptedModel([saying("Never.")]), Slow()
    async with opened(tmp_path, model, Blocks([slow])) as (_, client, conversation):
        sending = asyncio.create_task(client.send(conversation, "Hello?"))
        await slow.gate.reached.wait()
        said = await abort(client, conversation, where=where)
        assert said["answer"] == "Stopped before the model was asked. The message stays in the conversation."
        slow.gate.opened.set()
        assert types(await sending) == STOPPED
        [turn] = await turns_of(client, conversation)
        assert (turn["status"], turn["text"]) == ("stopped", "Hello?")
        assert model.requests == []
        # It held for that message alone.
        assert types(await client.send(conversation, "And now?"))[-1] == "turn.finished"
        assert len(model.requests) == 1


async def test_an_abort_holds_for_messages_of_the_other_doors(tmp_path: Path) -> None:
    model, slow = ScriptedModel([saying("Never.")]), Slow()
    async with opened(tmp_path, model, Blocks([slow])) as (app, client, conversation):
        body: Any = {"input": "Hello?", "model": "scripted", "conversation": conversation}
        sending = asyncio.create_task(client.http.post("/v1/responses", json=body))
        await slow.gate.reached.wait()
        assert (await abort(client, conversation))["data"]["stopped"]
        slow.gate.opened.set()
        await sending
        slow.gate = Gate()
        asked = ExecutionRequest(text="Hello again?", conversation_id=conversation)
        running = asyncio.create_task(app.run(asked, LOCAL_IDENTITY))
        await slow.gate.reached.wait()
        assert (await abort(client, conversation))["data"]["stopped"]
        slow.gate.opened.set()
        assert (await running).status.value == "stopped"
        assert [(turn["status"], turn["text"]) for turn in await turns_of(client, conversation)] == [
            ("stopped", "Hello?"),
            ("stopped", "Hello again?"),
        ]
    assert model.requests == []


async def test_an_abort_holds_for_what_waits_for_more(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("Here.")]), VirtualClock(NOON)
    async with opened(tmp_path, model, clock=clock, debounce_ms=60_000) as (_, client, conversation):
        first = asyncio.create_task(client.send(conversation, "One"))
        await waiting(client, conversation, 1)
        second = asyncio.create_task(client.send(conversation, "Two"))
        await waiting(client, conversation, 2)
        said = await abort(client, conversation)
        assert said["answer"] == "Stopped before the model was asked. The message stays in the conversation."
        assert (said["data"]["stopped"], said["data"]["waiting"]) == (True, 0)
        for packets in await asyncio.gather(first, second):
            assert types(packets) == ["turn.queued", *STOPPED]
        [turn] = await turns_of(client, conversation)
        assert (turn["status"], turn["text"]) == ("stopped", "One\n\nTwo")
        assert model.requests == []
        # What comes after it does not join what was stopped.
        assert types(await client.send(conversation, "Three", debounce_ms=0))[-1] == "turn.finished"
        assert [turn["text"] for turn in await turns_of(client, conversation)] == ["One\n\nTwo", "Three"]


async def test_what_waits_behind_an_answer_that_is_aborted_is_answered_next(tmp_path: Path) -> None:
    gate = Gate()
    model = ScriptedModel([[deltas.TextDelta(0, "Half"), gate], saying("The second.")])
    async with opened(tmp_path, model) as (_, client, conversation):
        first = asyncio.create_task(client.send(conversation, "One"))
        await asyncio.wait_for(gate.reached.wait(), 10)
        second = asyncio.create_task(client.send(conversation, "Two", debounce_ms=0))
        await waiting(client, conversation, 1)
        said = await abort(client, conversation, "/stop")
        assert said["name"] == "stop"
        assert said["answer"].splitlines()[0] == "Stopped. The partial answer is kept."
        assert (said["data"]["stopped"], said["data"]["waiting"]) == (True, 1)
        assert "turn.stopped" in types(await first)
        assert types(await second)[-1] == "turn.finished"
        assert [turn["status"] for turn in await turns_of(client, conversation)] == ["stopped", "finished"]


async def test_aborts_that_come_together_find_nothing_to_stop(tmp_path: Path) -> None:
    """A command on its way is no message, whatever door it comes by."""
    async with opened(tmp_path, ScriptedModel()) as (_, client, conversation):
        asked = [abort(client, conversation, text, "turns") for text in ("/abort", "/stop", "/cancel") * 4]
        for said in await asyncio.gather(*asked):
            assert (said["answer"], said["data"]) == (
                "No answer runs.",
                {"turn_id": None, "stopped": False, "waiting": 0},
            )


async def test_an_abort_of_a_message_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    model, slow = ScriptedModel([saying("Here.")]), Slow()
    async with opened(tmp_path, model, Blocks([slow])) as (_, client, conversation):
        body = {"text": "Hello?", "models": ["no-such-model"]}
        sending = asyncio.create_task(client.call("POST", f"/conversations/{conversation}/turns", json=body))
        await slow.gate.reached.wait()
        await abort(client, conversation)
        slow.gate.opened.set()
        assert (await sending).status_code == 400
        assert types(await client.send(conversation, "And now?"))[-1] == "turn.finished"
        assert (await abort(client, conversation))["answer"] == "No answer runs."
