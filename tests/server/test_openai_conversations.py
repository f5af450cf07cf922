"""Conversations and their items by OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from lamella.core.messages import ToolCall
from lamella.llm.scripted import Gate, ScriptedModel, calling, saying
from lamella.server.testing import ServerClient

pytestmark = pytest.mark.anyio

USER = {"type": "message", "role": "user", "content": "When is low tide?"}
ANSWERED = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At noon."}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": '{"day":1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "The table has it."}]}


@pytest.fixture
async def sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


async def said(sdk: openai.AsyncOpenAI, conversation: str, **query: Any) -> list[tuple[str, str]]:
    """The items of a conversation in order: each its kind, and what it says."""
    found: list[tuple[str, str]] = []
    async for item in sdk.conversations.items.list(conversation, **{"order": "asc", **query}):
        one: Any = item
        match one.type:
            case "message":
                found.append((one.role, "".join(getattr(part, "text", part.type) for part in one.content)))
            case "reasoning":
                found.append(("reasoning", one.summary[0].text))
            case "function_call":
                found.append(("call", f"{one.name} {one.arguments}"))
            case "function_call_output":
                found.append(("output", one.output))
    return found


async def test_items_that_are_added_at_once_are_all_there(sdk: openai.AsyncOpenAI) -> None:
    """Whole turns, and items that go on the newest turn, which each request reads and writes as a whole."""
    made = await sdk.conversations.create(items=[USER])  # type: ignore[list-item]
    added: list[Any] = [{**ANSWERED, "content": [{"type": "output_text", "text": f"Answer {n}."}]} for n in range(6)]
    added += [{**USER, "content": f"Question {n}?"} for n in range(6)]

    async def add(item: Any) -> bool:
        try:
            await sdk.conversations.items.create(made.id, items=[item])
        except openai.ConflictError:
            return False
        return True

    taken = await asyncio.gather(*map(add, added))
    texts = [text for _, text in await said(sdk, made.id)]
    wanted = [f"Answer {n}." for n in range(6)] + [f"Question {n}?" for n in range(6)]
    assert sorted(texts[1:]) == sorted(text for text, was in zip(wanted, taken, strict=True) if was)
    assert all(taken), "nobody is asked to send it again"


async def test_a_conversation_is_made_changed_and_deleted(sdk: openai.AsyncOpenAI) -> None:
    made = await sdk.conversations.create(metadata={"topic": "tides"})
    assert (made.object, made.metadata) == ("conversation", {"topic": "tides"})
    assert await sdk.conversations.retrieve(made.id) == made
    changed = await sdk.conversations.update(made.id, metadata={"topic": "ships"})
    assert (await sdk.conversations.retrieve(made.id)).metadata == {"topic": "ships"} == changed.metadata
    deleted = await sdk.conversations.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "conversation.deleted")
    for ask in (sdk.conversations.retrieve, sdk.conversations.delete, sdk.conversations.items.list):
        with pytest.raises(openai.NotFoundError, match="Conversation with id") as caught:
            await ask(made.id)
        assert caught.value.code == "conversation_not_found"


async def test_items_come_back_as_they_were_given(sdk: openai.AsyncOpenAI) -> None:
    items: Any = [USER, THOUGHT, CALL, OUTPUT, ANSWERED, {"role": "user", "content": "And then?"}]
    made = await sdk.conversations.create(items=items)
    expected = [
        ("user", "When is low tide?"),
        ("reasoning", "The table has it."),
        ("call", 'tide {"day":1}'),
        ("output", "noon"),
        ("assistant", "At noon."),
        ("user", "And then?"),
    ]
    assert await said(sdk, made.id) == expected
    for limit in (1, 2, 3, 10):
        assert await said(sdk, made.id, limit=limit) == expected
        assert await said(sdk, made.id, limit=limit, order="desc") == expected[::-1]
    listed = (await sdk.conversations.items.list(made.id)).data
    assert len({item.id for item in listed}) == len(expected)
    for item in listed:
        assert await sdk.conversations.items.retrieve(str(item.id), conversation_id=made.id) == item


async def test_a_model_reads_items_and_its_answer_becomes_some(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made = await sdk.conversations.create(items=[USER, CALL, OUTPUT, ANSWERED])  # type: ignore[list-item]
    model.then(saying("At six."))
    response = await sdk.responses.create(input="And high tide?", conversation=made.id)
    read = " ".join(str(block.value) for block in model.requests[0].blocks)
    for text in ("When is low tide?", "noon", "At noon.", "And high tide?"):
        assert text in read
    assert (await said(sdk, made.id))[-2:] == [("user", "And high tide?"), ("assistant", "At six.")]
    [newest] = (await sdk.conversations.items.list(made.id, limit=1)).data
    assert newest.id == response.output[0].id
    assert await said(sdk, made.id, limit=1) == await said(sdk, made.id)
    model.then(saying("Yes."))
    again = await sdk.responses.create(input="Sure?", conversation={"id": made.id})
    assert again.conversation is not None
    assert again.conversation.id == made.id


async def test_an_unanswered_message_is_read_with_the_next_one(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made = await sdk.conversations.create(items=[USER])  # type: ignore[list-item]
    model.then(saying("At noon."))
    await sdk.responses.create(input="I ask again.", conversation=made.id)
    read = " ".join(str(block.value) for block in model.requests[0].blocks)
    assert "When is low tide?" in read
    assert "I ask again." in read
    assert [role for role, _ in await said(sdk, made.id)] == ["user", "user", "assistant"]


async def test_what_is_added_later_goes_on_with_the_turn(sdk: openai.AsyncOpenAI) -> None:
    """The session of openai-agents stores the question first, and the answer when it is there."""
    made = await sdk.conversations.create()
    items = sdk.conversations.items
    first = await items.create(made.id, items=[USER])  # type: ignore[list-item]
    assert [item.type for item in first.data] == ["message"]
    second = await items.create(made.id, items=[CALL])  # type: ignore[list-item]
    third = await items.create(made.id, items=[OUTPUT, ANSWERED])  # type: ignore[list-item]
    assert [item.type for item in (*second.data, *third.data)] == ["function_call", "function_call_output", "message"]
    assert [role for role, _ in await said(sdk, made.id)] == ["user", "call", "output", "assistant"]


async def test_the_newest_item_is_taken_back(sdk: openai.AsyncOpenAI) -> None:
    """As the session of openai-agents does with `pop_item`."""
    made = await sdk.conversations.create(items=[USER, CALL, OUTPUT, ANSWERED, USER])  # type: ignore[list-item]
    left = await said(sdk, made.id)
    while left:
        [newest] = (await sdk.conversations.items.list(made.id, limit=1)).data
        back = await sdk.conversations.items.delete(str(newest.id), conversation_id=made.id)
        assert back.id == made.id
        left.pop()
        assert await said(sdk, made.id) == left
    assert (await sdk.conversations.items.list(made.id)).data == []


async def test_what_belongs_together_is_not_taken_apart(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made = await sdk.conversations.create(items=[USER, ANSWERED])  # type: ignore[list-item]
    first, second = (await sdk.conversations.items.list(made.id, order="asc")).data
    model.then(saying("At six."))
    await sdk.responses.create(input="And high tide?", conversation=made.id)
    before = await said(sdk, made.id)
    newest = (await sdk.conversations.items.list(made.id, limit=1)).data[0]
    for item in (first, second, newest):
        with pytest.raises(openai.BadRequestError, match="newest item"):
            await sdk.conversations.items.delete(str(item.id), conversation_id=made.id)
    assert await said(sdk, made.id) == before


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([], "items"),
        ("text", "items"),
        ([USER] * 21, "items"),
        ([{"role": "user"}], "items.0"),
        ([USER, {"role": "user", "content": " "}], "items.1.content"),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "items.0.content"),
        ([{"role": "system", "content": "Be brief."}], "items.0.role"),
        ([OUTPUT], "items.0"),
        ([{"type": "web_search_call", "id": "ws_1"}], "items.0"),
        ([{"type": "item_reference", "id": "msg_1"}], "items.0"),
        ([7], "items.0"),
    ],
)
async def test_an_item_that_can_not_be_stored_is_named(sdk: openai.AsyncOpenAI, items: Any, param: str) -> None:
    made = await sdk.conversations.create()
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.conversations.items.create(made.id, items=items)
    assert caught.value.param == param
    assert (await sdk.conversations.items.list(made.id)).data == []


async def test_files_of_items_must_be_there(sdk: openai.AsyncOpenAI) -> None:
    file = await sdk.files.create(file=("tide.txt", b"Low tide at noon."), purpose="user_data")
    parts: Any = [{"type": "input_file", "file_id": file.id}, {"type": "input_text", "text": "See."}]
    made = await sdk.conversations.create(items=[{"role": "user", "content": parts}])
    [item] = (await sdk.conversations.items.list(made.id)).data
    shown: Any = item
    assert [part.type for part in shown.content] == ["input_file", "input_text"]
    parts[0]["file_id"] = "file_no"
    with pytest.raises(openai.NotFoundError):
        await sdk.conversations.create(items=[{"role": "user", "content": parts}])


@pytest.mark.parametrize(
    "metadata",
    [
        {"k" * 65: "v"},
        {"k": "v" * 513},
        {str(n): "v" for n in range(17)},
        {"k": 1},
        "text",
    ],
    ids=["key", "value", "pairs", "type", "object"],
)
async def test_metadata_has_the_limits_of_the_api(sdk: openai.AsyncOpenAI, metadata: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.conversations.create(metadata=metadata)
    assert caught.value.param == "metadata"


async def test_a_cursor_of_elsewhere_is_refused(sdk: openai.AsyncOpenAI) -> None:
    here = await sdk.conversations.create(items=[USER])  # type: ignore[list-item]
    there = await sdk.conversations.create(items=[USER])  # type: ignore[list-item]
    [foreign] = (await sdk.conversations.items.list(there.id)).data
    for after in (str(foreign.id), "msg_no", "no"):
        with pytest.raises(openai.BadRequestError) as caught:
            await sdk.conversations.items.list(here.id, after=after)
        assert caught.value.param == "after"
    with pytest.raises(openai.NotFoundError):
        await sdk.conversations.items.retrieve(str(foreign.id), conversation_id=here.id)


async def test_a_conversation_that_answers_takes_no_items(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made, gate = await sdk.conversations.create(), Gate()
    model.then([gate, *saying("Done.")])
    await sdk.responses.create(input="Hi", conversation=made.id, background=True)
    await asyncio.wait_for(gate.reached.wait(), 10)
    for ask in (
        sdk.conversations.items.create(made.id, items=[USER]),  # type: ignore[list-item]
        sdk.conversations.delete(made.id),
        sdk.responses.create(input="Hi", conversation=made.id),
    ):
        with pytest.raises(openai.ConflictError) as caught:
            await ask
        assert caught.value.code == "conversation_locked"
    assert await said(sdk, made.id) == [("user", "Hi")]
    gate.opened.set()


async def test_calls_of_the_servers_tools_are_no_items(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made = await sdk.conversations.create()
    model.then(calling(ToolCall("c1", "read_file", '{"file_id":"no"}'), text="Let me look."), saying("None."))
    await sdk.responses.create(input="Hi", conversation=made.id)
    assert [role for role, _ in await said(sdk, made.id)] == ["user", "assistant", "assistant"]


TOOL: Any = {"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}, "strict": False}


async def test_calls_of_the_callers_tools_and_their_outputs_are_items(
    sdk: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    made = await sdk.conversations.create()
    model.then(calling(ToolCall("c1", "tide", "{}"), text="Let me look."), saying("At noon."))
    await sdk.responses.create(input="When?", conversation=made.id, tools=[TOOL])
    await sdk.responses.create(input=[OUTPUT], conversation=made.id, tools=[TOOL])  # type: ignore[list-item]
    expected = ["user", "assistant", "call", "output", "assistant"]
    assert [kind for kind, _ in await said(sdk, made.id)] == expected
    assert [kind for kind, _ in await said(sdk, made.id, limit=1)] == expected
    listed = (await sdk.conversations.items.list(made.id)).data
    assert len({item.id for item in listed}) == len(expected)
    for item in listed:
        assert await sdk.conversations.items.retrieve(str(item.id), conversation_id=made.id) == item


async def test_a_call_that_was_added_is_answered_by_a_response(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    made = await sdk.conversations.create(items=[USER, CALL])  # type: ignore[list-item]
    model.then(saying("At noon."))
    await sdk.responses.create(input=[OUTPUT], conversation=made.id, tools=[TOOL])  # type: ignore[list-item]
    read = [block.value for block in model.requests[0].blocks]
    assert any(block.get("type") == "tool_result" and "noon" in str(block) for block in read)
    assert [kind for kind, _ in await said(sdk, made.id)] == ["user", "call", "output", "assistant"]


@pytest.mark.parametrize(
    "body", [{"\ud800": 1}, {"items": [{"type": "\ud800"}]}, {"items": [OUTPUT | {"call_id": "\ud800"}]}]
)
async def test_half_of_a_character_is_told_by_its_number(client: ServerClient, body: Any) -> None:
    content, headers = json.dumps(body), {"content-type": "application/json"}
    answer = await client.http.post("/v1/conversations", content=content, headers=headers, timeout=10)
    assert answer.status_code == 400
    assert "U+D800" in answer.json()["error"]["message"]


@pytest.mark.parametrize("arguments", ["", "noon", "[1]", '"noon"'])
async def test_a_call_with_arguments_that_are_no_object_is_shown_to_a_model(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, arguments: str
) -> None:
    call: Any = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments}
    items: Any = [USER, call, OUTPUT]
    made = await sdk.conversations.create(items=items)
    model.then(saying("At noon."))
    answer = await sdk.responses.create(input="And?", conversation=made.id)
    assert answer.output_text == "At noon."
    assert [part["input"] for part in calls_sent(model)] == [{"arguments": arguments}]


def calls_sent(model: ScriptedModel) -> list[Any]:
    """The calls in the newest request."""
    messages: Any = model.body(model.requests[-1])["messages"]
    parts = [part for message in messages for part in message["content"] if isinstance(part, dict)]
    return [part for part in parts if part["type"] == "tool_use"]
