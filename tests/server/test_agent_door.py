"""`model: "agent:NAME"`: an agent's answers in the APIs of other vendors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.deltas import Closed, ReasoningDelta, TextDelta, UsageReported
from lamella.core.errors import ProviderOverloaded, ProviderRateLimited
from lamella.core.json import encode_text
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.records import PageQuery
from lamella.core.tokens import Usage
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from scripted_tools import WebSearch, finding

from .agent_clients import COUNTS, PATHS, AgentClient, events_of, text_of, usage_of

pytestmark = pytest.mark.anyio

APIS = pytest.mark.parametrize("api", PATHS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
ALL = PageQuery(100, None, "asc")


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model), more_tools=(WebSearch(),), silence=0.2) as opened:
        await opened[1].post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        yield opened


def speaks(client: ServerClient, api: str, **options: Any) -> AgentClient:
    return AgentClient(client.http, api, **options)


@APIS
@BOTH
async def test_a_client_sees_texts_alone_and_the_steps_come_back(
    client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    model.then(
        [ReasoningDelta(0, "HIDDEN THOUGHT"), *calling(finding("c1", "HIDDEN RESULT"), text="I look.")],
        saying("At ", "noon."),
        saying("At one."),
    )
    talk = speaks(client, api, streams=streams, system="Be brief.")
    assert await talk.ask("When?") == "I look.\n\nAt noon."
    assert b"HIDDEN" not in talk.raw
    assert b"web_search" not in talk.raw
    assert await talk.ask("Sure?") == "At one."
    sent = encode_text(model.body(model.requests[2]))
    assert ("HIDDEN RESULT" in sent, sent.count("Be brief."), "You know tides." in sent) == (True, 1, True)


@APIS
async def test_the_bill_is_that_of_the_whole_turn(client: ServerClient, model: ScriptedModel, api: str) -> None:
    bills = Usage(input=100, cache_read=60, output=10), Usage(input=200, cache_read=90, output=20)
    model.then(calling(finding("c1", "x"), usage=bills[0]), saying("At noon.", usage=bills[1]))
    talk = speaks(client, api)
    talk.history.append(("user", "When?"))
    assert usage_of(api, await talk.post()) == (300, 30)


@pytest.mark.parametrize("asks", [False, True])
async def test_a_chat_stream_has_its_usage_as_it_was_asked_for(
    client: ServerClient, model: ScriptedModel, asks: bool
) -> None:
    model.then(saying("At noon."))
    talk = speaks(client, "chat", streams=True, fields={"stream_options": {"include_usage": asks}})
    await talk.ask("When?")
    events = [line for line in talk.raw.split(b"\n\n") if line]
    assert events[-1] == b"data: [DONE]"
    assert (b'"choices":[]' in events[-2]) == asks
    assert b'"prompt_tokens":100' in events[-2]


@APIS
@BOTH
@pytest.mark.parametrize(
    ("error", "status"), [(ProviderRateLimited("Slow down."), 429), (ProviderOverloaded("Too many."), 503)]
)
async def test_an_error_of_the_provider_has_its_status_and_its_pause(
    client: ServerClient, model: ScriptedModel, api: str, streams: bool, error: ProviderRateLimited, status: int
) -> None:
    error.retry_after = 7
    model.then([error])
    talk = speaks(client, api, streams=streams)
    talk.history.append(("user", "When?"))
    answer = await talk.post()
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["x-should-retry"]) == (
        status,
        "7",
        "false",
    )
    assert str(error.message) in answer.json()["error"]["message"]


@APIS
async def test_an_error_after_the_first_text_ends_the_stream(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then([TextDelta(0, "At "), ProviderOverloaded("Too many.")])
    talk = speaks(client, api, streams=True)
    talk.history.append(("user", "When?"))
    answer = await talk.post()
    assert answer.status_code == 200
    last = events_of(answer)[-1]
    assert "Too many." in encode_text(last)
    assert b"[DONE]" not in talk.raw


@APIS
@pytest.mark.parametrize("model_name", ["agent:Nobody", "agent:"])
async def test_an_unknown_agent_is_a_model_that_is_not_there(client: ServerClient, api: str, model_name: str) -> None:
    talk = speaks(client, api, model=model_name)
    talk.history.append(("user", "When?"))
    answer = await talk.post()
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["type"] == "not_found_error" if api == "messages" else error["code"] == "model_not_found"


FOLLOWED = [
    {"temperature": 1},
    {"user": "u1", "metadata": {}},
    {"service_tier": "auto"},
    {"top_p": None},
]
REFUSED = [{"temperature": 0.2}, {"top_p": 0.5}, {"seed": 3}, {"top_k": 5}, {"logit_bias": {"5": 1}}]


@APIS
@pytest.mark.parametrize("fields", FOLLOWED, ids=lambda fields: next(iter(fields)))
async def test_what_says_nothing_is_passed_over(
    client: ServerClient, model: ScriptedModel, api: str, fields: dict[str, Any]
) -> None:
    model.then(saying("At noon."))
    talk = speaks(client, api, fields=fields)
    assert await talk.ask("When?") == "At noon."


@APIS
@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: next(iter(fields)))
async def test_what_can_not_be_followed_is_refused_by_name(
    client: ServerClient, model: ScriptedModel, api: str, fields: dict[str, Any]
) -> None:
    talk = speaks(client, api, fields=fields)
    talk.history.append(("user", "When?"))
    answer = await talk.post()
    assert answer.status_code == 400
    assert next(iter(fields)) in answer.json()["error"]["message"]
    assert model.requests == []


@APIS
@BOTH
async def test_a_client_that_leaves_stops_its_turn(
    app: App, client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    gate = Gate()
    model.then([TextDelta(0, "At "), gate, *saying("noon.")], saying("At one."))
    talk = speaks(client, api, streams=streams)
    talk.history.append(("user", "When?"))
    asking = asyncio.create_task(talk.post())
    await gate.reached.wait()
    asking.cancel()
    async with asyncio.timeout(5):
        while True:
            [line] = (await app.store.lines.lines(LOCAL_OWNER, ALL)).data
            if line.turns:
                break
            await asyncio.sleep(0.01)
    turn = await app.store.turns.turn(LOCAL_OWNER, line.turn_id)
    assert (turn.status, turn.run.answer) == (TurnStatus.STOPPED, "At ")
    assert text_of(api, await talk.post(), streams=streams) == "At one."
    [line] = (await app.store.lines.lines(LOCAL_OWNER, ALL)).data
    assert line.turns == 2


@APIS
async def test_a_long_silence_is_broken_by_comments(client: ServerClient, model: ScriptedModel, api: str) -> None:
    gate = Gate()
    model.then([gate, *saying("At noon.")])
    talk = speaks(client, api, streams=True)
    asking = asyncio.create_task(talk.ask("When?"))
    await gate.reached.wait()
    await asyncio.sleep(0.5)
    gate.opened.set()
    assert await asking == "At noon."
    assert talk.raw.startswith(b": still there\n\n")


@pytest.mark.parametrize("api", COUNTS)
async def test_a_request_is_counted_as_it_would_be_sent(
    app: App, client: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then(saying("At noon."), saying("Yes."))
    talk = speaks(client, api)
    await talk.ask("When?")
    talk.history.append(("user", "Sure?"))
    counted = (await client.http.post(COUNTS[api], json=talk.body())).json()["input_tokens"]
    talk.history.pop()
    await talk.ask("Sure?")
    [line] = (await app.store.lines.lines(LOCAL_OWNER, ALL)).data
    record = await app.store.requests.request(LOCAL_OWNER, line.request_id)
    assert counted == record.estimate
    talk.history = [("user", "/new"), ("assistant", "No."), ("user", "/clear")]
    assert (await client.http.post(COUNTS[api], json=talk.body())).json()["input_tokens"] > 0
    assert len((await app.store.lines.lines(LOCAL_OWNER, ALL)).data) == 1


async def test_agents_are_listed_as_models(client: ServerClient) -> None:
    await client.post("/agents", {"name": "Sea / Land", "prompt": "p"})
    twins = [(await client.post("/agents", {"name": name, "prompt": "p"}))["id"] for name in ("Cook", "cook")]
    listed = (await client.http.get("/v1/models")).json()["data"]
    names = {model["id"]: model["display_name"] for model in listed if model["id"].startswith("agent:")}
    assert names == {
        "agent:Pilot": "Pilot",
        "agent:Sea / Land": "Sea / Land",
        f"agent:{twins[0]}": "Cook",
        f"agent:{twins[1]}": "cook",
    }
    for path in ("agent:Sea%20%2F%20Land", "agent%3APilot", f"agent:{twins[0]}"):
        assert (await client.http.get(f"/v1/models/{path}")).status_code == 200, path
    assert (await client.http.get("/v1/models/agent:Nobody")).status_code == 404


# The vendors' own libraries


@pytest.fixture
async def openai_sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    address = f"{str(client.http.base_url).rstrip('/')}/v1"
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


@pytest.fixture
async def anthropic_sdk(client: ServerClient) -> AsyncIterator[anthropic.AsyncAnthropic]:
    http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
    address = str(client.http.base_url).rstrip("/")
    async with anthropic.AsyncAnthropic(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


async def test_openai_for_python_speaks_with_an_agent(openai_sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("At noon."), saying("At one."), saying("At two."))
    messages: list[Any] = [{"role": "user", "content": "When?"}]
    first = await openai_sdk.chat.completions.create(model="agent:Pilot", messages=messages)
    message = first.choices[0].message
    assert (message.content, first.model) == ("At noon.", "agent:Pilot")
    messages += [message.model_dump(exclude_none=True), {"role": "user", "content": "Sure?"}]
    stream = await openai_sdk.chat.completions.create(
        model="agent:Pilot", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (said, chunks[-1].usage is not None) == ("At one.", True)
    history: list[Any] = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}]
    response = await openai_sdk.responses.create(model="agent:Pilot", input=history, store=False)
    assert (response.output_text, response.status) == ("At two.", "completed")
    assert [model.id async for model in openai_sdk.models.list() if model.id.startswith("agent:")] == ["agent:Pilot"]
    last = encode_text(model.body(model.requests[2]))
    assert last.count("At noon.") == 1
    with pytest.raises(openai.NotFoundError) as refused:
        await openai_sdk.chat.completions.create(model="agent:Nobody", messages=messages)
    assert refused.value.code == "model_not_found"


async def test_anthropic_for_python_speaks_with_an_agent(
    anthropic_sdk: anthropic.AsyncAnthropic, model: ScriptedModel
) -> None:
    model.then(saying("At noon."), saying("At one."))
    messages: list[Any] = [{"role": "user", "content": "When?"}]
    first = await anthropic_sdk.messages.create(model="agent:Pilot", max_tokens=100, messages=messages)
    assert [block.text for block in first.content if block.type == "text"] == ["At noon."]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Sure?"}]
    async with anthropic_sdk.messages.stream(model="agent:Pilot", max_tokens=100, messages=messages) as stream:
        assert await stream.get_final_text() == "At one."
    counted = await anthropic_sdk.messages.count_tokens(model="agent:Pilot", messages=messages)
    assert counted.input_tokens > 0
    with pytest.raises(anthropic.NotFoundError):
        await anthropic_sdk.messages.create(model="agent:Nobody", max_tokens=100, messages=messages)


async def test_an_answer_that_was_cut_or_refused_says_so(client: ServerClient, model: ScriptedModel) -> None:
    def ends(reason: StopReason) -> list[Any]:
        return [TextDelta(0, "At "), UsageReported(Usage(input=9, output=1)), Closed(reason)]

    model.then(ends(StopReason.MAX_TOKENS), ends(StopReason.MAX_TOKENS), ends(StopReason.REFUSAL))
    found: list[str] = []
    for api in ("messages", "chat", "chat"):
        talk = speaks(client, api)
        talk.history.append(("user", f"When, {api}, {len(found)}?"))
        body = (await talk.post()).json()
        found.append(body["stop_reason"] if api == "messages" else body["choices"][0]["finish_reason"])
    assert found == ["max_tokens", "length", "content_filter"]
