"""Facts of user, tool and assistant in a long conversation are found again after five compactions."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.tokens import Threshold
from lamella.llm.scripted import FACTS as FACTS_OF_MODEL
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.sessions.summariser import NotCompacted
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

from .test_compaction import compact
from .test_recall import called, settled

pytestmark = [pytest.mark.anyio, pytest.mark.long]

TURNS = 60
FACTS = 36
EVERY = TURNS // 5
SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra")
FACT = re.compile(r"FACT-\d\d is [a-z]+-\d+")

Recall = Callable[[str], Awaitable[str]]
"""What a search over earlier sessions gives for a fact's name."""


def fact(number: int) -> str:
    return f"FACT-{number:02} is harbour-{number * 37}"


def town(number: int) -> str:
    """The place that a fact is about."""
    return f"{SYLLABLES[number // 6 % 6]}{SYLLABLES[number % 6]}ton".capitalize()


def passage(turn: int) -> str:
    """What a tool has to say in a turn, with its fact if it is the tool's."""
    about = f"They spoke of {town(turn * FACTS // TURNS)} and its ships, of tides and of winds. "
    return planted(turn).get("tool", "") + about * 20


def planted(turn: int) -> dict[str, str]:
    """The fact of this turn, said by user, tool or assistant in turn; some turns have none."""
    number = turn * FACTS // TURNS
    if number == (turn - 1) * FACTS // TURNS and turn:
        return {}
    return {("user", "tool", "assistant")[number % 3]: f"{fact(number)}. "}


class Look:
    """A tool that gives the turn's passage."""

    spec = ToolSpec("look", "Look.", '{"type": "object", "properties": {"turn": {"type": "integer"}}}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return passage(int(str(call.arguments["turn"])))


def keeping(request: WireRequest) -> list[ReplayEvent]:
    """The answer of a summariser that obeys: it keeps the facts that it is shown, and repeats no earlier summary."""
    shown = [json.dumps(block.value, ensure_ascii=False) for block in request.blocks]
    asked = "\n".join(text for text in shown if "<conversation-summary>" not in text)
    return saying("# Facts\n" + "\n".join(f"- {found}" for found in dict.fromkeys(FACT.findall(asked))))


@asynccontextmanager
async def talking(
    folder: Path, *models: ScriptedModel, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    given = {"keep_recent_tokens": 60, "tool_prune_threshold": 200, "tool_keep_threshold": 0, **settings}
    sources = ScriptedModels(*models)
    async with served(read_settings(data=folder, **given), models=sources, more_tools=[Look()]) as (app, client):
        yield app, client, await client.conversation()


async def take_turn(client: ServerClient, conversation: str, model: ScriptedModel, turn: int) -> None:
    said = planted(turn)
    call = ToolCall(f"call_{turn}", "look", json.dumps({"turn": turn}))
    model.then(calling(call), saying(f"{said.get('assistant', '')}Answer {turn}."))
    packets = await client.send(conversation, f"{said.get('user', '')}Question {turn}?")
    assert packets[-1]["status"] == "finished"


def window(model: ScriptedModel) -> str:
    """All that the newest request holds."""
    return json.dumps([block.value for block in model.requests[-1].blocks], ensure_ascii=False)


async def found(names: list[str], shown: str, recall: Recall | None = None) -> list[str]:
    """The facts that are in the window or that a recall gives."""
    return [name for name in names if name in shown or (recall is not None and name in await recall(name))]


async def test_all_facts_are_found_after_each_of_five_compactions(tmp_path: Path) -> None:
    model = ScriptedModel()
    facts: list[str] = []
    settings = {"tool_prune_when": "full", "tool_keep_threshold": 300, "keep_recent_tokens": 0}
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        for turn in range(TURNS):
            await take_turn(client, conversation, model, turn)
            facts += FACT.findall("".join(planted(turn).values()))
            if (turn + 1) % EVERY == 0:
                model.then_from(keeping)
                assert isinstance(await compact(app, conversation), Compacted)
                model.then(saying("Yes."))
                await client.send(conversation, "Which facts do you know?")
                assert await found(facts, window(model)) == facts
        assert len(facts) == FACTS
        assert len((await client.get(f"/conversations/{conversation}/sessions"))["data"]) == 6


@pytest.mark.parametrize("when", ["full", "pays"])
async def test_all_facts_of_120_turns_are_held_over_forty_compactions(tmp_path: Path, when: str) -> None:
    """The summaries of all earlier sessions stand in the window, as far as they hold facts."""
    model, turns = ScriptedModel(), 2 * TURNS
    threshold = Threshold.of("20000")
    settings = {"tool_prune_when": "full", "compaction_when": when, "compaction_threshold": threshold}
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        for turn in range(turns):
            await take_turn(client, conversation, model, turn)
            if (turn + 1) % 3 == 0:
                model.then_from(keeping)
                assert isinstance(await compact(app, conversation), Compacted)
        model.then(saying("Yes."))
        await client.send(conversation, "Which facts do you know?")
        names = [fact(number) for number in range(2 * FACTS)]
        assert await found(names, window(model)) == names
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 1 + turns // 3


async def test_the_facts_of_what_is_pruned_stay_in_its_stubs_and_are_given_back_by_recall(tmp_path: Path) -> None:
    """Each of the facts, with pruning on; and a result is read again whole by the id which stands in its place."""
    model = ScriptedModel()
    async with talking(tmp_path, model) as (app, client, conversation):
        for turn in range(TURNS):
            await take_turn(client, conversation, model, turn)
        await settled(app, conversation)
        model.then(saying("Yes."))
        await client.send(conversation, "Which facts do you know?")
        shown = window(model)
        facts = [fact(number) for number in range(FACTS)]
        assert await found(facts, shown) == facts

        async def recall(name: str) -> str:
            query = f"{name.split(' is ')[0]}, the one about {town(facts.index(name))}"
            return str((await called(client, model, conversation, "search_conversation", query=query))["text"])

        pruned = facts[1:-3:3]  # said by the tool, and old
        assert await found(pruned, "", recall) == pruned
        ids = re.findall(r"look \[read_message (\w+)\], in part: ", shown)
        assert len(ids) >= TURNS - 3
        read = [await called(client, model, conversation, "read_message", id=id) for id in ids]
        assert [name for name in pruned if any(name in one["text"] for one in read)] == pruned
        assert not any(one["is_error"] for one in read)


async def test_with_the_summariser_down_every_turn_is_answered(tmp_path: Path) -> None:
    """A second model that refuses every request: nothing is compacted, and the conversation goes on."""
    model, down = ScriptedModel(), ScriptedModel(facts=replace(FACTS_OF_MODEL, name="down"))
    async with talking(tmp_path, model, down, compaction_model="down") as (app, client, conversation):
        for turn in range(TURNS):
            await take_turn(client, conversation, model, turn)
            if (turn + 1) % EVERY == 0:
                assert isinstance(await compact(app, conversation), NotCompacted)
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 1
    assert len(down.requests) >= 1
