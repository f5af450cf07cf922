"""Titles that a model writes: once, in the background, never in the place of the user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.agent.side import SideAnswer
from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.errors import ProviderUnreachable
from lamella.core.messages import StopReason, ToolCall
from lamella.core.models import Price
from lamella.core.records import JobStatus
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.titles import PROMPT, NoTitle, titled
from lamella.settings import read_settings

from .test_ended import ended_job

pytestmark = pytest.mark.anyio

WORDS = "Which ship lies in the harbour?"


@asynccontextmanager
async def titling(
    folder: Path, *models: ScriptedModel, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    given = {"data": folder, "titles": True, **settings}
    async with served(read_settings(**given), models=ScriptedModels(*models)) as (app, client):
        yield app, client, await client.conversation()


def small(**facts: Any) -> ScriptedModel:
    return ScriptedModel(facts=replace(FACTS, name="small", **facts))


async def title_of(app: App, client: ServerClient, conversation: str) -> tuple[str, str]:
    """The title, and whose it is, once its job has ended."""
    await ended_job(app, conversation, "title")
    found = await client.get(f"/conversations/{conversation}")
    return found["title"], found["titled_by"]


async def test_the_first_answer_is_titled_once_by_the_conversations_model(tmp_path: Path) -> None:
    model = ScriptedModel([saying("The Aurora."), saying("“Ships in the harbour.”\n"), saying("No.")])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        assert await title_of(app, client, conversation) == ("Ships in the harbour", "model")
        listed = (await client.get("/conversations"))["data"]
        assert [one["title"] for one in listed] == ["Ships in the harbour"]
        system, asked = (str(block.value.get("text")) for block in model.requests[1].blocks)
        assert system == PROMPT
        assert asked == f"<conversation>\nUser:\n{WORDS}\n\nAnswer:\nThe Aurora.\n</conversation>"
        await client.send(conversation, "Another?")
        window = [str(block.value.get("text")) for block in model.requests[2].blocks if block.level == "messages"]
        assert [text.split("\n")[0] for text in window] == [WORDS, "The Aurora.", "Another?"]
    assert len(model.requests) == 3


async def test_its_request_is_recorded_with_its_cost_and_counts_in_the_totals(tmp_path: Path) -> None:
    model = ScriptedModel([saying("The Aurora."), saying("Ships", usage=Usage(input=400, output=8))])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        await title_of(app, client, conversation)
        [turn] = await app.store.turns.path(LOCAL_OWNER, conversation)
        chat, title = await app.store.requests.requests(LOCAL_OWNER, turn.id)
        assert (title.purpose, title.run_id, title.usage, title.cost) == (
            "title",
            None,
            Usage(input=400, output=8),
            FACTS.cost(Usage(input=400, output=8)),
        )
        session = (await app.store.sessions.sessions(LOCAL_OWNER, conversation))[0]
        assert session.usage["title"] == Usage(input=400, output=8)
        assert (await app.store.turns.turn(LOCAL_OWNER, turn.id)).cost == chat.cost
        bill = await app.store.requests.last_bill(LOCAL_OWNER, conversation, "scripted")
        assert bill is not None
        assert bill.request_id == chat.id


async def test_the_users_own_title_stays(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    model.then(saying("The Aurora."), [gate, *saying("Ships")])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        await asyncio.wait_for(gate.reached.wait(), 10)
        await client.call("PATCH", f"/conversations/{conversation}", json={"title": WORDS})
        gate.opened.set()
        assert await title_of(app, client, conversation) == (WORDS, "user")
        named = await client.conversation(title="Mine")
        model.then(saying("Yes."))
        await client.send(named, "Mine?")
        assert (await client.get(f"/conversations/{named}"))["title"] == "Mine"
    assert len(model.requests) == 3


async def test_a_failure_keeps_the_first_words_and_a_first_answer_that_failed_is_not_titled(tmp_path: Path) -> None:
    model = ScriptedModel([[ProviderUnreachable("down")], saying("The Aurora."), calling(ToolCall("c", "f", "{}"))])
    model.then(saying("Yes."))
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        assert len(model.requests) == 1
        await client.send(conversation, "Well?")
        assert await title_of(app, client, conversation) == (WORDS, "words")
        await client.send(conversation, "Sure?")
    assert len(model.requests) == 4


async def test_a_provider_that_fails_is_asked_again_later(tmp_path: Path) -> None:
    model = ScriptedModel([saying("The Aurora."), [ProviderUnreachable("down")]])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        async with asyncio.timeout(10):
            while True:
                job = await app.store.jobs.job(LOCAL_OWNER, "title", conversation)
                if job is not None and job.attempts and job.status is JobStatus.WAITING:
                    break
                await asyncio.sleep(0.01)
        assert (await client.get(f"/conversations/{conversation}"))["titled_by"] == "words"


async def test_nobody_is_asked_where_titles_are_switched_off(tmp_path: Path) -> None:
    model = ScriptedModel([saying("The Aurora.")])
    async with titling(tmp_path, model, titles=False) as (app, client, conversation):
        await client.send(conversation, WORDS)
        await app.chat.rest(conversation)
        assert await app.store.jobs.job(LOCAL_OWNER, "title", conversation) is None
        assert (await client.get(f"/conversations/{conversation}"))["title"] == WORDS


@pytest.mark.parametrize(
    ("choice", "price", "asked"),
    [("configured", 9, "small"), ("cheapest", 9, "scripted"), ("cheapest", 0.1, "small")],
)
async def test_the_model_of_the_summaries_writes_titles_too(
    tmp_path: Path, choice: str, price: float, asked: str
) -> None:
    facts = {"price": Price(input=price, output=price, read=price, write_5m=price, write_1h=price)}
    main, second = ScriptedModel([saying("The Aurora.")]), small(**facts)
    (second if asked == "small" else main).then(saying("Ships"))
    settings = {"compaction_model": "small", "compaction_choice": choice}
    async with titling(tmp_path, main, second, **settings) as (app, client, conversation):
        await client.send(conversation, WORDS)
        assert await title_of(app, client, conversation) == ("Ships", "model")
    assert len(second.requests) == (asked == "small")


def answer(text: str, stop: StopReason | None = StopReason.END_TURN) -> SideAnswer:
    return SideAnswer([text], stop)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Ships in the harbour", "Ships in the harbour"),
        ('  "Ships in the harbour."  ', "Ships in the harbour"),
        ("# **Ships**\n\nThis title is short.", "Ships"),
        ("Here is a title:\n\nShips", "Ships"),
        ("Title: „Schiffe im Hafen“", "Schiffe im Hafen"),
        ("\n\nA\u202e\x00 tab\tand  blanks\n", "A tab and blanks"),
        ("C++ или Rust?", "C++ или Rust?"),
        ("船はどこですか", "船はどこですか"),
    ],
)
def test_a_title_is_one_line_without_what_is_around_it(text: str, title: str) -> None:
    assert titled(answer(text)) == title


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (answer(""), "the title is empty"),
        (answer("\n…\n***\n"), "the title is empty"),
        (answer("word " * 17), "the title has 84 characters, more than 80"),
        (answer("Ships in", StopReason.MAX_TOKENS), "the title was cut off (max_tokens)"),
        (answer("I can't", StopReason.REFUSAL), "the title was cut off (refusal)"),
        (SideAnswer(["Ships"], StopReason.TOOL_CALLS, True), "the model called a tool instead of answering"),
    ],
)
def test_what_is_no_title_is_refused(refused: SideAnswer, why: str) -> None:
    assert titled(refused) == NoTitle(why)


async def test_thinking_before_a_title_is_no_part_of_it(tmp_path: Path) -> None:
    thought: list[ReplayEvent] = [deltas.ReasoningDelta(1, "Hm."), *saying("Ships")]
    model = ScriptedModel([saying("The Aurora."), thought])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS)
        assert await title_of(app, client, conversation) == ("Ships", "model")


async def test_a_turn_that_its_caller_answers_is_titled_by_its_question_and_last_answer(tmp_path: Path) -> None:
    own: Any = [{"name": "mine", "input_schema": {"type": "object"}}]
    model = ScriptedModel([calling(ToolCall("c1", "mine", "{}")), saying("The Aurora."), saying("Ships here")])
    async with titling(tmp_path, model) as (app, client, conversation):
        await client.send(conversation, WORDS, tools=own)
        await client.send(conversation, "", results=[{"call_id": "c1", "content": "Aurora"}])
        assert await title_of(app, client, conversation) == ("Ships here", "model")
    assert len(model.requests) == 3, "none was asked for while the call waited"
    asked = b"".join(block.data for block in model.requests[2].blocks).decode()
    assert WORDS in asked
    assert "The Aurora." in asked
