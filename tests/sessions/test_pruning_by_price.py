"""Old results at the shipped settings: what goes, what a stub keeps of it, and who hears of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

from .provider import Provider, sentences

pytestmark = pytest.mark.anyio

USED = "pool-7 waited 4312 ms for db-17"
"""What the answer of a turn takes from its result."""


def log(turn: int, lines: int) -> str:
    """A log: about 24 tokens a line; "ok" without any."""
    if not lines:
        return "ok"
    made = [
        f"2026-03-01T09:{turn:02}:{n % 60:02}Z INFO gateway req-{turn}{n:04} took {n % 90} ms, ok" for n in range(lines)
    ]
    made[lines // 2] = f"2026-03-01T09:{turn:02}:30Z WARN checkout {USED} (turn {turn}), gave up"
    return "\n".join(made)


class Look:
    """A tool that gives a log of as many lines as it is asked for."""

    kind = ToolKind.OTHER
    timeout = 5.0
    spec = ToolSpec("look", "Look.", '{"type": "object", "properties": {}, "additionalProperties": true}')

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return log(int(str(call.arguments["turn"])), int(str(call.arguments["lines"])))


@asynccontextmanager
async def looking(
    folder: Path, model: ScriptedModel, layout: str = "lamella", **given: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    settings = read_settings(data=folder, titles=False, **given)
    async with served(settings, models=ScriptedModels(model), more_tools=[Look()]) as (app, client):
        yield app, client, await client.conversation(layout=layout)


async def look(client: ServerClient, conversation: str, model: ScriptedModel, turn: int, lines: int) -> None:
    """A turn that looks into a log, billed as what stands in the window."""

    def billed(request: Any) -> Usage:
        return Usage(input=sum(count_tokens(json.dumps(block.value)) for block in request.blocks), output=40)

    call = ToolCall(f"call_{turn}", "look", json.dumps({"turn": turn, "lines": lines}))
    model.then_from(lambda request: calling(call, usage=billed(request)))
    model.then_from(lambda request: saying(f"In turn {turn} {USED}.", usage=billed(request)))
    packets = await client.send(conversation, f"What of minute {turn}?")
    assert packets[-1]["status"] == "finished", packets[-1]


async def settle(client: ServerClient, conversation: str) -> None:
    """Come back when what follows a turn is done."""
    while (await client.get(f"/conversations/{conversation}/context"))["compacting"]:
        pass


async def prunings(app: App, conversation: str) -> list[Decision]:
    stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation)
    return [one.decision for one in stored if one.decision.kind is DecisionKind.PRUNE]


async def told(client: ServerClient, conversation: str) -> list[Object]:
    listed: list[Object] = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    return listed


def results(model: ScriptedModel) -> list[str]:
    """The results of the newest request, oldest first, as the model reads them."""
    return [
        str(block.value["content"])
        if isinstance(block.value.get("content"), str)
        else json.dumps(block.value["content"])
        for block in model.requests[-1].blocks
        if block.value.get("type") == "tool_result"
    ]


async def test_one_result_stays_for_the_question_that_follows(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with looking(tmp_path, model) as (app, client, conversation):
        await look(client, conversation, model, 1, 120)
        await settle(client, conversation)
        model.then(saying("The same.", usage=Usage(input=4_000, output=4)))
        await client.send(conversation, "And what does its last line say?")
        assert results(model) == [log(1, 120)]
        assert (await prunings(app, conversation), await told(client, conversation)) == ([], [])


async def test_what_goes_by_price_is_old_and_much_and_leaves_what_mattered(tmp_path: Path) -> None:
    """The newest two turns stay whole, at least 4,000 tokens go at once, and nobody is told of it in the chat.

    The stub keeps what the turn went on to use, in the same bytes for ever after, also after a restart.
    """
    model, shown = ScriptedModel(), []
    async with looking(tmp_path, model) as (app, client, conversation):
        for turn in range(1, 18):
            await look(client, conversation, model, turn, 120)
            await settle(client, conversation)
            shown = results(model)
            assert shown[-3:] == [log(one, 120) for one in range(1, turn + 1)][-3:], "this turn and the two before it"
            if any(text.startswith("look") for text in shown):
                break
        [pruning] = await prunings(app, conversation)
        numbers = pruning.numbers
        assert numbers["before"] - numbers["after"] >= numbers["removed"] >= 4_000
        assert numbers["pays_after"] <= numbers["expected"]
        stubs = [text for text in shown if text.startswith("look")]
        assert len(stubs) == numbers["results"] >= 4
        for turn, stub in enumerate(stubs, start=1):
            assert stub.startswith(f"look [read_message call_{turn}], in part: ")
            assert USED in stub
            assert count_tokens(stub.partition(", in part: ")[2]) <= 40
        assert await told(client, conversation) == []
        listed = (await client.get(f"/conversations/{conversation}/decisions"))["data"]
        assert [one["why"] for one in listed if one["kind"] == "prune"] == [pruning.why]
        newest = (await client.get(f"/conversations/{conversation}/context"))["request_id"]
        segments = (await client.get(f"/requests/{newest}/map"))["segments"]
        assert [one["letters"] for one in segments].count("TC tr") == len(stubs)
    async with looking(tmp_path, model) as (_, client, _other):
        model.then(saying("Yes.", usage=Usage(input=9_000, output=2)))
        await client.send(conversation, "Still there?")
        assert [text for text in results(model) if text.startswith("look")] == stubs


async def test_pruning_by_hand_is_told_and_keeps_extracts_too(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with looking(tmp_path, model, tool_keep_threshold=0) as (_, client, conversation):
        await look(client, conversation, model, 1, 350)
        answer = (await client.post(f"/conversations/{conversation}/prune"))["answer"]
        assert answer.startswith("🔧 Tool outputs pruned (")
        decisions = (await client.get(f"/conversations/{conversation}/decisions"))["data"]
        assert [one["why"] for one in decisions if one["kind"] == "prune"] == ["asked for"]
        model.then(saying("Yes."))
        await client.send(conversation, "And?")
        [stub] = results(model)
        assert stub.startswith("look [read_message call_1], in part: ")
        assert USED in stub


async def test_layout_lis_prunes_and_tells_as_its_seed_does(tmp_path: Path) -> None:
    """At 8,000 tokens of results, down to the newest 2,000, as bare names, with a notification, whatever prices say."""
    model = ScriptedModel()
    async with looking(tmp_path, model, "lis") as (app, client, conversation):
        await look(client, conversation, model, 1, 120)
        await look(client, conversation, model, 2, 120)
        await settle(client, conversation)
        assert await prunings(app, conversation) == []
        await look(client, conversation, model, 3, 60)
        await settle(client, conversation)
        [pruning] = await prunings(app, conversation)
        assert pruning.numbers["before"] > 8_000
        assert pruning.why.endswith("more than 8000")
        [notice] = await told(client, conversation)
        assert notice["text"].startswith("🔧 Tool outputs pruned (")
        model.then(saying("Yes."))
        await client.send(conversation, "And?")
        assert results(model) == ["look", "look", log(3, 60)]


async def test_a_conversation_that_changes_its_layout_keeps_to_the_letters_of_each(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with looking(tmp_path, model, tool_keep_threshold=0) as (_, client, conversation):
        await look(client, conversation, model, 1, 120)
        await client.post(f"/conversations/{conversation}/prune")
        stubs = []
        for layout in ("lis", "lamella"):
            await client.call("PATCH", f"/conversations/{conversation}", json={"layout": layout})
            model.then(saying("Yes."))
            await client.send(conversation, f"And in {layout}?")
            stubs += results(model)
        assert stubs[0] == "look"
        assert stubs[1].startswith("look [read_message call_1], in part: ")


async def test_what_left_the_window_is_not_pruned(tmp_path: Path) -> None:
    """A pruning counts and names what stands in the window: there `/why` finds what changed first."""
    model = Provider(summary=lambda _: "")
    settings: dict[str, Any] = {"context_budget": 12_000, "compaction_when": "full", "tool_keep_threshold": 0}
    async with looking(tmp_path, model, **settings) as (_, client, conversation):
        await look(client, conversation, model, 1, 0)
        for number in range(5):
            packets = await client.send(conversation, sentences(number, 2_500))
            assert packets[-1]["status"] == "finished"
            await settle(client, conversation)
        await look(client, conversation, model, 2, 25)
        assert results(model) == [log(2, 25)], "the first message has left the window"
        await client.send(conversation, sentences(6, 300))
        newest = (await client.get(f"/conversations/{conversation}/context"))["request_id"]
        pruned = (await client.post(f"/conversations/{conversation}/prune"))["data"]
        listed = (await client.get(f"/conversations/{conversation}/decisions"))["data"]
        [decision] = [one for one in listed if one["kind"] == "prune"]
        segments = (await client.get(f"/requests/{newest}/map"))["segments"]
        assert decision["first_changed"] in [segment["id"] for segment in segments]
        assert decision["numbers"]["results"] == 1
        assert pruned["before"] == decision["numbers"]["before"]
