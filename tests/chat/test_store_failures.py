"""A database that refuses work in the middle of a turn: always a visible error, never an empty history.

The refusals are the database's own: triggers that abort what they see, and tables that are gone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from databases import change, healed, losing, refusing, rows
from lamella.core import deltas
from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.server.testing import ServerClient

from .stage import only, text_of, types
from .test_stop import until

pytestmark = pytest.mark.anyio

NO_ENDS = ("UPDATE OF status", "turns")


async def test_a_turn_that_cannot_be_saved_says_so_and_is_saved_later(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("An ", "answer."), saying("Another."))
    conversation = await client.conversation()
    await change(tmp_path, refusing(*NO_ENDS))
    async with client.sending(conversation, "Hello?") as events:
        seen = await until(events, "error")
        assert text_of(seen) == "An answer."
        error = seen[-1]["error"]
        assert (error["code"], "could not be saved yet" in error["message"]) == ("store_failed", True)
        assert "saved as soon as" in error["hint"]
        turn_id = seen[0]["turn_id"]
        assert (await client.get(f"/turns/{turn_id}"))["status"] == "running"
        message = {"text": "And now?", "queue": False}
        refused = await client.call("POST", f"/conversations/{conversation}/turns", json=message)
        assert refused.json()["error"]["code"] == "turn_in_progress"
        await change(tmp_path, healed())
        rest = [event.packet async for event in events if event.n is not None]
    assert types(rest) == ["turn.finished"]
    turn = await client.get(f"/turns/{turn_id}")
    assert (turn["status"], turn["answer"]) == ("finished", "An answer.")
    assert await client.packets(turn_id) == seen + rest
    assert text_of(await client.send(conversation, "And now?")) == "Another."


async def test_packets_that_cannot_be_stored_are_streamed_and_stored_later(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("An ", "answer."))
    conversation = await client.conversation()
    await change(tmp_path, refusing("INSERT", "journal"))
    async with client.sending(conversation, "Hello?") as events:
        seen = await until(events, "error")
        await change(tmp_path, healed())
        rest = [event.packet async for event in events if event.n is not None]
    assert text_of(seen) == "An answer."
    assert only(rest, "turn.finished")["status"] == "finished"
    assert await client.packets(seen[0]["turn_id"]) == seen + rest


async def test_a_request_that_cannot_be_stored_is_not_sent(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("Now it works."))
    conversation = await client.conversation()
    await change(tmp_path, refusing("INSERT", "requests"))
    packets = await client.send(conversation, "Hello?")
    assert only(packets, "error")["error"]["code"] == "store_failed"
    assert only(packets, "turn.finished")["status"] == "failed"
    assert model.requests == []
    await change(tmp_path, healed())
    turn = await client.get(f"/turns/{packets[0]['turn_id']}")
    assert (turn["status"], turn["error"]["code"]) == ("failed", "store_failed")
    assert text_of(await client.send(conversation, "Once more.")) == "Now it works."


async def test_a_message_that_cannot_be_stored_is_refused_whole(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("Now it works."))
    conversation = await client.conversation()
    await change(tmp_path, refusing("INSERT", "turns"))
    answer = await client.call("POST", f"/conversations/{conversation}/turns", json={"text": "Hello?"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "store_failed")
    assert [rows(tmp_path, f"SELECT * FROM {table}") for table in ("turns", "messages", "journal")] == [[], [], []]
    await change(tmp_path, healed())
    assert text_of(await client.send(conversation, "Hello?")) == "Now it works."


async def test_the_stop_of_a_turn_that_cannot_be_saved_is_not_forgotten(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then([deltas.TextDelta(0, "Half"), Gate()])
    conversation = await client.conversation()
    async with client.sending(conversation, "Hello?") as events:
        seen = await until(events, "text.delta")
        await change(tmp_path, refusing(*NO_ENDS))
        await client.post(f"/turns/{seen[0]['turn_id']}/stop")
        seen += await until(events, "error")
        await change(tmp_path, healed())
        rest = [event.packet async for event in events if event.n is not None]
    assert types(rest) == ["turn.stopped", "turn.finished"]
    assert (await client.get(f"/turns/{seen[0]['turn_id']}"))["answer"] == "Half"


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("messages", "/conversations/{conversation}/turns"),
        ("messages", "/turns/{turn}"),
        ("journal", "/turns/{turn}/events"),
        ("requests", "/turns/{turn}/requests"),
        ("requests", "/conversations/{conversation}/context"),
        ("blocks", "/requests/{request}/map"),
        ("blocks", "/requests/{request}/raw"),
        ("conversations", "/conversations"),
        ("files", "/files"),
    ],
)
async def test_what_cannot_be_read_is_an_error_and_never_empty(
    client: ServerClient, model: ScriptedModel, tmp_path: Path, table: str, path: str
) -> None:
    model.then(saying("An answer."))
    conversation = await client.conversation()
    packets = await client.send(conversation, "Hello?")
    ids = {"conversation": conversation, "turn": packets[0]["turn_id"]}
    ids["request"] = only(packets, "request.started")["request_id"]
    await change(tmp_path, losing(table))
    answer = await client.call("GET", path.format(**ids))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["message"]) == (500, "store_failed", "The database lacks a table.")
    assert error["hint"]
    assert "sql" not in answer.text.lower()


async def test_a_history_that_cannot_be_read_is_not_answered_from_nothing(
    client: ServerClient, model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("An answer."), saying("From nothing."))
    conversation = await client.conversation()
    await client.send(conversation, "Hello?")
    await change(tmp_path, losing("messages"))
    answer = await client.call("POST", f"/conversations/{conversation}/turns", json={"text": "And?"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "store_failed")
    assert len(model.requests) == 1
