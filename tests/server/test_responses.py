"""OpenAI's own client, pointed at this server: whole answers, streams, going on, and clear refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from lamella.app.app import App
from lamella.chat.message import ExecutionRequest
from lamella.core import deltas
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, calling, saying
from lamella.server.routes.openai_request import to_openai
from lamella.server.testing import ServerClient

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    headers = {"x-conversation-id": "new"}
    async with openai.AsyncOpenAI(
        base_url=address, api_key="unused", http_client=http, default_headers=headers
    ) as found:
        yield found


async def test_a_message_is_answered_and_gone_on_with(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Hello."), saying("Still here."))
    first = await sdk.responses.create(model="scripted", input="Hi", metadata={"ticket": "7"}, store=True, user="u1")
    assert (first.status, first.output_text, first.metadata) == ("completed", "Hello.", {"ticket": "7"})
    assert first.usage is not None
    assert first.usage.total_tokens == first.usage.input_tokens + first.usage.output_tokens
    second = await sdk.responses.create(input="Go on", previous_response_id=first.id)
    assert first.conversation is not None
    assert second.conversation == first.conversation
    said = [str(block.value.get("text", "")) for block in model.requests[1].blocks]
    assert "Hello." in said
    assert not any("ticket" in text for text in said), "metadata is nobody's to read"


async def test_a_stream_has_every_item_once_and_ends_with_the_whole(
    sdk: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    call = ToolCall("c1", "read_file", '{"file_id":"file_no"}')
    model.then(calling(call, text="Let me look."), [deltas.ReasoningDelta(0, "Hm."), *_later(saying("There is none."))])
    kinds: list[str] = []
    async with sdk.responses.stream(model="scripted", input="What is in it?") as events:
        kinds += [event.type async for event in events]
        final = await events.get_final_response()
    assert [item.type for item in final.output] == ["message", "reasoning", "message"]
    assert final.output_text == "Let me look.There is none."
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 3
    assert kinds[-1] == "response.completed"


def _later(script: Any) -> list[Any]:
    """A script whose blocks come behind a first one."""
    return [deltas.TextDelta(1, one.text) if isinstance(one, deltas.TextDelta) else one for one in script]


async def test_a_failed_answer_is_an_error_that_is_not_sent_again(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, app: App
) -> None:
    model.then([ProviderRefusedRequest("The provider says no.")], saying("Not asked for."))
    with pytest.raises(openai.APIStatusError) as caught:
        await sdk.responses.create(input="Hi")
    assert caught.value.status_code == 502
    assert len(model.requests) == 1


_PART = "input.0.content.0"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 5}, "temperature"),
        ({"top_p": "much"}, "top_p"),
        ({"max_output_tokens": 1}, "max_output_tokens"),
        ({"instructions": ["Be kind."]}, "instructions"),
        ({"store": False}, "store"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"tool_choice": {"type": "function", "name": "no_such"}}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"verbosity": "high"}}, "text"),
        ({"tools": [{"type": "function", "name": "read file", "parameters": {}}]}, "tools.0.name"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {"type": "string"}}]}, "tools.0"),
        ({"tools": [{"type": "function", "name": "read_file", "parameters": None}]}, "tools"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0"),
        ({"input": [{"type": "computer_call_output"}]}, "input.0"),
        ({"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x/a.png"}]}]}, _PART),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "%"}]}]}, _PART),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"reasoning": {"effort": "much"}}, "thinking_effort"),
        ({"previous_response_id": "resp_no", "conversation": "conv_no"}, "previous_response_id"),
        ({"previous_response_id": "no"}, "previous_response_id"),
        ({"metadata": {"lamella.0": '{"mood":"good"}'}}, "mood"),
        ({"metadata": {"lamella.0": '{"models":["a","b"]}'}}, "models"),
        ({"extra_body": {"lamella": {"models": ["a", "b"]}}}, "models"),
        ({"extra_body": {"lamella": {"mood": "good"}}}, "mood"),
        ({"metadata": {"lamella.body": "1"}}, "lamella"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "input"),
        ({"input": [{"role": "assistant", "content": []}, {"role": "user", "content": "a"}]}, "input.0.content"),
    ],
)
async def test_what_this_server_does_not_do_is_said_and_not_passed_over(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(**{"input": "Hi", **fields})
    assert caught.value.param == param
    assert model.requests == []


@pytest.mark.parametrize(
    ("fields", "error", "code"),
    [
        ({"previous_response_id": "resp_no"}, openai.BadRequestError, "previous_response_not_found"),
        ({"conversation": "conv_no"}, openai.NotFoundError, "conversation_not_found"),
        ({"conversation": {"id": "conv_no"}}, openai.NotFoundError, "conversation_not_found"),
    ],
)
async def test_what_is_not_there_is_not_found(
    sdk: openai.AsyncOpenAI, fields: dict[str, Any], error: type[openai.APIStatusError], code: str
) -> None:
    with pytest.raises(error) as caught:
        await sdk.responses.create(input="Hi", **fields)
    assert (caught.value.code, caught.value.param) == (code, next(iter(fields)))


async def test_metadata_says_nothing_about_who_asks(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Hello."))
    metadata = {"user_id": "user_ann", "role": "admin"}
    await sdk.responses.create(input="Hi", metadata=metadata, extra_headers={"Idempotency-Key": "k"})
    again = await sdk.responses.create(input="Hi", metadata=metadata, extra_headers={"Idempotency-Key": "k"})
    assert again.output_text == "Hello."
    assert len(model.requests) == 1


@pytest.mark.parametrize("text", ["/new\nfoo", "/status\nWhat is it?", "/abort please do not", "/prune-tools", "//x"])
async def test_a_slash_is_text_at_this_door_and_reaches_the_model_whole(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, app: App, text: str
) -> None:
    """There are no commands here, nor for those who use the library: so none can swallow words."""
    model.then(saying("I see."), saying("I see."))
    answer = await sdk.responses.create(model="scripted", input=text)
    turn = await app.run(ExecutionRequest(text=text))
    assert (answer.output_text, turn.text) == ("I see.", text)
    for request in model.requests:
        assert any(str(block.value.get("text")).startswith(f"{text}\n\n") for block in request.blocks)


async def test_own_fields_of_any_size_reach_the_model(client: ServerClient, model: ScriptedModel) -> None:
    """The metadata of the API holds 8 kB; what is more travels beside it, whole."""
    told = "The user may see the accounts of the harbour. " * 1_000
    request = ExecutionRequest(text="Hi", dynamic_context=(told,), metadata={"ticket": "7"})
    model.then(saying("Hello."))
    answer = await client.http.post("/v1/responses", json=to_openai(request))
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"] == {"ticket": "7"}
    sent = [str(block.value.get("text", "")) for block in model.requests[0].blocks]
    assert any(told.strip() in text for text in sent)


async def test_several_models_are_refused_with_the_way(client: ServerClient, model: ScriptedModel) -> None:
    body = to_openai(ExecutionRequest(text="Hi", models=("a", "b")))
    answer = await client.http.post("/v1/responses", json=body)
    assert answer.status_code == 400
    assert "/api/v1/conversations/{conversation_id}/turns, as `models`" in answer.json()["error"]["message"]


async def test_null_is_no_dynamic_context(client: ServerClient, model: ScriptedModel) -> None:
    """By either door, as if it was left out: the same bytes reach the provider."""
    bodies: list[dict[str, Any]] = [{}, {"dynamic_context": None}, {"dynamic_context": []}]
    for fields in bodies:
        model.then(saying("Hello."))
        await client.send(await client.conversation(), "Hi", **fields)
    for own in ({}, {"metadata": {"lamella.0": '{"dynamic_context":null}'}}, {"lamella": {"dynamic_context": None}}):
        model.then(saying("Hello."))
        answer = await client.http.post("/v1/responses", json={"input": "Hi", **own})
        assert answer.status_code == 200, answer.text
    sent = [[block.value for block in request.blocks] for request in model.requests]
    assert all("dynamic" not in str(one) for one in sent)
    assert len({str([value.get("text") for value in one[:-1]]) for one in sent}) == 1
    preview = {"conversation_id": await client.conversation(), "text": "Hi", "dynamic_context": None}
    assert (await client.post("/context/preview", preview))["letters"] == "S U1"
