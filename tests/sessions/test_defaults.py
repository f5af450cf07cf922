"""What happens by itself at the shipped settings: detail comes before cents, and the gauge says when (SPEC X-ECON)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.economics import Rates
from lamella.cache.weighing import CompactWhen, Economy, floor_of, next_compaction
from lamella.core.amounts import Threshold
from lamella.core.tokens import Usage
from lamella.engine.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Client, Object, served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

LARGE = 984_000
"""The window of the models that people use, less the reserved output."""


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **given: Any) -> AsyncIterator[tuple[Client, str]]:
    async with served(read_settings(data=folder, titles=False, **given), models=ScriptedModels(model)) as (_, client):
        yield client, await client.conversation()


async def take_turn(client: Client, conversation: str, model: ScriptedModel, input: int, words: int = 30) -> None:
    """A turn whose answer has so many words; its request is billed `input` tokens."""
    model.then(saying("word " * words, usage=Usage(input=input, output=words)))
    packets = await client.send(conversation, "And what of the next one, please?")
    assert packets[-1]["status"] == "finished"


async def gauge(client: Client, conversation: str) -> Object:
    """The gauge once what follows a turn is done."""
    async with asyncio.timeout(20):
        while True:
            now = await client.get(f"/conversations/{conversation}/context")
            if not now["compacting"]:
                return now
            await asyncio.sleep(0.01)


def summaries(model: ScriptedModel) -> int:
    """How often a summary was asked for."""
    asked = (str(request.blocks[-1].value.get("text")) for request in model.requests)
    return sum("Summarise this conversation now." in text for text in asked)


def large() -> ScriptedModel:
    return ScriptedModel(facts=replace(FACTS, window=LARGE + 16_000))


@pytest.mark.parametrize(("when", "made"), [("balanced", False), ("pays", True)])
async def test_far_below_the_floor_nothing_is_compacted_by_itself(tmp_path: Path, when: str, made: bool) -> None:
    """At 60 thousand tokens of 984,000, where prices alone ask for a summary, nothing has to go."""
    model = large()
    async with talking(tmp_path, model, compaction_when=when) as (client, conversation):
        for turn in range(15):
            if not summaries(model):
                await take_turn(client, conversation, model, 2_000 + turn * 4_000, words=3_600)
                now = await gauge(client, conversation)
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        told = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    assert (summaries(model) > 0, now["compaction_when"]) == (made, when)
    if not made:
        assert (now["input"], now["budget"], [one["name"] for one in told]) == (58_000, LARGE, ["status"])
        assert (now["compaction_at"], now["compaction_by"]) == (100_000, "price")
        assert "Compaction: by itself above 100k tokens, where a summary pays (balanced)" in status["answer"]
        assert status["data"]["compaction_at"] == 100_000


STEADY = [3_000] * 20


def uneven(seed: int) -> list[int]:
    """What the turns of a conversation add: most of them little, some much."""
    random = Random(seed)
    return [random.choice([300, 800, 1_500, 2_500, 9_000]) for _ in range(40)]


@pytest.mark.parametrize(
    ("adds", "chosen"),
    [
        (STEADY, {"compaction_floor": "30k"}),
        (uneven(1), {"compaction_when": "pays"}),
        (uneven(2), {"compaction_floor": "20%"}),
        (uneven(3), {"compaction_when": "full", "compaction_threshold": "20k"}),
    ],
)
async def test_what_the_gauge_says_is_when_it_happens(tmp_path: Path, adds: list[int], chosen: dict[str, str]) -> None:
    """Up to the size that the gauge names nobody is asked for a summary; after the first turn above it, one is.

    With turns of one size that size is what was said many turns before. No summary is made, so nothing changes.
    """
    model, input = ScriptedModel(), 2_000
    said: list[tuple[int, int, bool]] = []
    async with talking(tmp_path, model, **chosen) as (client, conversation):
        for add in adds:
            await take_turn(client, conversation, model, input, words=int(add * 0.9))
            now, asked = await gauge(client, conversation), summaries(model) > 0
            said.append((now["input"], now["compaction_at"], asked))
            input += add
            if asked:
                break
    assert [asked for _, _, asked in said] == [False] * (len(said) - 1) + [True]
    assert [input > at for input, at, _ in said] == [asked for _, _, asked in said]
    if adds is STEADY:
        assert [at for _, at, _ in said[3:]] == pytest.approx([said[-1][1]] * len(said[3:]), rel=0.05)


ECONOMIES = st.builds(
    Economy,
    rates=st.builds(Rates, st.floats(0.01, 0.5), st.sampled_from([1.0, 1.25, 2.0]), st.floats(2, 10)),
    static=st.integers(0, 60_000),
    growth=st.floats(1, 20_000),
    calls=st.integers(1, 2_000),
)


@given(ECONOMIES, st.integers(0, 900_000), st.integers(8_000, 984_000), st.sampled_from(["full", "balanced", "pays"]))
def test_a_window_that_grows_as_it_did_is_compacted_at_the_size_that_was_said(
    economy: Economy, window: int, budget: int, when: CompactWhen
) -> None:
    """Asked again behind each call, the answer is the same to one call; it is never below the floor."""
    most, floor = Threshold(share=0.8).in_tokens(budget), floor_of(when, budget)
    said = next_compaction(window, most, floor, economy, 4_000).at
    assert min(floor or 0, most) <= said <= most
    if window > said:
        return
    first, last = max(0, int((said - window) / economy.growth) - 30), int((said - window) / economy.growth) + 2
    for calls in range(first, last):
        size, later = int(window + calls * economy.growth), replace(economy, calls=economy.calls + calls)
        if size > next_compaction(size, most, floor, later, 4_000).at:
            assert size > said - economy.growth - 2
            return
    assert economy.growth < 2 or size <= said + economy.growth + 2, "it is due once it has grown above it"


@given(st.floats(10, 200), st.integers(0, 10_000))
def test_a_thousand_short_turns_are_not_compacted_in_a_large_window(growth: float, static: int) -> None:
    most, paid = int(LARGE * 0.8), 0
    for calls in range(1, 1_000, 7):
        economy = Economy(Rates(0.05, 1.25, 5), static, growth, calls)
        window = int(static + growth * calls)
        due = next_compaction(window, most, floor_of("balanced", LARGE), economy, 4_000)
        assert window <= due.at or window > 100_000
        paid += window > next_compaction(window, most, floor_of("pays", LARGE), economy, 4_000).at
    assert paid or growth * 1_000 < 20_000, "by price alone it would have been"


def test_floors() -> None:
    assert floor_of("full", 200_000) is None
    assert floor_of("pays", 200_000) == 0
    assert [floor_of("balanced", budget) for budget in (20_000, 184_000, 984_000)] == [8_000, 73_600, 100_000]
    assert floor_of("balanced", 184_000, Threshold.of("50%")) == 92_000
    assert floor_of("balanced", 184_000, Threshold.of("30k")) == 30_000
