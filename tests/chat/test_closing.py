"""A closing process interrupts and saves what runs, refuses what comes, and leaves what it cannot save to recovery."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from databases import change, healed, refusing
from lamella.app.app import LOCAL_OWNER, App
from lamella.chat import CLOSE_SECONDS
from lamella.core import deltas
from lamella.core.messages import TurnStatus
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

from .stage import text_of, types
from .test_stop import until
from .test_store_failures import NO_ENDS

pytestmark = pytest.mark.anyio


async def test_running_turns_are_saved_and_new_messages_refused(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    model.then([deltas.TextDelta(0, "Half"), Gate()])
    first, second = await client.conversation(), await client.conversation()
    async with client.sending(first, "Write!") as events:
        seen = await until(events, "text.delta")
        await app.chat.close()
        rest = [event.packet async for event in events if event.n is not None]
    assert types(rest) == ["turn.stopped", "turn.finished"]
    assert (rest[0]["reason"], rest[1]["status"]) == ("interrupted", "interrupted")
    record = await app.store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])
    assert (record.status, record.steps[0].text) == (TurnStatus.INTERRUPTED, "Half")
    for conversation in (first, second):
        answer = await client.call("POST", f"/conversations/{conversation}/turns", json={"text": "And now?"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
        assert answer.json()["error"]["hint"]
    assert (await client.get(f"/conversations/{second}/turns"))["data"] == []
    assert model.left == 1


async def test_an_interrupted_turn_goes_on_after_the_restart(tmp_path: Path) -> None:
    model = ScriptedModel([[deltas.TextDelta(0, "Half"), Gate()], saying(" and whole.")])
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        async with client.sending(conversation, "Write!") as events:
            seen = await until(events, "text.delta")
            await app.chat.close()
    async with served(settings, models=ScriptedModels(model)) as (_, client):
        assert types(await client.packets(seen[0]["turn_id"]))[-2:] == ["turn.stopped", "turn.finished"]
        assert text_of(await client.send(conversation, "Go on.")) == " and whole."
        said = [block.value.get("text") for block in model.requests[-1].blocks if block.role == "assistant"]
        assert said == ["Half"]


async def test_a_store_that_refuses_keeps_no_process_from_closing(tmp_path: Path) -> None:
    model = ScriptedModel([[deltas.TextDelta(0, "Half"), Gate()], saying("It goes on.")])
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        async with client.sending(conversation, "Write!") as events:
            seen = await until(events, "text.delta")
            await change(tmp_path, refusing(*NO_ENDS))
            began = monotonic()
            await app.chat.close()
            assert CLOSE_SECONDS <= monotonic() - began < CLOSE_SECONDS + 3
    await change(tmp_path, healed())
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        record = await app.store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])
        assert (record.status, record.steps[0].text) == (TurnStatus.INTERRUPTED, "Half")
        assert text_of(await client.send(conversation, "Go on.")) == "It goes on."
