"""What happens by itself at the shipped settings: detail comes before cents, and the gauge says when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.app.app import LOCAL_OWNER
from lamella.cache.economics import CompactionCost, CompactWhen, Rates, floor_of, next_compaction, offer
from lamella.core.records import NewJob, ProviderLimit
from lamella.core.tokens import Threshold, Usage
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.sessions.compactions import COMPACT
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

LARGE = 984_000
"""The window of the models that people use, less the reserved output."""


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **given: Any) -> AsyncIterator[tuple[ServerClient, str]]:
    async with served(read_settings(data=folder, titles=False, **given), models=ScriptedModels(model)) as (_, client):
        yield client, await client.conversation()


async def take_turn(
    client: ServerClient, conversation: str, model: ScriptedModel, input: int, words: int = 30, asked: int = 0
) -> None:
    """A turn whose answer has so many words, its question `asked` and a few; its request is billed `input` tokens."""
    model.then(saying("word " * words, usage=Usage(input=input, output=words)))
    packets = await client.send(conversation, "And what of the next one, please?" + " word" * asked)
    assert packets[-1]["status"] == "finished"


async def gauge(client: ServerClient, conversation: str) -> Object:
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


def dear() -> ScriptedModel:
    """The same at $10 a million tokens of input."""
    return ScriptedModel(facts=replace(FACTS, window=LARGE + 16_000, price=replace(FACTS.price, input=10, output=50)))


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
        assert "Compaction: automatic above 100k tokens, where a summary pays (balanced)" in status["answer"]
        assert status["data"]["compaction_at"] == 100_000


async def test_below_the_floor_a_compaction_is_offered_with_what_it_saves(tmp_path: Path) -> None:
    """From the size on at which ten more messages cost so much less that somebody may want to choose it."""
    model = dear()
    async with talking(tmp_path, model) as (client, conversation):
        offers = []
        for turn in range(30):
            await take_turn(client, conversation, model, 2_000 + turn * 1_200, asked=1_100)
            now = await gauge(client, conversation)
            offers.append(now["compaction_offer"])
            assert now["input"] < now["compaction_at"]
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
    first = next(turn for turn, found in enumerate(offers) if found is not None)
    assert first > 2, "a short conversation is left in peace"
    assert all(found is not None for found in offers[first:])
    saved = [found["saves"] for found in offers[first:]]
    assert saved == sorted(saved)
    assert saved[0] >= 0.02
    assert min(found["share"] for found in offers[first:]) >= 0.25
    assert {found["messages"] for found in offers[first:]} == {10}
    share, dollars = round(100 * offers[-1]["share"]), offers[-1]["saves"]
    said = f"/compact now would save about ${dollars:.2f} of the next 10 messages ({share}%)"
    assert said in status["answer"].splitlines()
    assert status["data"]["compaction_offer"] == pytest.approx(offers[-1])


@pytest.mark.parametrize("chosen", [{"layout": "lis"}, {"asked": 100}])
async def test_nothing_is_offered_where_no_price_decides_or_little_is_saved(
    tmp_path: Path, chosen: dict[str, Any]
) -> None:
    model, asked = dear(), chosen.get("asked", 1_100)
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as (_, client):
        made = await client.post("/conversations", {"layout": chosen.get("layout", "lamella")})
        for turn in range(30):
            await take_turn(client, made["id"], model, 2_000 + turn * int(asked * 1.1), asked=asked)
        assert (await gauge(client, made["id"]))["compaction_offer"] is None


async def test_what_was_taken_back_is_not_offered(tmp_path: Path) -> None:
    model = dear()
    async with talking(tmp_path, model) as (client, conversation):
        for turn in range(30):
            await take_turn(client, conversation, model, 2_000 + turn * 1_200, asked=1_100)
        assert (await gauge(client, conversation))["compaction_offer"]
        model.then(saying("The next ones were spoken of.", usage=Usage(input=46_000, output=9)))
        await client.post(f"/conversations/{conversation}/commands", {"text": "/compact"})
        assert (await gauge(client, conversation))["compaction_offer"] is None
        await client.post(f"/conversations/{conversation}/commands", {"text": "/undo"})
        assert (await gauge(client, conversation))["compaction_offer"] is None


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


async def test_a_limit_that_a_provider_has_taught_counts_for_the_gauge_and_for_the_next_compaction(
    tmp_path: Path,
) -> None:
    """It takes 60,000 tokens where the budget has 184,000: 80 % of that is where it is compacted, and is said to be."""
    model = ScriptedModel()
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        for turn in range(8):
            await take_turn(client, conversation, model, 2_000 + turn * 6_000, asked=5_800)
        before = await gauge(client, conversation)
        until = app.clock.now() + timedelta(minutes=30)
        await app.store.requests.keep_provider_limit(ProviderLimit("scripted", "scripted", 60_000, until))
        held = await gauge(client, conversation)
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        model.then(saying("Word.", usage=Usage(input=50_000, output=2)))
        model.then(saying("Words were said.", usage=Usage(input=50_000, output=5)))
        await client.send(conversation, "And now?")
        after = await gauge(client, conversation)
    assert (before["budget"], before["compaction_at"]) == (184_000, 73_600)
    assert (held["budget"], held["compaction_by"]) == (60_000, "price")
    assert 24_000 <= held["compaction_at"] <= 48_000
    assert status["data"]["budget"] == 60_000
    assert summaries(model) == 1
    assert after["input"] < 24_000


async def test_a_compaction_that_a_dead_process_left_is_about_to_run_for_all_who_ask(tmp_path: Path) -> None:
    """Before anybody has taken it up, the gauge, `/status` and `/compact` say the same of it."""
    model = ScriptedModel()
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        await take_turn(client, conversation, model, 2_000)
        await gauge(client, conversation)
        path = f"/conversations/{conversation}"

        async def said() -> list[object]:
            status = await client.post(f"{path}/commands", {"text": "/status"})
            return [(await client.get(f"{path}/context"))["compacting"], status["data"]["compacting"]]

        now, jobs = app.clock.now(), app.store.jobs
        later = NewJob(COMPACT, conversation, "tried again", now + timedelta(minutes=5))
        await jobs.enqueue(LOCAL_OWNER, later, now)
        assert await said() == [False, False]
        left = NewJob(COMPACT, conversation, "left", now, takes_over=True)
        await jobs.enqueue(LOCAL_OWNER, left, now)
        assert await said() == [True, True]
        dead = await jobs.claim((COMPACT,), now, 0)
        assert dead is not None
        assert await said() == [True, True]
        assert (await client.post(f"{path}/compact"))["data"] == {"started": False, "why": "running"}


async def test_another_model_is_told_how_much_there_is_to_read(tmp_path: Path) -> None:
    """Nothing was billed for it yet: the gauge shows what is counted, as `/status` does."""
    small = ScriptedModel(facts=replace(FACTS, name="small", window=40_000))
    model = ScriptedModel()
    models = ScriptedModels(model, small)
    async with served(read_settings(data=tmp_path, titles=False), models=models) as (_, client):
        conversation = await client.conversation()
        assert (await gauge(client, conversation))["input"] == 0
        for turn in range(6):
            await take_turn(client, conversation, model, 2_000 + turn * 6_000, asked=5_800)
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        now = await gauge(client, conversation)
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
    assert now["estimate"]
    assert now["input"] == status["data"]["context"] > 30_000


ECONOMIES = st.builds(
    CompactionCost,
    rates=st.builds(Rates, st.floats(0.01, 0.5), st.sampled_from([1.0, 1.25, 2.0]), st.floats(2, 10)),
    static=st.integers(0, 60_000),
    growth=st.floats(1, 20_000),
    calls=st.integers(1, 2_000),
)


@given(ECONOMIES, st.integers(0, 900_000), st.integers(8_000, 984_000), st.sampled_from(["full", "balanced", "pays"]))
def test_a_window_that_grows_as_it_did_is_compacted_at_the_size_that_was_said(
    economy: CompactionCost, window: int, budget: int, when: CompactWhen
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
        economy = CompactionCost(Rates(0.05, 1.25, 5), static, growth, calls)
        window = int(static + growth * calls)
        due = next_compaction(window, most, floor_of("balanced", LARGE), economy, 4_000)
        assert window <= due.at or window > 100_000
        paid += window > next_compaction(window, most, floor_of("pays", LARGE), economy, 4_000).at
    assert paid or growth * 1_000 < 20_000, "by price alone it would have been"


@given(ECONOMIES, st.integers(1, 400_000), st.integers(1, 9), st.booleans())
def test_an_offer_is_what_ten_messages_cost_with_and_without_it(
    economy: CompactionCost, window: int, per_message: int, cold: bool
) -> None:
    """Counted call by call: what each reads of the cache, writes to it and answers."""
    economy = replace(economy, calls=4 * per_message, turns=(window // 4,) * 4, answer=economy.growth / 2)
    window = max(window, economy.static)
    rates, made = economy.rates, economy.compaction(window, 4_000)

    def bill(size: float, written: float) -> float:
        """Ten messages, whose first call finds `written` of the window in no cache."""
        total = (rates.write - rates.read) * written
        for _ in range(10 * per_message):
            total += rates.read * size + rates.write * economy.growth + rates.output * economy.answer
            size += economy.growth
        return total

    without = bill(window, window if cold else 0)
    summary = (1.0 if cold else rates.read) * window + made.question + rates.output * made.summary
    after = bill(made.left, made.left if cold else made.summary + made.kept)
    saves, share = (without - summary - after) * 5 / 1_000_000, (without - summary - after) / without
    found = offer(window, economy, 4_000, 5.0, cold=cold)
    if found is not None:
        assert found.saves == pytest.approx(saves)
        assert found.share == pytest.approx(share)
        assert saves >= 0.0199
        assert share >= 0.2499
    else:
        assert saves < 0.0201 or share < 0.2501


def test_floors() -> None:
    assert floor_of("full", 200_000) is None
    assert floor_of("pays", 200_000) == 0
    assert [floor_of("balanced", budget) for budget in (20_000, 184_000, 984_000)] == [8_000, 73_600, 100_000]
    assert floor_of("balanced", 184_000, Threshold.of("50%")) == 92_000
    assert floor_of("balanced", 184_000, Threshold.of("30k")) == 30_000
