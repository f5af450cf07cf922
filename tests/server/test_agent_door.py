"""`model: "agent:NAME"`: an agent's answers in the APIs of other vendors."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import anthropic
import openai
import pytest
from PIL import Image as Pillow

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.deltas import Closed, ReasoningDelta, TextDelta, UsageReported
from lamella.core.errors import ProviderOverloaded, ProviderRateLimited
from lamella.core.json import encode_text
from lamella.core.messages import StopReason, ToolCall, TurnStatus
from lamella.core.models import ImageRule
from lamella.core.records import PageQuery
from lamella.core.tokens import Usage
from lamella.gateway.matching import Relation
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from scripted_tools import WebSearch, finding

from .agent_clients import (
    COUNTS,
    PATHS,
    AgentClient,
    calls_of,
    events_of,
    sent_back,
    text_of,
    tool_of,
    usage_of,
    whole,
)

pytestmark = pytest.mark.anyio

APIS = pytest.mark.parametrize("api", PATHS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
ALL = PageQuery(100, None, "asc")


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model), more_tools=(WebSearch(),)) as opened:
        await opened[1].post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        yield opened


def speaks(client: ServerClient, api: str, **options: Any) -> AgentClient:
    return AgentClient(client.http, api, **options)


@APIS
@BOTH
async def test_a_client_sees_no_steps_of_the_server_and_they_come_back(
    client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    model.then(
        [ReasoningDelta(3, "A thought."), *calling(finding("c1", "HIDDEN RESULT"), text="I look.")],
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
    {"user": "u1", "metadata": {}},
    {"service_tier": "auto"},
    {"top_p": None},
]
REFUSED = [{"seed": 3}, {"top_k": 5}, {"logit_bias": {"5": 1}}, {"presence_penalty": 1}]


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


SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
FORMS: dict[str, dict[str, Any]] = {
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "tide", "schema": SCHEMA}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "tide", "schema": SCHEMA}}},
}
LIMITS = {"messages": "max_tokens", "chat": "max_completion_tokens", "responses": "max_output_tokens"}


@APIS
async def test_limits_temperature_and_the_form_of_the_answer_are_followed(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then(saying('{"at":"noon"}'))
    talk = speaks(client, api)
    talk.history.append(("user", "When?"))
    fields = {LIMITS[api]: 77, "temperature": 0.2, **FORMS[api]}
    answer = await client.http.post(PATHS[api], json={**talk.body(), **fields})
    assert answer.status_code == 200, answer.text
    head = model.requests[0].head
    assert (head["max_tokens"], head["temperature"]) == (77, 0.2)
    assert "schema" in encode_text(head)


SEEING = replace(FACTS, images=ImageRule(patch=28, longest_edge=1568, most=1600))


def picture_of(api: str) -> dict[str, Any]:
    """A user's message with a red square."""
    data = BytesIO()
    Pillow.new("RGB", (40, 30), (255, 0, 0)).save(data, "PNG")
    given = b64encode(data.getvalue()).decode()
    url, text = f"data:image/png;base64,{given}", "What is this?"
    parts: dict[str, list[dict[str, Any]]] = {
        "messages": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": given}},
            {"type": "text", "text": text},
        ],
        "chat": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
        "responses": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}],
    }
    return {"role": "user", "content": parts[api]}


@APIS
async def test_a_picture_is_shown_to_the_model_and_stored_once(tmp_path: Path, api: str) -> None:
    model = ScriptedModel([saying("A red square."), saying("Red."), saying("Red, I said.")], SEEING)
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (app, client):
        await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        talk = speaks(client, api, more=[picture_of(api)])
        assert text_of(api, await talk.post(), streams=False) == "A red square."
        follow = [{"role": "assistant", "content": "A red square."}, {"role": "user", "content": "What colour?"}]
        talk.more += follow
        assert text_of(api, await talk.post(), streams=False) == "Red."
        talk.more = [
            {"role": "user", "content": "Another history."},
            {"role": "assistant", "content": "Yes."},
            *talk.more,
        ]
        assert text_of(api, await talk.post(), streams=False) == "Red, I said."
        assert len((await app.store.files.files(LOCAL_OWNER, ALL)).data) == 1
    for request in model.requests:
        assert sum(block.value.get("type") == "image" for block in request.blocks) == 1


# The client's own tools


LOOK = ToolCall("call_1", "look", '{"at": "ebb"}')


@APIS
@BOTH
async def test_a_tool_of_the_client_is_handed_out_and_its_result_goes_on_with_the_turn(
    app: App, client: ServerClient, model: ScriptedModel, api: str, streams: bool
) -> None:
    model.then(
        calling(finding("c1", "HIDDEN RESULT"), text="I search."),
        calling(LOOK, replace(LOOK, id="call_2"), text="I look."),
        saying("At noon."),
        saying("Yes."),
    )
    talk = speaks(client, api, streams=streams, fields={"tools": [tool_of(api, "look")]})
    talk.history.append(("user", "When?"))
    body = whole(api, await talk.post(), streams=streams)
    assert b"HIDDEN" not in talk.raw
    calls = calls_of(api, body)
    assert calls == [("call_1", "look", {"at": "ebb"}), ("call_2", "look", {"at": "ebb"})]
    if api != "responses":
        assert (
            "tool_use" in encode_text(body)
            if api == "messages"
            else body["choices"][0]["finish_reason"] == "tool_calls"
        )
    talk.more = sent_back(api, body, {"call_1": "High.", "call_2": "Low."})
    answered = await talk.post()
    assert text_of(api, answered, streams=streams) == "At noon."
    talk.more += sent_back(api, whole(api, answered, streams=streams), {})
    talk.more = [one for one in talk.more if one.get("content") != []]
    talk.more.append({"role": "user", "content": "Sure?"})
    assert text_of(api, await talk.post(), streams=streams) == "Yes."
    sent = [[block.data for block in request.blocks if block.segment != "reminder"] for request in model.requests]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    assert sent[3].count(sent[3][-1]) == 1
    [line] = (await app.store.lines.lines(LOCAL_OWNER, ALL)).data
    assert (line.turns, line.requests) == (2, 4)


@APIS
async def test_calls_and_results_of_an_unknown_history_are_there_too(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then(calling(LOOK), saying("At noon."), saying("Also at noon."))
    talk = speaks(client, api, fields={"tools": [tool_of(api, "look")]})
    talk.history.append(("user", "When?"))
    body = (await talk.post()).json()
    talk.history[0] = ("user", "When, in another history?")
    talk.more = sent_back(api, body, {"call_1": "High."})
    assert text_of(api, await talk.post(), streams=False) == "At noon."
    sent = encode_text(model.body(model.requests[1]))
    assert ("in another history" in sent, "High." in sent, sent.count('"call_1"')) == (True, True, 2)
    assert len({block.data for block in model.requests[1].blocks}) == len(model.requests[1].blocks)


@APIS
async def test_a_tool_may_be_named_as_one_of_the_server_that_the_agent_does_not_have(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    model.then(calling(replace(LOOK, name="web_search")), saying("At noon."))
    [agent] = (await client.get("/agents"))["data"]
    talk = speaks(client, api, fields={"tools": [tool_of(api, "web_search")]})
    talk.history.append(("user", "When?"))
    refused = await talk.post()
    said = refused.json()["error"]["message"]
    assert (refused.status_code, model.requests) == (400, [])
    for word in ("“web_search”", "Rename", "my_web_search", "leave it out", "agent's tools"):
        assert word in said, word
    assert (await client.http.patch(f"/api/v1/agents/{agent['id']}", json={"tools": []})).status_code == 200
    body = (await talk.post()).json()
    assert calls_of(api, body) == [("call_1", "web_search", {"at": "ebb"})]
    talk.more = sent_back(api, body, {"call_1": "High."})
    assert text_of(api, await talk.post(), streams=False) == "At noon."
    assert "High." in encode_text(model.body(model.requests[1]))


# Conversations that a client names


@pytest.mark.parametrize("api", ["messages", "chat"])
@pytest.mark.parametrize("name", ["agent:Pilot", "scripted"])
async def test_a_header_names_the_conversation_and_only_what_is_new_counts(
    app: App, client: ServerClient, model: ScriptedModel, api: str, name: str
) -> None:
    model.then(saying("At noon."), saying("At one."), calling(LOOK), saying("At two."))
    talk = speaks(client, api, model=name, headers={"x-conversation-id": "new"})
    talk.history = [("user", "This is old."), ("assistant", "Yes."), ("user", "When?")]
    first = await talk.post()
    conversation = first.headers["x-conversation-id"]
    talk.headers = {"x-conversation-id": conversation}
    talk.history = [("user", "And then?")]
    assert text_of(api, await talk.post(), streams=False) == "At one."
    talk.fields = {"tools": [tool_of(api, "look")]}
    body = (await talk.post()).json()
    talk.history, talk.more = [], sent_back(api, body, {"call_1": "High."})[1:]
    assert text_of(api, await talk.post(), streams=False) == "At two."
    path = await app.store.turns.path(LOCAL_OWNER, conversation)
    assert [turn.user.text for turn in path] == ["When?", "And then?", "And then?"]
    sent = encode_text(model.body(model.requests[3]))
    assert ("This is old." in sent, "You know tides." in sent) == (False, name == "agent:Pilot")
    assert [one.id for one in (await app.store.conversations.conversations(LOCAL_OWNER, ALL)).data] == [conversation]


async def test_a_conversation_that_is_busy_or_not_there_is_told_in_the_words_of_the_api(
    client: ServerClient, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then([gate, *saying("At noon.")])
    conversation = await client.conversation()
    talk = speaks(client, "chat", model="scripted", headers={"x-conversation-id": conversation})
    talk.history.append(("user", "When?"))
    asking = asyncio.create_task(talk.post())
    await gate.reached.wait()
    assert (await talk.post()).status_code == 409
    gate.opened.set()
    assert (await asking).status_code == 200
    talk.headers = {"x-conversation-id": "conv_no"}
    assert (await talk.post()).status_code == 404


async def test_an_agent_goes_on_from_a_stored_response(openai_sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("At noon."), saying("At one."), saying("At two."))
    first = await openai_sdk.responses.create(model="agent:Pilot", input="When?")
    second = await openai_sdk.responses.create(model="agent:Pilot", input="Sure?", previous_response_id=first.id)
    assert second.output_text == "At one."
    stored = await openai_sdk.responses.retrieve(second.id)
    assert (stored.output_text, stored.status) == ("At one.", "completed")
    assert "At noon." in encode_text(model.body(model.requests[1]))
    await openai_sdk.responses.delete(first.id)
    for gone in ("resp_no", second.id.removeprefix("resp_"), first.id):
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_sdk.responses.create(model="agent:Pilot", input="Sure?", previous_response_id=gone)
        assert refused.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": 7}, "previous_response_id"),
        ({"conversation": 7}, "conversation"),
        ({"conversation": {"id": None}}, "conversation"),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "previous_response_id"),
    ],
)
async def test_a_place_that_is_none_is_refused(client: ServerClient, fields: dict[str, Any], param: str) -> None:
    answer = await client.http.post("/v1/responses", json={"model": "agent:Pilot", "input": "When?", **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


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
async def test_a_long_silence_is_broken_by_comments(model: ScriptedModel, tmp_path: Path, api: str) -> None:
    gate = Gate()
    model.then([gate, *saying("At noon.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), silence=0.2) as (_, client):
        await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
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


async def test_a_request_to_an_agent_is_told_to_those_who_follow_clients(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    model.then(saying("At noon."), saying("At one."))
    talk = speaks(client, "chat")
    found = []
    async with app.gateway.recorder.watch(LOCAL_OWNER) as records:
        for text in ("When?", "Sure?"):
            await talk.ask(text)
            async with asyncio.timeout(10):
                found.append(await anext(records))
    assert [(one.line.label, one.line.turns, one.relation) for one in found] == [
        ("agent:Pilot", 1, Relation.NEW),
        ("agent:Pilot", 2, Relation.NEXT),
    ]
    assert found[1].request.id == found[1].line.request_id
    assert found[1].why.text


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


@APIS
async def test_a_client_that_goes_on_from_an_older_answer_or_before_an_edit(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    """The model gets the steps of the answer that the client has, and nothing of the others."""
    model.then(*(saying(f"Answer {number}.") for number in range(3)))
    talk = speaks(client, api)
    await talk.ask("When?")
    await talk.ask("Sure?")
    older = list(talk.history)
    del talk.history[-2:]
    await talk.ask("Sure?")
    newer = list(talk.history)
    model.then(*(saying(f"Answer {number}.") for number in range(3, 7)))
    for history, question in ((older, "Why?"), (newer, "Why?"), (older[:2], "Where?"), (older, "Who?")):
        talk.history = list(history)
        await talk.ask(question)
        sent = encode_text(model.body(model.requests[-1]))
        texts = [text for _, text in (*history, ("user", question))]
        assert [text in sent for text in texts] == [True] * len(texts)
        others = {f"Answer {number}." for number in range(7)} - set(texts)
        assert not any(text in sent for text in others), (question, sent)
    [line] = (await client.get("/lines"))["data"]
    assert line["turns"] == 7, "all of it is one conversation"


@APIS
async def test_equal_answers_on_many_branches_lead_back_to_the_branch_of_the_client(
    client: ServerClient, model: ScriptedModel, api: str
) -> None:
    talk, random = speaks(client, api), Random(api)
    known: list[list[tuple[str, str]]] = []
    for number in range(24):
        said = f"Answer {random.randrange(3)}."
        model.then(saying(said))
        history: list[tuple[str, str]] = list(random.choice(known)) if known and random.random() < 0.6 else talk.history
        if history and random.random() < 0.5:
            history = history[: 2 * random.randint(1, len(history) // 2)]
        talk.history = list(history)
        assert await talk.ask(f"Question {random.randrange(4)}?") == said, number
        sent = encode_text(model.body(model.requests[-1]))
        found = re.findall(r"(?:Question|Answer) \d[?.]", sent)
        assert found == [text for _, text in talk.history[:-1]], number
        known.append(list(talk.history))
    lines = (await client.get("/lines"))["data"]
    assert len(lines) == 1
