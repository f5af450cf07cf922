"""When a compaction is due after a turn, told once when it is in vain, and taken back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.cache.economics import CompactionCost, OtherSummariser, Rates
from lamella.cache.weighing import SILENT, CompactionInput, Due, Gain, Trigger
from lamella.core.errors import ConfigurationError, LamellaError, ProviderUnreachable
from lamella.core.models import ModelFacts
from lamella.core.ports import OpenModel
from lamella.core.tokens import Threshold, Usage
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, saying
from lamella.server.testing import Object, ServerClient
from lamella.sessions.compaction import Compacted
from lamella.sessions.summariser import WAY_OUT, SummariserChoice, other_summariser

from .test_compaction import SUMMARY, compact, talking, texts

pytestmark = pytest.mark.anyio

LARGE = Usage(input=6_000, output=5)


def test_it_is_due_past_the_threshold_and_not_after_it_was_taken_back() -> None:
    trigger = Trigger(Threshold(share=0.8))
    assert trigger.due(CompactionInput(8_000, 10_000)) is None
    due = trigger.due(CompactionInput(8_001, 10_000))
    assert due == Due("the window has 8001 tokens, more than 8000 of 10000", {"window": 8_001, "most": 8_000})
    assert trigger.due(CompactionInput(9_000, 10_000, undone=True)) is None


ECONOMY = CompactionCost(Rates(0.05, 1.25, 5), static=6_000, growth=1_220, calls=40, summary=3_000)


def test_a_price_says_when_a_summary_pays_and_the_threshold_still_guards() -> None:
    """By the formula of `best_length` this conversation costs least when it is compacted at about 48k tokens."""
    trigger = Trigger(Threshold(tokens=150_000), 4_000, "pays")
    assert trigger.due(CompactionInput(47_000, 200_000, compaction_cost=ECONOMY)) is None
    why = trigger.due(CompactionInput(49_000, 200_000, compaction_cost=ECONOMY))
    assert why is not None
    assert "the window has 49000 tokens" in why.why
    assert "where a call adds 1220" in why.why
    assert why.numbers["best"] == pytest.approx(48_000, rel=0.02)
    assert (why.numbers["growth"], why.numbers["expected"]) == (1_220, 40)
    assert trigger.due(CompactionInput(49_000, 200_000, undone=True, compaction_cost=ECONOMY)) is None
    assert trigger.due(CompactionInput(49_000, 200_000)) is None
    guarded = trigger.due(CompactionInput(151_000, 200_000))
    assert guarded is not None
    assert guarded.why == "the window has 151000 tokens, more than 150000 of 200000"


def test_where_another_model_summarises_its_prices_say_when_it_pays() -> None:
    trigger = Trigger(Threshold(tokens=150_000), 4_000, "pays")
    cheap = replace(ECONOMY, elsewhere=OtherSummariser(0.025, 0.125))
    assert trigger.due(CompactionInput(38_000, 200_000, compaction_cost=ECONOMY)) is None
    due = trigger.due(CompactionInput(38_000, 200_000, compaction_cost=cheap))
    assert due is not None
    assert due.numbers["best"] < 38_000


@dataclass
class Small:
    """A second model; `error` where it can't be reached by what is configured."""

    choice: SummariserChoice = "configured"
    error: LamellaError | None = None

    def facts(self) -> ModelFacts:
        if self.error is not None:
            raise self.error
        return replace(FACTS, name="small", price=replace(FACTS.price, input=0.5, output=2.5))

    async def open(self) -> OpenModel:
        raise AssertionError("nobody is asked")


def test_the_prices_of_the_second_model_are_those_of_its_facts() -> None:
    own = replace(FACTS, price=replace(FACTS.price, input=5, output=25))
    assert other_summariser(None, own) is None
    assert other_summariser(Small(), own) == OtherSummariser(0.1, 0.5)
    assert other_summariser(Small("cheapest"), own) == OtherSummariser(0.1, 0.5, always=False)
    assert other_summariser(Small(error=ConfigurationError("No key.")), own) is None


def test_a_conversation_that_has_only_begun_is_not_expected_to_go_on() -> None:
    trigger = Trigger(Threshold(tokens=150_000), 4_000, "pays")
    assert trigger.due(CompactionInput(90_000, 200_000, compaction_cost=replace(ECONOMY, calls=3))) is None
    free = replace(ECONOMY, rates=Rates(0, 1, 0))
    assert trigger.due(CompactionInput(90_000, 200_000, compaction_cost=free)) is None
    nobody_needs_it = SILENT, "a compaction frees about 2250 of 53000 tokens, less than a quarter"
    assert trigger.vain(Gain(50_000, 3_000), 200_000) == nobody_needs_it
    full = trigger.vain(Gain(149_000, 3_000), 200_000)
    assert full is not None, "past the threshold it is told"
    assert full[0] == "little"
    assert trigger.vain(Gain(50_000, 30_000), 200_000) is None


def test_it_is_in_vain_where_it_would_be_due_again_at_once() -> None:
    trigger = Trigger(Threshold(tokens=8_000))
    assert trigger.vain(Gain(fixed=3_000, old=5_000), 10_000) is None
    fixed, little = trigger.vain(Gain(8_001, 5_000), 10_000), trigger.vain(Gain(7_000, 1_000), 10_000)
    assert (fixed and fixed[0], little and little[0]) == ("fixed", "little")


def test_a_quarter_of_the_threshold_has_to_go_and_earlier_summaries_are_shortened_for_it() -> None:
    """From 20.8k to 16.8k is no success: the next one would be due a few calls later."""
    trigger = Trigger(Threshold(tokens=20_000))
    vain = trigger.vain(Gain(fixed=11_800, old=5_000, kept=4_000), 200_000)
    assert vain == (
        "little",
        "a compaction frees about 4000 of 20800 tokens, less than a quarter of the threshold of 20000: 11800 stand in "
        "every window, and 4000 are kept as the newest",
    )
    assert trigger.vain(Gain(fixed=10_800, old=6_200, kept=4_000), 200_000) is None
    assert trigger.vain(Gain(fixed=9_800, old=5_000, kept=4_000, earlier=2_000), 200_000) is None
    assert trigger.vain(Gain(fixed=9_700, old=7_200, kept=4_000, summary=1_000), 200_000) is None
    assert trigger.vain(Gain(fixed=9_700, old=7_200, kept=4_000, summary=3_000), 200_000) is None, "a quarter of it"
    assert trigger.vain(Gain(fixed=10_500, old=6_300, kept=4_000, summary=1_400), 200_000) is not None
    by_price = Trigger(Threshold(tokens=150_000), 4_000, "pays")
    assert by_price.vain(Gain(fixed=2_000, old=4_000, kept=4_000), 200_000) is None
    little = by_price.vain(Gain(fixed=4_000, old=3_000, kept=4_000), 200_000)
    assert little == (SILENT, "a compaction frees about 2250 of 11000 tokens, less than a quarter")


async def told(client: ServerClient, conversation: str) -> list[Object]:
    listed: list[Object] = (await client.get(f"/conversations/{conversation}/commands?order=asc"))["data"]
    return listed


async def large_turns(app: App, client: ServerClient, conversation: str, model: ScriptedModel, count: int) -> None:
    for number in range(count):
        model.then(saying("Large.", usage=LARGE))
        await client.send(conversation, f"Large {number}?")
        await app.sessions.wait_until_idle(conversation)


async def test_fixed_content_past_the_threshold_is_told_once_and_asks_no_model(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings: dict[str, Any] = {"compaction_threshold": "1000", "context_budget": 10_000, "keep_recent_tokens": 10}
    async with talking(tmp_path, model, turns=0, **settings) as (app, client, _):
        agent = await client.post("/agents", {"name": "Sailor", "prompt": "You know of ships. " * 1_500})
        conversation = await client.conversation(agent_id=agent["id"])
        await large_turns(app, client, conversation, model, 4)
        texts = [notice["text"] for notice in await told(client, conversation)]
        (fixed,) = [text for text in texts if "what stands in every window (system prompt, tools, agent" in text]
        assert fixed.startswith("Not compacted: ")
    assert len(model.requests) == 4


async def test_a_failure_that_nobody_asked_for_is_told_once(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings: dict[str, Any] = {"compaction_threshold": "5000", "context_budget": 10_000, "keep_recent_tokens": 1_200}
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        model.then(saying("Large.", usage=LARGE), [ProviderUnreachable("down")])
        await client.send(conversation, "How large?")
        async with asyncio.timeout(10):
            while True:
                if await told(client, conversation):
                    break
                await asyncio.sleep(0.01)
        await large_turns(app, client, conversation, model, 3)
        (notice,) = await told(client, conversation)
        said = "Not compacted: the summary could not be made: down. Nothing has changed."
        assert notice["text"] == f"{said} {WAY_OUT}"


async def test_a_compaction_is_undone_with_all_that_was_said_since(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings: dict[str, Any] = {"compaction_threshold": "5000", "context_budget": 10_000, "keep_recent_tokens": 1_200}
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        model.then(saying(SUMMARY), saying("Later."))
        made = await compact(app, conversation)
        assert isinstance(made, Compacted)
        after = await client.get(f"/conversations/{conversation}/context")
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        assert (after["estimate"], after["input"]) == (True, status["data"]["context"])
        assert (after["read"], after["cached_share"]) == (0, None)
        await client.send(conversation, "And later?")
        assert (await client.get(f"/conversations/{conversation}/context"))["estimate"] is False
        first = made.session.parent_id
        key = {"Idempotency-Key": "undo"}
        answer = await client.post(f"/sessions/{made.session.id}/undo", headers=key)
        assert (answer["name"], answer["data"]["session_id"]) == ("undo", first)
        assert await client.post(f"/sessions/{made.session.id}/undo", headers=key) == answer
        opened = await client.get(f"/sessions/{first}")
        assert (opened["id"], opened["current"], opened["summary"], opened["check"]) == (first, True, None, {})
        model.then(saying("All.", usage=LARGE))
        await client.send(conversation, "And all?")
        asked = [text.split("\n")[0] for text in texts(model.requests[-1])]
        said = [line for line in asked if line.endswith("?")]
        assert said == [*(f"Question {n}?" for n in range(4)), "And later?", "And all?"]
        assert not any(SUMMARY in text for text in texts(model.requests[-1]))
        assert not app.sessions.is_compacting(conversation)
        undone = (await app.store.sessions.sessions(LOCAL_OWNER, conversation))[1]
        assert (undone.closed_by, undone.why) == ("undo", "the compaction was undone")
        again = await client.call("POST", f"/sessions/{made.session.id}/undo")
        assert (again.status_code, again.json()["error"]["code"]) == (400, "invalid_request")
        assert (await client.call("POST", "/sessions/sess_9/undo")).status_code == 404


async def test_an_undo_waits_for_the_answer_that_runs(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then(saying(SUMMARY))
        made = await compact(app, conversation)
        assert isinstance(made, Compacted)
        model.then([gate, *saying("Slow.")])
        answering = asyncio.create_task(client.send(conversation, "Slow?"))
        await asyncio.wait_for(gate.reached.wait(), 10)
        waits = await client.call("POST", f"/sessions/{made.session.id}/undo")
        assert waits.status_code == 202
        gate.opened.set()
        await answering
        model.then(saying("All."))
        await client.send(conversation, "And all?")
        assert (
            await app.store.conversations.conversation(LOCAL_OWNER, conversation)
        ).session_id == made.session.parent_id
        assert any(text.startswith("Question 0?") for text in texts(model.requests[-1]))


async def test_after_five_compactions_a_fact_of_the_first_session_is_still_there(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=0, keep_recent_tokens=10) as (app, client, conversation):
        for number in range(5):
            for part in range(2):
                model.then(saying("They spoke of ships. " * 200))
                await client.send(conversation, f"Fact {number}.{part}?")
            model.then(saying(f"# Facts\n- Fact {number} holds."))
            assert isinstance(await compact(app, conversation), Compacted)
        model.then(saying("Yes."))
        await client.send(conversation, "Which facts?")
        window = "\n".join(texts(model.requests[-1]))
        assert [f"Fact {number} holds." in window for number in range(5)] == [True] * 5
        assert window.index("Fact 0 holds.") < window.index("Fact 4 holds.")
