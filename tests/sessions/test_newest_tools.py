"""Which tools a session has: those that there were when it began, and the next one takes what there is then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.decisions import Decision
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, Registry, ToolKind, ToolScope

pytestmark = pytest.mark.anyio

MUCH = "They spoke of ships and of harbours, of tides and of winds. " * 100


class Named:
    """A tool that says its name."""

    kind = ToolKind.OTHER
    timeout = 1.0

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, f"Says {name}.", '{"type": "object", "properties": {}}')

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return self.spec.name


class Away:
    """A source that was not reached since the start."""

    def tools(self) -> tuple[Named, ...]:
        return ()

    def find(self, name: str) -> None:
        return None

    def may_come(self, name: str) -> bool:
        return name.startswith("away__")

    async def settled(self) -> None:
        return


@asynccontextmanager
async def upgraded(folder: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A conversation that began with `lamp`, on a server that has `lamp` and `wind` now."""
    settings = read_settings(data=folder, keep_recent_tokens=1_200)
    async with served(settings, models=ScriptedModels(model), tools=[Named("lamp")]) as (_, client):
        conversation = await client.conversation()
        for number in range(4):
            model.then(saying(f"Answer {number}. {MUCH}"))
            await client.send(conversation, f"Question {number}?")
    both = [Named("lamp"), Named("wind")]
    async with served(settings, models=ScriptedModels(model), tools=both) as (app, client):
        yield app, client, conversation


async def names(app: App, conversation: str) -> list[str]:
    return [spec.name for spec in (await app.store.conversations.conversation(LOCAL_OWNER, conversation)).tools]


async def taken(app: App, conversation: str) -> list[Decision]:
    stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation)
    return [one.decision for one in stored if one.decision.subject == "tools"]


def offered(model: ScriptedModel) -> str:
    """What the newest request says of tools."""
    return " ".join(block.data.decode() for block in model.requests[-1].blocks if block.level == "tools")


async def test_a_new_session_takes_the_tools_that_there_are(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with upgraded(tmp_path, model) as (app, client, conversation):
        model.then(saying("Yes."))
        await client.send(conversation, "Still there?")
        assert "wind" not in offered(model)
        model.then(saying("Summary."), saying("Here."))
        await client.post(f"/conversations/{conversation}/commands", {"text": "/new"})
        assert await names(app, conversation) == ["lamp", "wind"]
        [decision] = await taken(app, conversation)
        assert (decision.outcome, decision.first_changed) == ("lamp, wind", "tools")
        assert decision.why == "a new session takes the tools that there are now: added wind"


async def test_a_compaction_takes_the_tools_that_there_are(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with upgraded(tmp_path, model) as (app, client, conversation):
        model.then(saying("# Facts\nThe ship is the Aurora."), saying("The Aurora."))
        found = await app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        assert isinstance(found, Compacted)
        assert "wind" not in offered(model)  # the summary is asked for on the prefix that is cached
        [decision] = await taken(app, conversation)
        assert decision.why == "a compaction takes the tools that there are now: added wind"
        assert found.after is not None
        counted = found.after.total
        assert (await app.sessions.window_state(LOCAL_OWNER, conversation)).tokens == counted
        await client.send(conversation, "Which ship?")
        assert "wind" in offered(model)


async def test_a_session_that_has_them_decides_nothing(tmp_path: Path) -> None:
    async with served(read_settings(data=tmp_path), models=ScriptedModels(ScriptedModel())) as (app, client):
        conversation = await client.conversation()
        await client.post(f"/conversations/{conversation}/commands", {"text": "/new"})
        assert await taken(app, conversation) == []


def test_a_tool_whose_source_was_not_reached_yet_stays() -> None:
    registry = Registry([Named("lamp")], [Away()])
    pinned = [Named(name).spec for name in ("away__far", "gone", "lamp")]
    assert [spec.name for spec in registry.newest(pinned)] == ["away__far", "lamp"]
