"""What a conversation holds because of a knowledge base leaves an export with the grant, wherever it was copied to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import GrantLevel
from lamella.core.json import encode_text
from lamella.core.knowledge import WITHHELD_DOCUMENT
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.core.records import FoundDocument
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import grant, restricted_base, second_model

from .carrying import Condensing, carried

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CANARY = "CANARY-4711"
SECRET = f"# Lease of the northern mill\n\nThe tenant pays {CANARY} and keeps geese out of the yard."


class Fetching:
    """A tool that brings a document into the conversation, named and filled by what it was asked for."""

    spec = ToolSpec("fetch", "Fetches.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        assert scope.documents is not None
        asked = str(call.arguments.get("q"))
        url = f"https://example.org/?q={asked}"
        kept = await scope.documents.keep(FoundDocument(f"About {asked}", "text/html", f"It says {asked}.", 9, url))
        return f"Document {kept.document}."


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def world(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0, titles=False)
    tools = (Fetching(), Condensing("condense", "digest"))
    models = ScriptedModels(model, second_model())
    async with served(given, models=models, more_tools=tools) as opened:
        yield opened


def searching(query: str) -> ToolCall:
    return ToolCall("c1", NAME, encode_text({"query": query}))


@pytest.mark.parametrize("level", [GrantLevel.NONE, GrantLevel.RESTRICTED, None])
async def test_what_was_copied_from_a_base_goes_with_its_grant(
    world: tuple[App, ServerClient], model: ScriptedModel, level: GrantLevel | None
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET, name=f"Base {CANARY}", title=f"Lease {CANARY}.md")
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    model.then(
        calling(searching("What does the tenant owe?")),
        calling(ToolCall("c2", "fetch", encode_text({"q": CANARY})), ToolCall("c3", "condense", f'{{"n":"{CANARY}"}}')),
        *(saying(f"It is {CANARY}.") for _ in range(4)),
    )
    for text in ("What is owed?", "And now?", "And then?"):
        await client.send(conversation, text, knowledge_base_ids=[base])
    whole = await carried(client, conversation)
    assert CANARY in encode_text(whole.raw)
    kept = [one for _, one in await app.store.documents.found_documents(LOCAL_OWNER, conversation)]
    shown = [await client.get(f"/documents/{one.file_id}") for one in kept]
    assert all(CANARY in encode_text(one) for one in shown)
    await grant(app, base, level)
    for one in kept:
        left = await client.get(f"/documents/{one.file_id}")
        withheld = WITHHELD_DOCUMENT.format(number=one.document)
        assert (left["title"], left["url"], left["text"]) == ("Withheld", None, withheld)
    model.then(saying("No."))
    await client.send(conversation, "Without?")
    for query in ("", "?content=false"):
        found = await carried(client, conversation, query)
        text = encode_text(found.raw)
        at = text.find(CANARY)
        assert at < 0, text[max(0, at - 300) : at + 60]
        assert [(one.number, one.difference) for one in found.report.differing] == []
        assert found.report.lost == 0
