"""Which old results stay until a compaction, over the API: as each tool says, all, or none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ProviderUnreachable
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec, WhenOld
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

from .test_compaction import MUCH, SUMMARY, compact, texts

pytestmark = pytest.mark.anyio


class Book:
    """A tool that gives a long passage."""

    kind = ToolKind.OTHER
    timeout = 5.0

    def __init__(self, name: str, when_old: WhenOld) -> None:
        schema = '{"type": "object", "properties": {}}'
        self.spec = replace(ToolSpec(name, name, schema), when_old=when_old)

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return f"Passage of {self.spec.name}. {MUCH}"


@asynccontextmanager
async def reading(folder: Path, model: ScriptedModel, **given: Any) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A conversation in which two turns each call a tool that keeps its results, and one that does not."""
    settings = {"tool_prune_threshold": 100, "tool_keep_threshold": 0, "keep_recent_tokens": 100, **given}
    tools = [Book("keeping", "summarize"), Book("usual", "prune")]
    sources = ScriptedModels(model)
    async with served(read_settings(data=folder, **settings), models=sources, tools=tools) as (app, client):
        conversation = await client.conversation()
        for number in range(2):
            calls = [ToolCall(f"{name}_{number}", name, "{}") for name in ("keeping", "usual")]
            model.then(calling(*calls), saying(f"Answer {number}.", usage=Usage(input=4_000, output=5)))
            await client.send(conversation, f"Question {number}?")
        yield app, client, conversation


def passages(model: ScriptedModel, index: int = -1) -> dict[str, int]:
    """How many whole passages of each tool a request shows, its last message apart."""
    *blocks, _ = model.requests[index].blocks
    text = json.dumps([block.value for block in blocks])
    return {name: text.count(f"Passage of {name}. {MUCH}") for name in ("keeping", "usual")}


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("auto", {"keeping": 2, "usual": 0}),
        ("keep_all", {"keeping": 2, "usual": 2}),
        ("keep_none", {"keeping": 0, "usual": 0}),
    ],
)
async def test_what_of_old_results_the_next_request_shows(tmp_path: Path, policy: str, shown: dict[str, int]) -> None:
    model = ScriptedModel()
    async with reading(tmp_path, model, tool_summarization_policy=policy) as (_, client, conversation):
        model.then(saying("Yes."))
        await client.send(conversation, "Still there?")
        assert passages(model) == shown


async def test_the_summary_is_made_of_all_of_them_in_full(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with reading(tmp_path, model) as (app, client, conversation):
        model.then(saying("Noted."), saying(SUMMARY), saying("Yes."))
        await client.send(conversation, "One more?")
        assert isinstance(await compact(app, conversation), Compacted)
        assert passages(model) == {"keeping": 2, "usual": 0}
        assert texts(model.requests[-1])[-1].count("Passage of usual.") == 2
        assert "Passage of keeping." not in texts(model.requests[-1])[-1]
        await client.send(conversation, "And now?")
        assert passages(model) == {"keeping": 0, "usual": 0}


async def test_keep_all_gives_way_past_the_compaction_threshold_recorded_and_announced(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings: dict[str, Any] = {"compaction_threshold": "6000", "context_budget": 20_000}
    async with reading(tmp_path, model, tool_summarization_policy="keep_all", **settings) as (
        app,
        client,
        conversation,
    ):
        model.then(saying("Large.", usage=Usage(input=6_500, output=5)), saying(SUMMARY), saying("Yes."))
        await client.send(conversation, "How large?")
        model.then(saying("Yes."))
        await client.send(conversation, "And now?")
        await app.sessions.wait_until_idle(conversation)
        assert passages(model) == {"keeping": 0, "usual": 0}
        decided = [s.decision for s in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        (pruning,) = [d for d in decided if d.kind is DecisionKind.PRUNE]
        assert pruning.why == "results of tools are kept, but the last answer read 6500 tokens, more than 6000"
        listed = (await client.get(f"/conversations/{conversation}/commands"))["data"]
        assert any(notice["name"] == "pruned" or "Tool outputs pruned" in notice["text"] for notice in listed)


async def test_what_is_kept_goes_when_nothing_else_fits(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings: dict[str, Any] = {"compaction_threshold": "100%", "context_budget": 6_500, "keep_recent_tokens": 20_000}
    async with reading(tmp_path, model, tool_summarization_policy="keep_all", **settings) as (
        app,
        client,
        conversation,
    ):
        model.then([ProviderUnreachable("down")], saying("Yes.", usage=Usage(input=2_000, output=5)))
        packets = await client.send(conversation, "Read this: " + MUCH * 3)
        assert packets[-1]["status"] == "finished"
        decided = [s.decision for s in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        assert [d.numbers["all"] for d in decided if d.kind is DecisionKind.PRUNE] == [1]
