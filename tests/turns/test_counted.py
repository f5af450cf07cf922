"""The provider's own count of a request near the limit, as a user and a provider see it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lamella.agent.calibration import Counted, count
from lamella.app.app import LOCAL_OWNER
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ContextLengthExceeded, ProviderUnreachable
from lamella.core.prompt import WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import served
from lamella.settings import read_settings

from .test_giving_way import Words, degraded, kinds_of_decisions, results, talking, words

pytestmark = pytest.mark.anyio

BUDGET = 10_000


class Provider:
    """Counts `factor` tokens for every four characters of a request."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, request: WireRequest) -> int:
        return int(sum(len(block.data) for block in request.blocks) / 4 * self.factor)


def down(request: WireRequest) -> int:
    raise ProviderUnreachable("Nobody answers at http://127.0.0.1:9.")


async def estimates(app: Any, packets: list[dict[str, Any]]) -> list[tuple[int, int]]:
    requests = await app.store.requests.requests(LOCAL_OWNER, packets[0]["turn_id"])
    return [(request.local_tokens, request.estimate) for request in requests]


async def test_a_request_whose_estimate_is_too_low_is_fitted_by_the_count(tmp_path: Path) -> None:
    """Old results give way before it is sent, by a decision with the numbers; the provider has nothing to refuse."""
    provider = Provider(2.0)
    bill = saying("Many.", usage=Usage(input=5_400, output=10))
    model = ScriptedModel([calling(words("c1", 2_000)), bill, saying("Again.")], counting=provider)
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (app, client, conversation):
        await client.send(conversation, "Go")
        asked = len(model.counted)
        packets = await client.send(conversation, "And now? " * 1_200)
        assert packets[-1]["status"] == "finished"
        assert results(model.requests[-1]) == {"c1": "words"}
        assert len(model.counted) == asked + 1
        assert provider(model.requests[-1]) <= BUDGET
        decided = [stored.decision for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        [learnt] = [decision for decision in decided if decision.kind is DecisionKind.CALIBRATION]
        assert learnt.numbers["counted"] == provider(model.counted[-1]) > BUDGET
        assert learnt.numbers["before"] < float(learnt.outcome)
        assert f"counts {int(learnt.numbers['counted'])} tokens" in learnt.why


async def test_results_that_come_within_a_turn_are_counted_too(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 3_500)), saying("Many.")], counting=Provider(1.6))
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "finished"
        assert results(model.requests[-1])["c1"].startswith("[Cut to fit the window")
        assert len(model.counted) == 1
        assert "is made smaller" in degraded(packets)[0]
        assert await kinds_of_decisions(app, conversation) == [DecisionKind.CALIBRATION, DecisionKind.CUT]


async def test_a_count_within_the_budget_changes_nothing_of_what_is_sent(tmp_path: Path) -> None:
    """Also where it is so near the limit that an estimate would leave no margin."""
    text = "word " * 8_900
    model = ScriptedModel([saying("Long.")], counting=lambda request: BUDGET - 50)
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (app, client, conversation):
        packets = await client.send(conversation, text)
        assert packets[-1]["status"] == "finished"
        assert degraded(packets) == []
        [(_, estimate)] = await estimates(app, packets)
        assert estimate == BUDGET - 50
        assert len(model.counted) == 1


async def test_a_count_above_the_budget_compacts_first(tmp_path: Path) -> None:
    """A request over the limit is compacted first and then sent."""
    script = [saying(f"Answer {n}.", usage=Usage(input=4_000 * n, output=10)) for n in (1, 2)]
    provider = Provider(1.5)
    model = ScriptedModel([*script, saying("Facts: none."), saying("Here.")], counting=provider)
    settings = read_settings(data=tmp_path, context_budget=BUDGET, compaction_threshold="100%", keep_recent_tokens=500)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        await client.send(conversation, "one " * 3_600)
        await client.send(conversation, "two " * 3_600)
        packets = await client.send(conversation, "three " * 1_400)
        assert packets[-1]["status"] == "finished"
        sessions = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert len(sessions) == 2
        assert provider(model.counted[-1]) > BUDGET >= provider(model.requests[-1])


@pytest.mark.parametrize("counting", [None, down, lambda request: 0])
async def test_a_count_that_fails_leaves_the_estimate(
    tmp_path: Path,
    counting: Any,
) -> None:
    """The turn is answered; the endpoint is asked once in it, and the log says what became of that."""
    model = ScriptedModel(
        [calling(words("c1", 3_500)), calling(words("c2", 3_000)), saying("Many.")], counting=counting
    )
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (app, client, conversation):
        with capture_logs() as logs:
            packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "finished"
        assert len(model.counted) == 1
        assert [entry["log_level"] for entry in logs if "was not counted" in entry["event"]] == ["warning"]
        assert DecisionKind.CALIBRATION not in await kinds_of_decisions(app, conversation)


async def test_what_the_count_finds_too_large_whatever_gives_way_is_told_and_remembered(tmp_path: Path) -> None:
    model = ScriptedModel([saying("never said")], counting=Provider(3.0))
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (_, client, conversation):
        with pytest.raises(ContextLengthExceeded) as caught:
            await client.send(conversation, "word " * 8_900)
        assert caught.value.message.startswith("This request has about 3")
    assert model.requests == []


async def test_small_requests_are_not_counted(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 1_000)), saying("Some.")], counting=Provider(1.0))
    async with talking(tmp_path, model, Words(), context_budget=BUDGET) as (_, client, conversation):
        assert (await client.send(conversation, "Go"))[-1]["status"] == "finished"
    assert model.counted == []


class Silent(ScriptedModel):
    """Never counts to the end."""

    async def count(self, request: WireRequest) -> int:
        await asyncio.Event().wait()
        return 0


async def test_a_count_is_not_waited_for_without_end() -> None:
    request = WireRequest({}, (), ())
    assert await count(Silent(), request, 100, seconds=0.01) is None
    assert await count(ScriptedModel(counting=lambda _: 120), request, 100) == Counted(100, 120)
