"""A client changes the model within a conversation: thinking goes back to the model that made it, and to no other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import openai
import pytest

from lamella.app.app import App
from lamella.gateway.additions import without_own_seals
from lamella.gateway.canonical import SEAL, CarriedThinking, carrying_id
from lamella.gateway.dialects import Dialect
from lamella.server.testing import ServerClient, served
from lamella_simulator.provider import Provider

from .conftest import settings_of
from .test_across import TALKS, Talk, address
from .test_lines import lines

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["chat", "responses"])
async def door(
    request: pytest.FixtureRequest, provider: Provider, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server that asks OpenAI's models for other clients over this API."""
    settings = settings_of(provider.url, provider.openai_url, tmp_path)
    async with served(settings.model_copy(update={"openai_api": request.param})) as made:
        yield made


WIRES = pytest.mark.parametrize("wire", list(TALKS))
CLAUDE, SONNET, TERRA, SOL = MODELS = "claude-opus-5-5", "claude-sonnet-5-5", "gpt-6.1-terra", "gpt-6.1-sol"


async def turn(talk: Talk, model: str, provider: Provider, name: str) -> None:
    """A turn of this model with a call: it thinks of its name before the call and after it."""
    call = {"name": "Weather", "arguments": {"place": name}}
    thought = f"I think of {name}."
    provider.script({"called": {"match": name, "reasoning": thought, "tool_calls": [call]}})
    talk.model = model
    talk.say(f"Go to {name}")
    _, calls = await talk.step()
    provider.script({"called": {"match": ".", "reasoning": thought, "text": f"Rain in {name}."}})
    for id, _, _ in calls:
        talk.answer(id, f"Wet in {name}")
    if calls:
        await talk.step()


NAMES = ("Ystad", "Simrishamn", "Malmo", "Visby", "Kalmar", "Lund")


@WIRES
@pytest.mark.parametrize(("first", "second"), [(CLAUDE, SONNET), (CLAUDE, TERRA), (TERRA, CLAUDE), (TERRA, SOL)])
async def test_there_and_back(
    app: App, client: ServerClient, provider: Provider, wire: str, first: str, second: str
) -> None:
    talk = TALKS[wire](address(client), streams=True, tool="Weather")
    await turn(talk, first, provider, "Ystad")
    native = wire == "responses" and first.startswith("gpt") and second.startswith("gpt")
    if native:  # nothing of the client's is altered on the way to its own API: the vendor decides, as without us
        with pytest.raises(openai.BadRequestError, match="organization_id or model did not match"):
            await turn(talk, second, provider, "Visby")
        return
    await turn(talk, second, provider, "Visby")
    await turn(talk, first, provider, "Lund")
    sent = json.dumps(provider.requests[-1].json)
    assert SEAL not in sent
    assert "--lamella--" not in sent
    assert all(logged.status == 200 for logged in provider.requests)


@WIRES
@pytest.mark.parametrize("seed", range(3))
async def test_a_client_changes_the_model_as_it_likes(
    app: App, client: ServerClient, provider: Provider, wire: str, seed: int
) -> None:
    random, talk = Random(seed), TALKS[wire](address(client), streams=bool(seed % 2), tool="Weather")
    models = (CLAUDE, SONNET, TERRA) if wire == "responses" else MODELS
    for name in NAMES:
        await turn(talk, random.choice(models), provider, name)
        assert SEAL not in json.dumps(provider.requests[-1].json)
    assert all(logged.status == 200 for logged in provider.requests)
    assert sum(line["cost"] for line in await lines(app, client)) == pytest.approx(provider.cost)


def test_ids_of_calls_lose_what_they_carry_and_nothing_else_changes() -> None:
    long = carrying_id("call_1", [CarriedThinking("Hm.", "EqQB")])
    text = json.dumps({"id": long, "tool_call_id": long})
    call: Any = {"id": long, "type": "function", "function": {"name": "look", "arguments": text}}
    said: Any = [{"role": "assistant", "tool_calls": [call], "content": text}]
    body: Any = {"messages": [*said, {"role": "tool", "tool_call_id": long, "content": text}], "tools": [{"id": "a"}]}
    sent = json.dumps(body).encode()
    found = without_own_seals(Dialect.CHAT, sent)
    plain: Any = body | {"messages": [said[0] | {"tool_calls": [call | {"id": "call_1"}]}, dict(body["messages"][1])]}
    plain["messages"][1]["tool_call_id"] = "call_1"
    assert json.loads(found) == plain
    assert without_own_seals(Dialect.CHAT, found) is found
