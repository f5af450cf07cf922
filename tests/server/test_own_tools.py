"""OpenAI's own client with tools of its own, in conversations that the server keeps."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, calling, saying
from lamella.server.routes.openai_request import from_openai, to_openai
from lamella.server.testing import ServerClient

pytestmark = pytest.mark.anyio

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    headers = {"x-conversation-id": "new"}
    async with openai.AsyncOpenAI(
        base_url=address, api_key="unused", http_client=http, default_headers=headers, max_retries=0
    ) as found:
        yield found


def weather(id: str, city: str) -> ToolCall:
    return ToolCall(id, "weather", json.dumps({"city": city}))


def output(id: str, said: str) -> Any:
    return {"type": "function_call_output", "call_id": id, "output": said}


async def test_calls_are_items_and_outputs_go_on(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(calling(weather("c1", "Rome"), weather("c2", "Oslo"), text="Let me see."), saying("Sun, and snow."))
    first = await sdk.responses.create(model="scripted", input="Rome and Oslo?", tools=[WEATHER])
    assert first.status == "completed"
    assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.call_id, call.name, json.loads(call.arguments)) for call in calls] == [
        ("c1", "weather", {"city": "Rome"}),
        ("c2", "weather", {"city": "Oslo"}),
    ]
    assert [tool.type for tool in first.tools] == ["function"]
    second = await sdk.responses.create(
        model="scripted",
        previous_response_id=first.id,
        input=[output(call.call_id, "sun" if call.call_id == "c1" else "snow") for call in calls],
        tools=[WEATHER],
    )
    assert (second.output_text, second.previous_response_id) == ("Sun, and snow.", first.id)
    earlier, later = model.requests
    assert later.blocks[: len(earlier.blocks)] == earlier.blocks
    third = [block.value for block in later.blocks[len(earlier.blocks) :]]
    assert [block["type"] for block in third] == ["text", "tool_use", "tool_use", "tool_result", "tool_result"]


async def test_a_stream_has_the_events_of_a_call(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    server = ToolCall("c0", "read_file", '{"file_id":"file_no"}')
    model.then(calling(weather("c1", "Rome"), server, text="Let me see."))
    kinds: list[str] = []
    async with sdk.responses.stream(model="scripted", input="Rome?", tools=[WEATHER]) as events:
        kinds += [event.type async for event in events]
        final = await events.get_final_response()
    assert kinds[-5:] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [item.type for item in final.output] == ["message", "function_call"]


async def test_the_conversation_and_its_header_name_the_place_too(
    sdk: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.then(calling(weather("c1", "Rome")), calling(weather("c2", "Oslo")), saying("Sun, and snow."))
    first = await sdk.responses.create(model="scripted", input="Rome?", tools=[WEATHER])
    assert first.conversation is not None
    await sdk.responses.create(conversation=first.conversation.id, input=[output("c1", "sun")])
    headers = {"x-conversation-id": first.conversation.id}
    third = await sdk.responses.create(
        model="scripted", input=[output("c2", "snow"), {"role": "user", "content": "Both?"}], extra_headers=headers
    )
    assert third.output_text == "Sun, and snow."
    tools = [[block for block in request.blocks if block.level == "tools"] for request in model.requests]
    assert tools[0] == tools[1] == tools[2]


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([output("c1", "sun")], "No tool output found for function call c2."),
        ([output("c1", "sun"), output("c2", "snow"), output("c3", "?")], "No tool call found for function call output"),
        ([output("c1", "sun"), output("c2", "snow"), output("c2", "snow")], "Two tool outputs found"),
    ],
)
async def test_outputs_that_do_not_fit_are_refused_in_the_vendor_s_words(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, outputs: list[Any], says: str
) -> None:
    model.then(calling(weather("c1", "Rome"), weather("c2", "Oslo")))
    first = await sdk.responses.create(model="scripted", input="Rome and Oslo?", tools=[WEATHER])
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(previous_response_id=first.id, input=outputs)
    assert says in str(caught.value)
    assert caught.value.param == "input"


async def test_what_is_stored_of_a_response_has_its_calls_and_outputs(
    sdk: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.then(calling(weather("c1", "Rome"), text="Let me see."), saying("Sun."))
    first = await sdk.responses.create(model="scripted", input="Rome?", tools=[WEATHER])
    second = await sdk.responses.create(previous_response_id=first.id, input=[output("c1", "sun")])
    assert (await sdk.responses.retrieve(first.id)).to_dict() == first.to_dict()
    assert (await sdk.responses.retrieve(second.id)).to_dict() == second.to_dict()
    [item] = (await sdk.responses.input_items.list(second.id)).data
    assert item.to_dict().items() >= output("c1", "sun").items()


async def test_a_retry_is_answered_again(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(calling(weather("c1", "Rome")), saying("Sun."), saying("Sunny."))
    first = await sdk.responses.create(model="scripted", input="Rome?", tools=[WEATHER])
    said = [
        (await sdk.responses.create(previous_response_id=first.id, input=[output("c1", "sun")])).output_text
        for _ in range(2)
    ]
    assert said == ["Sun.", "Sunny."]
    assert model.requests[1].blocks == model.requests[2].blocks


async def test_how_to_answer_reaches_the_model(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying('{"sky":"blue"}'))
    schema: dict[str, object] = {"type": "object", "properties": {"sky": {"type": "string"}}}
    answer = await sdk.responses.create(
        model="scripted",
        input="Rome?",
        instructions="Be brief.",
        max_output_tokens=100,
        temperature=0.2,
        top_p=0.9,
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "sky", "schema": schema}},
        truncation="auto",
        service_tier="auto",
        include=["web_search_call.action.sources"],
        max_tool_calls=3,
        user="ann",
    )
    head = model.requests[0].head
    assert (head["max_tokens"], head["temperature"], head["top_p"]) == (100, 0.2, 0.9)
    assert head["output_config"] == {"format": {"name": "sky", "schema": schema, "strict": False}}
    assert any(b"Be brief." in block.data for block in model.requests[0].blocks)
    assert (answer.instructions, answer.temperature, answer.max_output_tokens) == ("Be brief.", 0.2, 100)


async def test_an_answer_ends_before_a_text_of_the_request(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Blue. END of it"))
    answer = await sdk.responses.create(model="scripted", input="Rome?", extra_body={"stop": ["END"]})
    assert (answer.output_text, answer.status) == ("Blue. ", "completed")
    for wrong in ("END", [""], [7], ["x"] * 17):
        with pytest.raises(openai.BadRequestError, match="stop"):
            await sdk.responses.create(model="scripted", input="Rome?", extra_body={"stop": wrong})


async def test_instructions_hold_for_one_request(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Sun."), saying("Still sun."), saying("Sun."))
    first = await sdk.responses.create(model="scripted", input="Rome?", instructions="Be brief.")
    second = await sdk.responses.create(input="Now?", previous_response_id=first.id, instructions="Be brief.")
    await sdk.responses.create(input="And now?", previous_response_id=second.id)
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.blocks[: len(before.blocks)] == before.blocks, "the prefix is what it was"
    told = [sum(b"Be brief." in block.data for block in request.blocks) for request in model.requests]
    assert told == [1, 1, 1], "the same instructions are not sent twice"
    assert b"no longer applies" in b"".join(block.data for block in model.requests[2].blocks)


async def test_a_first_request_may_bring_its_history(sdk: openai.AsyncOpenAI, model: ScriptedModel, app: App) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Rome"}'}
    history: Any = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Is it warm in Rome?"},
        call,
    ]
    model.then(saying("Yes, it is."), saying("You are welcome."))
    first = await sdk.responses.create(model="scripted", input=[*history, output("c1", "sun")], tools=[WEATHER])
    assert first.output_text == "Yes, it is."
    assert first.conversation is not None
    turns = await app.store.turns.path(LOCAL_OWNER, first.conversation.id)
    assert [turn.user.text for turn in turns] == ["Hello", "Is it warm in Rome?"]
    assert [len(turn.steps) for turn in turns] == [1, 2]
    second = await sdk.responses.create(previous_response_id=first.id, input="Thanks", tools=[WEATHER])
    assert second.output_text == "You are welcome."
    earlier, later = model.requests
    *kept, reminder = earlier.blocks
    assert b"Be kind." in reminder.data, "what the developer says is a reminder of a turn that goes on"
    assert list(later.blocks[: len(kept)]) == kept
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(previous_response_id=first.id, input=[*history, {"role": "user", "content": "?"}])
    assert caught.value.param == "input.2"


async def test_several_items_are_one_message(sdk: openai.AsyncOpenAI, model: ScriptedModel, app: App) -> None:
    model.then(saying("I see."))
    picture = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    note = base64.b64encode(b"Rome is warm.").decode()
    answer = await sdk.responses.create(
        model="scripted",
        input=[
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "input_image", "image_url": picture, "detail": "auto"}]},
            {"role": "user", "content": [{"type": "input_file", "filename": "rome.txt", "file_data": note}]},
            {"role": "user", "content": "What do you see?"},
        ],
    )
    turn = await app.store.turns.turn(LOCAL_OWNER, f"turn_{answer.id.removeprefix('resp_')}")
    assert [attachment.title for attachment in turn.attachments] == ["picture.png", "rome.txt"]
    assert turn.text.strip() == "What do you see?"
    assert turn.dynamic == "Be kind."
    assert any(b"Rome is warm." in block.data for block in model.requests[0].blocks)


async def test_the_example_of_the_how_to_page_runs(
    client: ServerClient, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "library.md").read_text("utf-8")
    [example] = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def weather" in text]
    model.then(calling(weather("c1", "Rome")), saying("Yes."))
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{client.http.base_url}/v1".replace("//v1", "/v1"),
        api_key="unused",
        http_client=http,
        default_headers={"X-Conversation-Id": "new"},
    ) as caller:
        names = {"client": caller, "json": json}
        await asyncio.to_thread(exec, example.replace("claude-opus-5-5", "scripted"), names)
    assert capsys.readouterr().out == "Yes.\n"
    assert b"It is warm in Rome." in b"".join(block.data for block in model.requests[1].blocks)


def test_a_request_with_tools_and_results_is_the_same_both_ways() -> None:
    body: Any = {
        "input": [output("c1", "sun"), {**output("c2", "no"), "status": "incomplete"}],
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "name": "weather"},
        "max_output_tokens": 50,
        "parallel_tool_calls": False,
    }
    request = from_openai(body)
    assert [result.is_error for result in request.results] == [False, True]
    assert from_openai(to_openai(request)) == request


HALF = "\ud800"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"metadata": {"ticket": HALF}}, "metadata.ticket"),
        ({"tools": [WEATHER | {"description": HALF}]}, "tools.0.description"),
        ({"tools": [WEATHER | {"parameters": {"type": "object", HALF: 1}}]}, "tools.0.parameters"),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"title": HALF}}}},
            "text.format.schema.title",
        ),
        ({"model": HALF}, "model"),
        ({"reasoning": {"effort": HALF}}, "reasoning.effort"),
        ({"lamella": {"layout": HALF}}, "lamella.layout"),
        ({HALF: 1}, None),
    ],
)
async def test_a_body_with_half_of_a_character_is_refused_and_begins_nothing(
    client: ServerClient, model: ScriptedModel, fields: dict[str, Any], param: str | None
) -> None:
    model.then(saying("Hello."))
    conversation = await client.conversation()
    body = json.dumps({"input": "Hi", "conversation": conversation, **fields})
    answer = await client.http.post("/v1/responses", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    assert model.requests == []
    assert (await client.get(f"/conversations/{conversation}/turns"))["data"] == []


async def test_a_schema_with_half_of_a_character_is_refused(client: ServerClient, model: ScriptedModel) -> None:
    conversation = await client.conversation()
    body = json.dumps({"text": "Hi", "tools": [{"name": "look", "input_schema": {"type": "object", "title": HALF}}]})
    path, headers = f"/conversations/{conversation}/turns", {"content-type": "application/json"}
    answer = await client.call("POST", path, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools.0.input_schema.title"), answer.text


async def test_a_turn_is_asked_again_with_its_own_results_alone(client: ServerClient, model: ScriptedModel) -> None:
    model.then(calling(weather("c1", "Rome")), saying("Sun."))
    conversation = await client.conversation()
    await client.send(conversation, "Rome?", tools=[{"name": "weather", "input_schema": {"type": "object"}}])
    results = [{"call_id": "c1", "content": "sun"}]
    packets = await client.send(conversation, "", results=results)
    again = {"regenerate": packets[0]["turn_id"], "results": [{"call_id": "c1", "content": "snow"}]}
    answer = await client.call("POST", f"/conversations/{conversation}/turns", json=again)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "regenerate"), answer.text
