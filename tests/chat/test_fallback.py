"""A model that fails before it has said anything: another answers the turn, and the next turn tries the first again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.core import deltas
from lamella.core.decisions import DecisionKind
from lamella.core.errors import (
    ConfigurationError,
    LamellaError,
    ProviderOverloaded,
    ProviderRefusedKey,
    ProviderRefusedRequest,
    ProviderStreamBroken,
)
from lamella.core.messages import ToolCall
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

from .stage import only, staged, text_of, types

pytestmark = pytest.mark.anyio

DOWN = ProviderOverloaded("one is overloaded", hint="Wait.")


def named(name: str, **facts: Any) -> ScriptedModel:
    return ScriptedModel(facts=replace(FACTS, name=name, **facts))


@asynccontextmanager
async def falling(
    folder: Path, *models: ScriptedModel, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    given = {"fallback_model": "two", **settings}
    async with served(read_settings(data=folder, **given), models=ScriptedModels(*models)) as (app, client):
        yield app, client, await client.conversation()


async def sent(app: App, packets: list[Object]) -> list[tuple[str, str | None, bool]]:
    """The requests of a turn: model, run, and whether it failed."""
    records = await app.store.requests.requests(LOCAL_OWNER, str(packets[0]["turn_id"]))
    return [(record.model, record.run_id, record.error is not None) for record in records]


@pytest.mark.parametrize("error", [DOWN, ProviderRefusedKey("no"), ProviderRefusedRequest("no")])
async def test_the_other_model_answers_this_turn_and_the_first_is_tried_again(
    tmp_path: Path, error: LamellaError
) -> None:
    one, two = named("one"), named("two")
    one.then([error], saying("I am back."))
    two.then(saying("I am two."))
    async with falling(tmp_path, one, two) as (app, client, conversation):
        packets = await client.send(conversation, "Hello?")
        assert types(packets) == [
            *("turn.started", "run.started", "request.started", "model.fallback", "request.started"),
            *("text.delta", "usage", "run.finished", "turn.finished"),
        ]
        told = only(packets, "model.fallback")
        assert (told["requested_model"], told["model"], told["error"]["message"]) == ("one", "two", error.message)
        assert (text_of(packets), packets[-1]["status"]) == ("I am two.", "finished")
        run = str(only(packets, "run.started")["run_id"])
        assert await sent(app, packets) == [("one", run, True), ("two", run, False)]
        decided = [stored.decision for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        [fallback] = [one for one in decided if one.kind is DecisionKind.FALLBACK]
        assert (fallback.subject, fallback.outcome, fallback.why) == ("one", "two", error.message)
        [turn] = await app.store.turns.path(LOCAL_OWNER, conversation)
        assert [(step.model, step.text) for step in turn.steps] == [("two", "I am two.")]
        assert text_of(await client.send(conversation, "And you?")) == "I am back."
    assert (len(one.requests), len(two.requests)) == (2, 1)


async def test_what_the_first_was_billed_stays_its_own(tmp_path: Path) -> None:
    one, two = named("one"), named("two")
    one.then([deltas.UsageReported(Usage(input=50)), ProviderStreamBroken("broke")])
    two.then(saying("Two."))
    async with falling(tmp_path, one, two) as (_, client, conversation):
        packets = await client.send(conversation, "Hello?")
        assert packets[-1]["usage"]["input"] == 150
        assert (await client.get(f"/turns/{packets[0]['turn_id']}"))["usage"]["input"] == 150


async def test_the_window_is_built_for_the_other_model(tmp_path: Path) -> None:
    one, two = named("one"), named("two", window=40_000)
    one.then(saying("Yes."), [DOWN])
    two.then(saying("Two."))
    async with falling(tmp_path, one, two) as (app, client, conversation):
        await client.send(conversation, "Hello?")
        packets = await client.send(conversation, "And now?")
        budgets = [packet["budget"] for packet in packets if packet["type"] == "request.started"]
        assert budgets == [200_000 - 16_000, 40_000 - 16_000]
        texts = [str(block.value.get("text")) for block in two.requests[0].blocks if block.level == "messages"]
        assert [text.split("\n")[0] for text in texts] == ["Hello?", "Yes.", "And now?"]
        failed, _ = await app.store.requests.requests(LOCAL_OWNER, str(packets[0]["turn_id"]))
        assert failed.error is not None


async def test_an_answer_that_has_begun_is_not_taken_over(tmp_path: Path) -> None:
    one, two = named("one"), named("two")
    broken = ProviderStreamBroken("broke")
    one.then([deltas.TextDelta(0, "I "), broken], calling(ToolCall("c", "read_file", "{}")), [DOWN])
    async with falling(tmp_path, one, two) as (_, client, conversation):
        for question in ("Hello?", "Read?"):
            packets = await client.send(conversation, question)
            assert "model.fallback" not in types(packets)
            assert packets[-1]["status"] == "failed"
    assert two.requests == []


async def test_one_that_fails_too_is_the_end(tmp_path: Path) -> None:
    one, two = named("one"), named("two")
    one.then([DOWN])
    two.then([ProviderRefusedKey("two has no key")])
    async with falling(tmp_path, one, two) as (_, client, conversation):
        packets = await client.send(conversation, "Hello?")
        assert (only(packets, "error")["error"]["message"], packets[-1]["status"]) == ("two has no key", "failed")


async def test_a_model_that_answers_anyway_is_not_asked_twice(tmp_path: Path) -> None:
    one, two = named("one"), named("two")
    one.then([DOWN])
    two.then(saying("Two."))
    async with falling(tmp_path, one, two) as (_, client, conversation):
        packets = await client.send(conversation, "Hello?", models=["one", "two"])
        assert "model.fallback" not in types(packets)
        assert sorted(p["status"] for p in packets if p["type"] == "run.finished") == ["end_turn", "error"]


async def test_an_agents_fallback_comes_before_the_deployments(tmp_path: Path) -> None:
    one, two, three = named("one"), named("two"), named("three")
    one.then([DOWN])
    three.then(saying("Three."))
    async with falling(tmp_path, one, two, three) as (_, client, _):
        made = await client.post("/agents", {"name": "A", "prompt": "Be kind.", "fallback_model": "three"})
        assert made["fallback_model"] == "three"
        conversation = await client.conversation(agent_id=made["id"])
        assert text_of(await client.send(conversation, "Hello?")) == "Three."
        wrong = await client.call("PATCH", f"/agents/{made['id']}", json={"fallback_model": "nobody"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "fallback_model")


async def test_a_fallback_that_nobody_serves_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path, fallback_model="nobody")
    with pytest.raises(ConfigurationError) as refused:
        async with open_app(settings, models=ScriptedModels(named("one"))):
            pass
    assert refused.value.param == "LAMELLA_FALLBACK_MODEL"


async def test_another_provider_takes_over_when_one_is_overloaded(provider: str, tmp_path: Path) -> None:
    other = {"openai_base_url": f"{provider}/v1", "openai_api_key": SecretStr("k"), "openai_api": "responses"}
    async with staged(provider, tmp_path, fallback_model="gpt-6.1-terra", **other) as stage:
        conversation = await stage.client.conversation()
        packets = await stage.turn(conversation, "Hello?", {"text": "I am here.", "fault": {"kind": "529", "times": 1}})
        assert only(packets, "model.fallback")["model"] == "gpt-6.1-terra"
        assert (text_of(packets), packets[-1]["status"]) == ("I am here.", "finished")
