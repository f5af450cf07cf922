"""An agent's thinking in the APIs of other vendors: shown, sent back, and never given to a vendor as its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.deltas import (
    Closed,
    ReasoningDelta,
    ReasoningSealed,
    TextDelta,
    ToolArgsDelta,
    ToolCallOpened,
    UsageReported,
)
from lamella.core.json import encode_text
from lamella.core.messages import StopReason
from lamella.core.records import PageQuery
from lamella.core.tokens import Usage
from lamella.gateway.canonical import OWN_SEAL
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.provider import Provider, simulated
from scripted_tools import WebSearch, finding

from .agent_clients import PATHS, AgentClient, Library

pytestmark = pytest.mark.anyio

APIS = pytest.mark.parametrize("api", PATHS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
SAID = "I look.\n\nAt noon."
THOUGHT = ["Where is it?", "\n\nNow I know."]


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model), more_tools=(WebSearch(),)) as opened:
        await opened[1].post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        yield opened


def library(client: ServerClient, api: str, model: str = "agent:Pilot") -> Library:
    return Library(str(client.http.base_url).rstrip("/"), api, model)


def thinks_twice(model: ScriptedModel) -> None:
    call = finding("c1", "HIDDEN RESULT")
    bill = UsageReported(Usage(input=100, output=10))
    model.then(
        [
            *(ReasoningDelta(0, "Where "), ReasoningDelta(0, "is it?"), ReasoningSealed(0, "A GENUINE SEAL")),
            *(TextDelta(1, "I look."), ToolCallOpened(2, call.id, call.name), ToolArgsDelta(2, call.arguments)),
            *(bill, Closed(StopReason.TOOL_CALLS)),
        ],
        [
            *(ReasoningDelta(0, "Now I know."), ReasoningSealed(0, "A GENUINE SEAL")),
            *(TextDelta(1, "At "), TextDelta(1, "noon."), bill, Closed(StopReason.END_TURN)),
        ],
    )


@APIS
@BOTH
async def test_the_libraries_get_thinking_and_send_it_back(
    app: App, client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    thinks_twice(model)
    model.then(saying("Yes."), saying("I am."))
    talk = library(client, api)
    assert await talk.ask("When?", streams=streams) == SAID
    assert talk.thoughts == (["".join(THOUGHT)] if api == "chat" else THOUGHT)
    assert "GENUINE" not in encode_text(talk.history)
    assert await talk.ask("Sure?", streams=streams) == "Yes."
    assert talk.thoughts == []
    assert await talk.ask("Really?", streams=streams) == "I am."
    [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
    assert (line.turns, line.requests) == (3, 4)
    sent = [[block.data for block in request.blocks if block.segment != "reminder"] for request in model.requests]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    last = encode_text(model.body(model.requests[-1]))
    assert (last.count("Where is it?"), "HIDDEN RESULT" in last, OWN_SEAL in last) == (1, True, False)


async def test_an_answer_of_thinking_alone_begins_the_stream(client: ServerClient, model: ScriptedModel) -> None:
    """The client sees the thinking while it comes, so a later error is one within the stream."""
    model.then([ReasoningDelta(0, "Hm."), ReasoningSealed(0, "s"), *calling(finding("c1", "x"))], saying("Yes."))
    talk = AgentClient(client.http, "messages", streams=True)
    assert await talk.ask("When?") == "Yes."
    thought, seal, text = (talk.raw.find(part) for part in (b"thinking_delta", b"signature_delta", b"text_delta"))
    assert 0 < thought < seal < text


@APIS
@BOTH
async def test_thinking_is_left_out_if_the_client_says_so(
    client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    thinks_twice(model)
    thinks_twice(model)
    talk = AgentClient(client.http, api, streams=streams, headers={"x-lamella-thinking": "off"})
    assert await talk.ask("When?") == SAID
    assert b"Where" not in talk.raw
    if api == "messages":
        talk.headers, talk.fields = {}, {"thinking": {"type": "adaptive", "display": "omitted"}}
        assert await talk.ask("When?") == SAID
        assert b"Where" not in talk.raw
    talk.headers = {"x-lamella-thinking": "on"}
    refused = await talk.post()
    assert (refused.status_code, "X-Lamella-Thinking" in refused.text) == (400, True)


# Over a provider that checks thinking


@pytest.fixture
def provider() -> Iterator[Provider]:
    with simulated() as found:
        yield found


@pytest.fixture
async def over_provider(provider: Provider, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, Any]]:
    settings = read_settings(
        data=tmp_path,
        anthropic_api_key="k",
        anthropic_base_url=provider.url,
        openai_api_key="k",
        openai_base_url=provider.openai_url,
        openai_api="responses",
        model="claude-opus-5-5",
    )
    provider.script({"all": {"match": ".", "text": "At noon.", "reasoning": "I count the hours. " * 9}})
    async with served(settings, checked=False) as opened:
        await opened[1].post("/agents", {"name": "Pilot", "prompt": "You know tides. " * 300})
        yield opened


@APIS
@pytest.mark.parametrize("upstream", ["claude-opus-5-5", "gpt-6.1-terra"])
async def test_thinking_that_comes_back_costs_no_cache(
    over_provider: tuple[App, ServerClient], provider: Provider, api: str, upstream: str
) -> None:
    app, client = over_provider
    [agent] = (await client.get("/agents"))["data"]
    await client.http.patch(f"/api/v1/agents/{agent['id']}", json={"model": upstream, "thinking_effort": "medium"})
    talk = library(client, api)
    for number in range(12):
        assert await talk.ask(f"What about night {number}?", streams=number % 2 == 0) == "At noon."
        assert talk.thoughts
    [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
    assert line.turns == 12
    asked = [request for request in provider.requests if request.path in ("/v1/messages", "/v1/responses")]
    assert [request.status for request in asked] == [200] * 12
    for before, after in pairwise(asked):
        assert after.tokens_read >= before.tokens_read + before.tokens_written > 0
    assert all(OWN_SEAL not in encode_text(request.json) for request in asked)
    assert "I count the hours." in encode_text(asked[-1].json), "the model's own thinking goes back to it"


ON = [
    ("messages", "claude-opus-5-5"),
    ("messages", "gpt-6.1-terra"),
    ("responses", "gpt-6.1-terra"),
    ("responses", "claude-opus-5-5"),
    ("chat", "claude-opus-5-5"),
    ("chat", "gpt-6.1-terra"),
]


@pytest.mark.parametrize(("api", "upstream"), ON)
@BOTH
async def test_a_history_with_an_agents_thinking_goes_on_with_a_vendors_model(
    over_provider: tuple[App, ServerClient], provider: Provider, api: str, upstream: str, streams: bool
) -> None:
    """The thinking that the agent showed is no vendor's: it is left out, and the request's record says so."""
    app, client = over_provider
    talk = library(client, api)
    assert await talk.ask("When?", streams=streams) == "At noon."
    talk.model = upstream
    for text in ("Sure?", "Really?"):
        assert await talk.ask(text, streams=streams) == "At noon."
    sent = [request for request in provider.requests if request.status == 200][-2:]
    for request in sent:
        assert "lamella." not in encode_text(request.json)
    if (api, upstream) in (("messages", "claude-opus-5-5"), ("responses", "gpt-6.1-terra")):
        assert sent[1].tokens_read >= sent[0].tokens_written
        await app.gateway.recorder.drain()
        line = next(
            one for one in (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data if one.label != "agent:Pilot"
        )
        record = await app.store.requests.request(LOCAL_OWNER, line.request_id)
        assert any("Thinking of an agent" in note for _, note in record.notes)
