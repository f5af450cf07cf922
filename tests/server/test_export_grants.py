"""Conversations over knowledge bases are carried away as far as their reader may read, with changes of grants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import App
from lamella.core.access import BaseContent, GrantLevel
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, grant, restricted_base, second_model

from .carrying import assert_carried, carried

pytestmark = pytest.mark.anyio

CANARY = "CANARY-4711"
SECRET = f"# Lease of the northern mill\n\nThe tenant pays {CANARY} and keeps geese out of the yard."


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def world(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0, titles=False)
    async with served(given, models=ScriptedModels(model, second_model())) as opened:
        yield opened


def searching(query: str) -> ToolCall:
    return ToolCall("c1", NAME, encode_text({"query": query}))


async def talk(client: ServerClient, conversation: str, base: str, text: str) -> None:
    await client.send(conversation, text, knowledge_base_ids=[base])


async def test_a_base_that_is_read_in_full(world: tuple[App, ServerClient], model: ScriptedModel) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    about = BaseContent("Contracts", summary=f"About {CANARY}.", topics=("geese",))
    await app.access.change_base(ANN, base, lambda _: about, app.clock.now())
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    model.then(calling(searching("What does the tenant owe?")), saying(f"It is {CANARY}."), saying("Yes."))
    for text in ("What is owed?", "Really?"):
        await talk(client, conversation, base, text)
    found = await assert_carried(client, conversation)
    assert CANARY.encode() in b"".join(found.bodies)


async def test_a_base_with_restricted_access(world: tuple[App, ServerClient], model: ScriptedModel) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.RESTRICTED)
    conversation = await client.conversation()
    model.then(calling(searching("What does the tenant owe?")), saying("I may not say."), saying("No."))
    for text in ("What is owed?", "Really?"):
        await talk(client, conversation, base, text)
    found = await assert_carried(client, conversation)
    assert CANARY not in encode_text(found.raw)


async def test_a_grant_that_was_lowered_and_given_back(world: tuple[App, ServerClient], model: ScriptedModel) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    about = BaseContent("Contracts", summary=f"About {CANARY}.", topics=("geese",))
    await app.access.change_base(ANN, base, lambda _: about, app.clock.now())
    conversation = await client.conversation()
    model.then(calling(searching("What does the tenant owe?")), saying(f"It is {CANARY}."))
    model.then(*(saying(f"Answer {number}.") for number in range(6)))
    await grant(app, base, GrantLevel.FULL)
    await talk(client, conversation, base, "What is owed?")
    await talk(client, conversation, base, "Say it again.")
    await grant(app, base, GrantLevel.RESTRICTED)
    await talk(client, conversation, base, "And now?")
    await client.send(conversation, "Without a base?")
    await grant(app, base, GrantLevel.FULL)
    await talk(client, conversation, base, "And now?")
    found = await assert_carried(client, conversation)
    assert [one["id"] for one in found.raw["knowledge_bases"]] == [base]
    assert [one["grant"] for one in found.raw["turns"] if one.get("do") == "grant"] == ["none", "full"]


async def test_what_may_not_be_read_any_more_is_not_carried(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    model.then(calling(searching("What does the tenant owe?")), saying(f"It is {CANARY}."), saying("No."))
    await talk(client, conversation, base, "What is owed?")
    await grant(app, base, GrantLevel.NONE)
    await client.send(conversation, "And now?")
    for query in ("", "?content=false"):
        found = await carried(client, conversation, query)
        assert CANARY not in encode_text(found.raw)
        assert [one.difference for one in found.report.differing] == []
        assert found.report.lost == 0
        told = found.raw["exported"]["not_carried"]
        assert (
            told[0] == f"what was said and found with the knowledge base {base}, which may not be read in full any more"
        )
        assert "not compared" in told[1]
        compared = [one for one in found.report.requests if one.recorded is not None and one.recorded.letters]
        assert compared[-1].record.letters == found.letters[-1]
