"""A sample of `bench/kills.py`, and proof that its laws can be broken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from killing import laws
from killing.people import Sent
from kills import OPTIONS, kill_often
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.testing import running

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SEED = 11
KILLS = 10


async def test_nothing_is_lost_doubled_or_stuck_in_ten_kills() -> None:
    with running("--clock", "system", *OPTIONS) as provider:
        found = await kill_often(provider, KILLS, SEED)
    assert found.broken == [], f"python bench/kills.py --kills {KILLS} --seed {SEED}"
    assert found.kills == KILLS
    assert found.cut_off > KILLS


@pytest.fixture
async def client(tmp_path: Path, anyio_backend: str) -> AsyncIterator[ServerClient]:
    models = ScriptedModels(ScriptedModel([saying("Yes.")] * 4))
    async with served(read_settings(data=tmp_path), models=models) as (_, speaking):
        yield speaking


async def test_what_is_lost_doubled_or_changed_is_caught(client: ServerClient) -> None:
    conversation = await client.conversation()
    packets = await client.send(conversation, "Question a.")
    await client.send(conversation, "Question b.")
    await client.send(conversation, "Question b.")

    def sent(text: str, **known: object) -> Sent:
        made = Sent(text, conversation, text, (), known=True)
        for name, value in known.items():
            setattr(made, name, value)
        return made

    turn_id = str(packets[0]["turn_id"])
    assert await laws.after(client, [[sent("Question a.", turn_id=turn_id, ended="finished", said=["Yes."])]]) == []
    for one, law in (
        (sent("Question b."), "is there 2 times"),
        (sent("Question c."), "is there 0 times"),
        (sent("Question a.", turn_id="turn_x"), "another id"),
        (sent("Question a.", turn_id=turn_id, ended="stopped", said=["Yes."]), "it was stopped and is finished"),
        (sent("Question a.", turn_id=turn_id, ended="finished", said=["No."]), "has changed"),
        (sent("Question a.", turn_id=turn_id, said=["No"]), "other words"),
    ):
        [broken] = await laws.after(client, [[one]])
        assert law in broken


async def test_an_unknown_message_is_sent_again_and_is_there_once(client: ServerClient) -> None:
    conversation = await client.conversation()
    assert await laws.after(client, [[Sent("key-1", conversation, "Question a.", ())]]) == []
    assert len((await client.get(f"/conversations/{conversation}/turns"))["data"]) == 1
