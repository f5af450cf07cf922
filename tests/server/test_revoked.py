"""After a grant or a base is gone, no endpoint gives its former reader what was made from the base (X-LEAK)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.access import BaseContent, GrantLevel
from lamella.core.json import encode_text
from lamella.core.knowledge import WITHHELD_REQUEST, WITHHELD_TITLE
from lamella.core.messages import ToolCall
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, grant, restricted_base, second_model
from sessions.test_ended import ended_job

pytestmark = pytest.mark.anyio

CANARIES = ("CANARY-4711", "Zwetschgenmus", "Heronsgate", "Quillfeather", "Obsidianleaf")
SECRET = "\n\n".join(
    f"# Lease of {name}\n\nThe tenant of {name} pays in {name} and keeps geese out of the yard." for name in CANARIES
)
SEARCH = calling(ToolCall("c1", NAME, encode_text({"query": "What does the tenant owe?"})))
SAYS = " ".join(CANARIES)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def world(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(
        data=tmp_path, restricted_model="second", debounce_ms=0, titles=True, knowledge_summaries=False
    )
    async with served(given, models=ScriptedModels(model, second_model())) as opened:
        yield opened


async def read_in_full(app: App, client: ServerClient, model: ScriptedModel, base: str) -> str:
    """A conversation that searched, opened a document, told it, was titled and summed up, and looked at itself."""
    about = BaseContent("Contracts", summary=f"About {CANARIES[0]}.", topics=("geese",))
    await app.access.change_base(ANN, base, lambda _: about, app.clock.now())
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    thinking: list[ReplayEvent] = [deltas.ReasoningDelta(0, SAYS), deltas.TextDelta(1, f"It is {SAYS} [1].")]
    model.then(SEARCH, [*thinking, *saying()], saying(CANARIES[0]))
    await client.send(conversation, "What is owed?", knowledge_base_ids=[base])
    await ended_job(app, conversation, "title")
    document = calling(ToolCall("c2", "read_file", encode_text({"file_id": SAYS})))
    model.then(document, saying(f"As I said: {SAYS}."))
    await client.send(conversation, "Say it again.", knowledge_base_ids=[base])
    for command in ("/why", "/context", "/status"):
        await client.post(f"/conversations/{conversation}/commands", {"text": command})
    return conversation


async def everything(app: App, client: ServerClient, conversation: str) -> dict[str, str]:
    """What every endpoint with a GET gives of this conversation and beside it, by path."""
    found: dict[str, str] = {}

    async def get(path: str) -> Any:
        answer = await client.call("GET", path)
        found[path] = answer.text
        is_json = answer.headers["content-type"].startswith("application/json")
        return answer.json() if is_json else None

    of = f"/conversations/{conversation}"
    for path in ("", "/tree", "/decisions", "/commands", "/queue", "/context", "/export", "/export?content=false"):
        await get(of + path)
    for path in ("/conversations", "/files", f"/sessions/search?q={CANARIES[0]}", "/knowledge-bases", "/projects"):
        await get(path)
    for session in (await get(f"{of}/sessions"))["data"]:
        await get(f"/sessions/{session['id']}")
    turns = (await get(f"{of}/turns"))["data"]
    for turn in turns:
        await get(f"/turns/{turn['id']}")
        for after in (0, 5, 9):
            await get(f"/turns/{turn['id']}/events?after={after}")
        for request in (await get(f"/turns/{turn['id']}/requests"))["data"]:
            for view in ("raw", "map", "why", "diff"):
                await get(f"/requests/{request['id']}/{view}")
    for _, document in await app.store.documents.found_documents(LOCAL_OWNER, conversation):
        await get(f"/documents/{document.file_id}")
    return found


def told(found: dict[str, str]) -> dict[str, list[str]]:
    """The canaries by path."""
    held = {path: [one for one in CANARIES if one in text and one not in path] for path, text in found.items()}
    return {path: canaries for path, canaries in held.items() if canaries}


async def test_a_removed_grant_and_a_deleted_base_leave_no_canary_to_any_endpoint(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET, title="Heronsgate.md")
    conversation = await read_in_full(app, client, model, base)
    whole = await everything(app, client, conversation)
    read = told(whole)
    for view in ("/events", "/raw", "/map", "/export", "/turns", "/documents/", "/conversations"):
        assert any(view in path for path in read), f"{view} tells nothing while it may be read"
    await grant(app, base, None)
    left = await everything(app, client, conversation)
    assert told(left) == {}
    assert left.keys() == whole.keys()
    assert WITHHELD_REQUEST in "".join(text for path, text in left.items() if path.endswith("/raw"))
    assert (await client.get(f"/conversations/{conversation}"))["title"] == WITHHELD_TITLE
    # With the grant it all comes back; with the base it goes for good.
    await grant(app, base, GrantLevel.FULL)
    assert told(await everything(app, client, conversation)) == read
    await app.bases.delete(ANN, base)
    assert told(await everything(app, client, conversation)) == {}


async def test_a_turn_that_runs_is_not_followed_into_what_was_closed(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    gate = Gate()
    model.then(SEARCH, [*saying(f"It is {SAYS}.")[:1], gate, *saying(" Yes.")])
    async with client.sending(conversation, "What is owed?", knowledge_base_ids=[base]) as events:
        turn = ""
        async for event in events:
            turn = turn or event.packet["turn_id"]
            if event.packet["type"] == "text.delta":
                break
        await grant(app, base, None)
        gate.opened.set()
    assert told({"events": encode_text(await client.packets(turn, 0))}) == {}
