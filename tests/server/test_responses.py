"""OpenAI's own client, pointed at this server: whole answers, streams, going on, and clear refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from lamella.app.app import App
from lamella.backend.backend import Backend
from lamella.backend.blocks import Blocks
from lamella.core import deltas
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.execution import ExecutionRequest
from lamella.core.messages import ToolCall
from lamella.engine.scripted import ScriptedModel, calling, saying
from lamella.server.testing import Client

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(client: Client) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", http_client=http) as found:
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


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"instructions": "Be kind."}, "instructions"),
        ({"store": False}, "store"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"reasoning": {"effort": "much"}}, "thinking_effort"),
        ({"previous_response_id": "resp_no", "conversation": "conv_no"}, "previous_response_id"),
        ({"previous_response_id": "no"}, "previous_response_id"),
        ({"metadata": {"lamella.0": '{"mood":"good"}'}}, "mood"),
        ({"metadata": {"lamella.0": '{"models":["a","b"]}'}}, "models"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "input"),
    ],
)
async def test_what_this_server_does_not_do_is_said_and_not_passed_over(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(**{"input": "Hi", **fields})
    assert caught.value.param == param
    assert model.requests == []


@pytest.mark.parametrize("fields", [{"previous_response_id": "resp_no"}, {"conversation": "conv_no"}])
async def test_what_is_not_there_is_not_found(sdk: openai.AsyncOpenAI, fields: dict[str, Any]) -> None:
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.create(input="Hi", **fields)


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
    turn = await Backend(app, Blocks()).run(ExecutionRequest(text=text))
    assert (answer.output_text, turn.text) == ("I see.", text)
    for request in model.requests:
        assert any(str(block.value.get("text")).startswith(f"{text}\n\n") for block in request.blocks)
