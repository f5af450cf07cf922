"""What was made of a base while it could be read in full, once the grant is lower: it is given to nobody (X-LEAK)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent, GrantLevel
from lamella.core.json import encode_text
from lamella.core.knowledge import WITHHELD_ANSWER, WITHHELD_SUMMARY
from lamella.core.messages import ToolCall
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, add, grant, restricted_base, second_model

pytestmark = pytest.mark.anyio

CANARY = "CANARY-4711"
SECRET = f"# Lease of the northern mill\n\nThe tenant pays {CANARY} and keeps geese out of the yard."
SEARCH = calling(ToolCall("c1", NAME, encode_text({"query": "What does the tenant owe?"})))


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def world(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0, titles=False)
    async with served(given, models=ScriptedModels(model, second_model())) as opened:
        yield opened


def bodies(model: ScriptedModel, first: int) -> str:
    return "".join(encode_text(model.body(request)) for request in model.requests[first:])


async def read_in_full(app: App, client: ServerClient, model: ScriptedModel, base: str) -> str:
    """A conversation of three turns: one that searched, one that called a tool with what it knew, one that told it."""
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    again = calling(ToolCall("c2", "read_file", encode_text({"document": 7, "offset": 0, "why": CANARY})))
    model.then(SEARCH, saying(f"It is {CANARY}."), again, saying("Nothing."))
    model.then(saying(f"As I said: {CANARY}.", usage=Usage(input=4_000, cache_write_5m=3_900, output=9)))
    for text in ("What is owed?", "Look it up.", "Say it again."):
        await client.send(conversation, text, knowledge_base_ids=[base])
    await app.sessions.wait_until_idle(conversation)
    return conversation


async def new_session(client: ServerClient, conversation: str) -> str:
    """End the session, and give its summary, which says what was said."""
    await client.post(f"/conversations/{conversation}/new")
    async with asyncio.timeout(30):
        while True:
            first = (await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"][0]
            if first["summary"] is not None:
                return str(first["summary"])
            await asyncio.sleep(0.02)


async def test_answers_made_from_a_base_leave_with_the_grant_and_come_back_with_it(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    conversation = await read_in_full(app, client, model, base)
    await grant(app, base, GrantLevel.RESTRICTED)
    asked = len(model.requests)
    searching = ToolCall("r1", "search_conversation", encode_text({"query": "owed said again geese"}))
    model.then(calling(searching, usage=Usage(input=3_500, cache_read=3_000, output=9)), saying("Not any more."))
    packets = await client.send(conversation, "And now?")
    assert CANARY not in encode_text([one for one in packets if one["type"] == "tool.result"])
    assert CANARY not in bodies(model, asked)
    assert bodies(model, asked).count(WITHHELD_ANSWER) >= 2
    listed = await client.get(f"/conversations/{conversation}/turns?order=asc")
    assert CANARY not in encode_text(listed)
    assert [turn["answer"] for turn in listed["data"]] == [WITHHELD_ANSWER] * 3 + ["Not any more."]
    # It is recorded, once, and names the grant.
    model.then(saying("No."))
    await client.send(conversation, "Really?")
    decided = (await client.get(f"/conversations/{conversation}/decisions?order=asc"))["data"]
    changes = [one for one in decided if one["subject"] == f"grant {base}"]
    assert [(one["outcome"], one["who"]) for one in changes] == [("withheld", "grant")]
    turn = listed["data"][-1]["id"]
    first = (await client.get(f"/turns/{turn}/requests"))["data"][0]
    diff = await client.get(f"/requests/{first['id']}/diff")
    assert diff["by"] == "grant"
    # What was said after the grant was lowered stays, and all comes back with it.
    assert "Not any more." in bodies(model, len(model.requests) - 1)
    await grant(app, base, GrantLevel.FULL)
    model.then(saying("Yes."))
    await client.send(conversation, "Once more?")
    assert f"As I said: {CANARY}." in bodies(model, len(model.requests) - 1)
    newest = (await client.get(f"/conversations/{conversation}/decisions?limit=1"))["data"]
    assert [(one["subject"], one["outcome"]) for one in newest] == [(f"grant {base}", "full")]


async def test_what_was_told_of_a_base_beside_a_question_leaves_too(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    about = BaseContent("Contracts", summary=f"About {CANARY}.", topics=("geese",))
    await app.access.change_base(ANN, base, lambda _: about, app.clock.now())
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    model.then(saying("Yes."), saying("No."))
    await client.send(conversation, "May I keep geese?", knowledge_base_ids=[base])
    assert CANARY in bodies(model, 0)
    await grant(app, base, GrantLevel.RESTRICTED)
    await client.send(conversation, "And now?", knowledge_base_ids=[base])
    sent = bodies(model, 1)
    assert CANARY not in sent
    assert "May I keep geese?" in sent
    assert "Yes." in sent, "it searched nothing"
    decided = (await client.get(f"/conversations/{conversation}/decisions"))["data"]
    assert any(one["subject"] == f"grant {base}" and one["first_changed"].endswith("/dynamic") for one in decided)


async def test_a_summary_made_from_a_base_leaves_with_the_grant(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    conversation = await read_in_full(app, client, model, base)
    assert f"It is {CANARY}." in await new_session(client, conversation)
    await grant(app, base, GrantLevel.NONE)
    shown = await client.get(f"/conversations/{conversation}/sessions?order=asc")
    assert shown["data"][0]["summary"] == WITHHELD_SUMMARY
    assert CANARY not in encode_text(shown)
    found = await client.get(f"/sessions/search?q={CANARY}")
    assert CANARY not in encode_text([found["data"], found["sessions"]])
    told = await client.call("POST", f"/conversations/{conversation}/commands", json={"text": f"/resume {CANARY}"})
    assert f"It is {CANARY}" not in told.text


async def test_what_is_read_again_in_another_session_is_of_the_base_too(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    conversation = await read_in_full(app, client, model, base)
    await new_session(client, conversation)
    model.then(calling(ToolCall("r1", "read_message", encode_text({"id": "c1"}))), saying(f"Again: {CANARY}."))
    packets = await client.send(conversation, "Read it again.")
    assert CANARY in encode_text([one for one in packets if one["type"] == "tool.result"])
    await grant(app, base, GrantLevel.NONE)
    asked = len(model.requests)
    model.then(saying("No."))
    await client.send(conversation, "And now?")
    assert CANARY not in bodies(model, asked)


async def test_who_removes_a_base_of_their_own_keeps_what_was_made_of_it(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = (await app.access.add_base(LOCAL_OWNER, "kb_mine", BaseContent("Mine"), app.clock.now())).id
    await add(app, base, SECRET, "a.md", owner=LOCAL_OWNER)
    conversation = await client.conversation()
    model.then(SEARCH, saying(f"It is {CANARY}."))
    await client.send(conversation, "What is owed?", knowledge_base_ids=[base])
    await app.bases.delete(LOCAL_OWNER, base)
    model.then(saying("Yes."))
    await client.send(conversation, "And?")
    assert f"It is {CANARY}." in bodies(model, len(model.requests) - 1)
