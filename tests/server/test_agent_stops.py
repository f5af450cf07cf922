"""Stop sequences of an agent's client: the answer ends before them at every provider, and is stored so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.deltas import TextDelta
from lamella.core.json import encode_text
from lamella.core.records import PageQuery
from lamella.llm.scripted import ScriptedModel, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.provider import Provider, simulated
from scripted_tools import finding

from .agent_clients import AgentClient, Library

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
FIELDS = {"messages": "stop_sequences", "chat": "stop"}
APIS = pytest.mark.parametrize("api", FIELDS)
UPSTREAMS = {
    "claude-opus-5-5": ("responses", "stop_sequences"),
    "gpt-6.1-terra": ("responses", None),
    "gpt-5.6": ("chat", None),
    "gpt-4.1": ("chat", "stop"),
}
"""The API of OpenAI's models, and the field with which each gets the texts; None: the engine ends the answer."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with simulated() as found:
        yield found


@pytest.fixture(params=UPSTREAMS)
async def over_provider(
    request: pytest.FixtureRequest, provider: Provider, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[tuple[str, App, ServerClient]]:
    settings: dict[str, Any] = {"openai_api_key": "k", "openai_base_url": provider.openai_url, "model": request.param}
    settings |= {"anthropic_api_key": "k", "anthropic_base_url": provider.url}
    settings |= {"openai_api": UPSTREAMS[request.param][0], "thinking_effort": "medium"}
    words = {"text": "At noon. END of it all, and more of that. " * 20, "reasoning": "Is this the END?"}
    provider.script({"first": {"match": "When", **words}, "second": {"match": "Sure", "text": "Yes."}})
    async with served(read_settings(data=tmp_path, **settings), checked=False) as (app, client):
        await client.post("/agents", {"name": "Pilot", "prompt": "You know tides. " * 300})
        yield request.param, app, client


@APIS
@BOTH
async def test_an_answer_ends_before_the_text_and_is_stored_so(
    over_provider: tuple[str, App, ServerClient], provider: Provider, api: str, streams: bool
) -> None:
    model, app, client = over_provider
    stops = ["\n\n\n", "END"]
    talk = Library(str(client.http.base_url).rstrip("/"), api)
    assert await talk.ask("When?", streams=streams, **{FIELDS[api]: stops}) == "At noon. "
    tells = model != "gpt-4.1"  # OpenAI does not tell whether an answer ended at a text of the request
    ended = ("stop_sequence", "END") if tells else ("end_turn", None)
    assert talk.stopped == {"messages": ended, "chat": ("stop", None)}[api]
    sent = provider.requests[-1].json
    field = UPSTREAMS[model][1]
    given = [name for name in ("stop", "stop_sequences") if name in sent]
    assert given == ([field] if field is not None else [])
    [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
    turn = await app.store.turns.turn(LOCAL_OWNER, line.turn_id)
    assert turn.run.answer == "At noon. "
    assert turn.usage.estimated is (field is None)
    assert 0 < turn.usage.output < 60
    assert await talk.ask("Sure?", streams=streams) == "Yes."
    [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
    assert line.turns == 2
    first, second = [one for one in provider.requests if one.path != "/v1/models"]
    if tells:  # what is not known of a model is not cached at its breakpoints
        assert second.tokens_read >= first.tokens_read + first.tokens_written > 0
    assert "At noon. " in encode_text(second.json)
    assert "of it all" not in encode_text(second.json)


# Over a model that follows a script


@pytest.fixture
async def pilot(client: ServerClient) -> ServerClient:
    await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
    return client


@APIS
async def test_the_text_may_come_in_pieces_in_any_step_and_ends_the_turn(
    pilot: ServerClient, model: ScriptedModel, api: str
) -> None:
    words = [TextDelta(0, one) for one in ("I look. E", "N", "D and so on")]
    model.then([*words, *calling(finding("c1", "x"))], saying("Next."))
    talk = AgentClient(pilot.http, api, streams=True, fields={FIELDS[api]: ["END"]})
    assert await talk.ask("When?") == "I look. "
    talk.fields = {}
    assert await talk.ask("And then?") == "Next."
    assert (model.left, len(model.requests)) == (1, 2)


@APIS
async def test_an_answer_that_begins_with_the_text_says_nothing_and_is_not_asked_for_again(
    pilot: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then(saying("END of it"), saying("Next."))
    talk = AgentClient(pilot.http, api, fields={FIELDS[api]: "END" if api == "chat" else ["END"]})
    talk.history.append(("user", "When?"))
    answer = await talk.post()
    assert answer.status_code == 200
    talk.history.append(("user", "And then?"))
    assert b"Next." in (await talk.post()).content
    assert len(model.requests) == 2


@APIS
async def test_too_many_texts_are_refused(pilot: ServerClient, model: ScriptedModel, api: str) -> None:
    talk = AgentClient(pilot.http, api, fields={FIELDS[api]: [f"stop {n}" for n in range(17)]})
    talk.history.append(("user", "When?"))
    refused = await talk.post()
    assert (refused.status_code, "stop" in refused.json()["error"]["message"]) == (400, True)
    assert model.requests == []
