"""Stored responses by OpenAI's own client: the same object everywhere, followed again, cancelled, deleted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.messages import ToolCall
from lamella.core.packets import decode_packet
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.routes.response_writer import ResponseWriter
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


ANSWERS: dict[str, list[Any]] = {
    "plain": [saying("Hello", " there.")],
    "thinking and tools": [
        calling(ToolCall("c1", "read_file", '{"file_id":"file_no"}'), text="Let me look."),
        [deltas.ReasoningDelta(0, "Hm."), deltas.TextDelta(1, "There is none."), *saying()],
    ],
    "failed": [[ProviderRefusedRequest("The provider says no.")]],
    "failed later": [[deltas.TextDelta(0, "Well"), ProviderRefusedRequest("The provider says no.")]],
}


async def _streamed(sdk: openai.AsyncOpenAI, **fields: Any) -> list[dict[str, Any]]:
    async with await sdk.responses.create(**{"input": "Hi", "stream": True, **fields}) as events:
        return [event.model_dump(mode="json", exclude_unset=True) async for event in events]


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("fields", [{}, {"background": True, "metadata": {"ticket": "7"}}], ids=["", "background"])
async def test_a_response_is_one_object_in_its_stream_and_when_it_is_asked_for(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, kind: str, fields: dict[str, Any]
) -> None:
    model.then(*ANSWERS[kind])
    events = await _streamed(sdk, **fields)
    ended = events[-1]["response"]
    found = await sdk.responses.retrieve(ended["id"])
    assert found.model_dump(mode="json", exclude_unset=True) == ended
    assert ended["status"] == ("failed" if "failed" in kind else "completed")
    assert ended["metadata"] == fields.get("metadata", {})
    kinds = [event["type"] for event in events]
    queued = ["response.queued"] if fields else []
    assert kinds[: 2 + len(queued)] == ["response.created", *queued, "response.in_progress"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


async def test_a_whole_answer_is_that_object_too(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Hello."))
    answered = await sdk.responses.create(input="Hi", metadata={"ticket": "7"})
    assert await sdk.responses.retrieve(answered.id) == answered
    model.then(saying("Still here."))
    second = await sdk.responses.create(input="Go on", previous_response_id=answered.id)
    assert second.previous_response_id == answered.id
    assert await sdk.responses.retrieve(second.id) == second


@pytest.mark.parametrize("kind", ANSWERS)
async def test_a_stream_that_broke_off_goes_on_after_any_event(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, kind: str
) -> None:
    model.then(*ANSWERS[kind])
    events = await _streamed(sdk, background=True)
    response_id = events[-1]["response"]["id"]
    for last in range(-1, len(events)):
        async with await sdk.responses.retrieve(response_id, stream=True, starting_after=last) as again:
            rest = [event.model_dump(mode="json", exclude_unset=True) async for event in again]
        assert rest == events[last + 1 :]


async def test_a_client_that_lost_its_connection_gets_every_event_once(
    sdk: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then([deltas.TextDelta(0, "One "), gate, deltas.TextDelta(0, "two."), *saying()])
    got = []
    async with await sdk.responses.create(input="Hi", stream=True, background=True) as events:
        async for event in events:
            got.append(event)
            if event.type == "response.output_text.delta":
                break
    await asyncio.wait_for(gate.reached.wait(), 10)
    response_id = got[0].response.id  # type: ignore[union-attr]
    assert (await sdk.responses.retrieve(response_id)).status == "in_progress"
    again = await sdk.responses.retrieve(response_id, stream=True, starting_after=got[-1].sequence_number)
    gate.opened.set()
    async with again as events:
        got += [event async for event in events]
    assert [event.sequence_number for event in got] == list(range(len(got)))
    assert "".join(event.delta for event in got if event.type == "response.output_text.delta") == "One two."
    assert got[-1].type == "response.completed"


async def test_a_background_response_is_polled_to_its_end(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([gate, *saying("Done.")])
    begun = await sdk.responses.create(input="Hi", background=True)
    assert (begun.status, begun.background, begun.output) == ("queued", True, [])
    await asyncio.wait_for(gate.reached.wait(), 10)
    assert (await sdk.responses.retrieve(begun.id)).status == "in_progress"
    gate.opened.set()
    async with await sdk.responses.retrieve(begun.id, stream=True) as events:
        kinds = [event.type async for event in events]
    assert kinds[-1] == "response.completed"
    found = await sdk.responses.retrieve(begun.id)
    assert (found.status, found.output_text) == ("completed", "Done.")


async def test_cancelling_stops_a_response_and_twice_is_once(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([deltas.TextDelta(0, "Well"), gate, *saying()])
    begun = await sdk.responses.create(input="Hi", background=True)
    await asyncio.wait_for(gate.reached.wait(), 10)
    cancelled = await sdk.responses.cancel(begun.id)
    assert (cancelled.status, cancelled.output_text) == ("cancelled", "Well")
    assert await sdk.responses.cancel(begun.id) == await sdk.responses.retrieve(begun.id) == cancelled


async def test_a_finished_response_is_cancelled_no_more(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.then(saying("Hello."))
    answered = await sdk.responses.create(input="Hi")
    assert await sdk.responses.cancel(answered.id) == answered


async def test_a_deleted_response_is_gone_and_can_not_be_gone_on_from(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, client: ServerClient
) -> None:
    model.then(saying("Hello."), saying("And?"))
    first = await sdk.responses.create(input="Hi")
    second = await sdk.responses.create(input="Go on", previous_response_id=first.id)
    deleted = await client.http.delete(f"/v1/responses/{first.id}")
    assert deleted.json() == {"id": first.id, "object": "response", "deleted": True}
    for ask in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel, sdk.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match=f"Response with id '{first.id}' not found"):
            await ask(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(input="Again", previous_response_id=first.id, model="scripted")
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")
    assert len(model.requests) == 2
    assert (await sdk.responses.retrieve(second.id)).output_text == "And?"


async def test_a_conversation_without_a_name_goes_with_the_last_of_its_responses(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, client: ServerClient
) -> None:
    model.then(saying("Hello."), saying("And?"), saying("Kept."))
    first = await sdk.responses.create(input="Hi")
    second = await sdk.responses.create(input="Go on", previous_response_id=first.id)
    named = await client.conversation()
    third = await sdk.responses.create(input="Hi", conversation=named)
    assert first.conversation is not None
    path = f"/conversations/{first.conversation.id}"
    await sdk.responses.delete(first.id)
    assert (await client.call("GET", path)).status_code == 200
    await sdk.responses.delete(second.id)
    assert (await client.call("GET", path)).status_code == 404
    await sdk.responses.delete(third.id)
    assert (await client.call("GET", f"/conversations/{named}")).status_code == 200


async def test_a_response_that_is_written_is_not_deleted(sdk: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([gate, *saying("Done.")])
    begun = await sdk.responses.create(input="Hi", background=True)
    await asyncio.wait_for(gate.reached.wait(), 10)
    with pytest.raises(openai.ConflictError, match="Cancel it"):
        await sdk.responses.delete(begun.id)
    gate.opened.set()


async def test_input_items_are_the_users_message_with_its_files(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, client: ServerClient
) -> None:
    model.then(saying("I see."))
    file = await client.upload("a.txt", b"Some words.")
    content: Any = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_file", "file_id": file["id"]},
    ]
    response = await sdk.responses.create(input=[{"role": "user", "content": content}])
    [item] = [item async for item in sdk.responses.input_items.list(response.id, limit=1, order="asc")]
    said: Any = item
    assert (said.role, said.status) == ("user", "completed")
    assert [part.type for part in said.content] == ["input_file", "input_text"]
    assert (said.content[0].file_id, said.content[1].text) == (file["id"], "What is it?")
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.input_items.list(response.id, after="msg_no")
    assert caught.value.param == "after"


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": "many"}, {"order": "up"}], ids=lambda query: next(iter(query))
)
async def test_a_wrong_query_is_told_with_its_parameter(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, query: dict[str, Any]
) -> None:
    model.then(saying("I see."))
    response = await sdk.responses.create(input="Hi")
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.input_items.list(response.id, **query)
    assert caught.value.param == next(iter(query))


async def test_an_end_that_a_killed_process_did_not_store_has_a_new_number(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, app: App
) -> None:
    """A client may have seen events whose packets were lost; it still learns that the response ended."""
    model.then(saying("Hello."))
    response = await sdk.responses.create(input="Hi")
    turn_id = response.id.replace("resp_", "turn_")
    lost = decode_packet(
        b'{"type":"turn.finished","n":99,"turn_id":"t","status":"interrupted","cost":0,'
        b'"usage":{"input":0,"cache_read":0,"cache_write":0,"fresh":0,"output":0,"reasoning":0}}'
    )
    turn = await app.store.turns.turn(LOCAL_OWNER, turn_id)
    writer = ResponseWriter(turn, {}, 40)
    assert writer.begin() == b""
    assert b'"sequence_number":41' in writer.take(lost)


async def test_a_response_that_a_restart_cut_off_has_failed_and_is_followed_to_its_end(
    model: ScriptedModel, tmp_path: Path
) -> None:
    gate = Gate()
    model.then([deltas.TextDelta(0, "One "), gate, *saying("two.")])
    settings, got = read_settings(data=tmp_path), b""
    async with served(settings, checked=False, models=ScriptedModels(model)) as (_, client):
        begun = (await client.http.post("/v1/responses", json={"input": "Hi", "background": True})).json()
        path = f"/v1/responses/{begun['id']}"
        await asyncio.wait_for(gate.reached.wait(), 10)
        async with client.http.stream("GET", f"{path}?stream=true") as answer:
            async for data in answer.aiter_raw():
                got += data
                if b"One " in got:
                    break
    seen = got.count(b"sequence_number")
    async with served(settings, checked=False, models=ScriptedModels(model)) as (_, client):
        found = (await client.http.get(path)).json()
        assert (found["status"], found["error"]["code"]) == ("failed", "server_error")
        assert found["output"][0]["content"][0]["text"] == "One "
        rest = (await client.http.get(f"{path}?stream=true&starting_after={seen - 1}")).text
    numbers = [int(number) for number in re.findall(r'"sequence_number":(\d+)', rest)]
    assert numbers == list(range(seen, seen + len(numbers)))
    assert rest.count("event: response.failed") == 1


async def test_of_a_turn_of_two_models_the_answer_that_is_gone_on_from_is_the_response(tmp_path: Path) -> None:
    """The page asks several models at once; a response is one model's."""
    one = ScriptedModel([[ProviderRefusedRequest("One says no.")]], replace(FACTS, name="one"))
    two = ScriptedModel([saying("Two", " says yes.")], replace(FACTS, name="two"))
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(one, two)) as (_, client):
        packets = await client.send(await client.conversation(), "Well?", models=["one", "two"])
        path = f"/v1/responses/{packets[0]['turn_id'].replace('turn_', 'resp_')}"
        found = (await client.http.get(path)).json()
        assert (found["status"], found["model"], found["error"]) == ("completed", "two", None)
        assert [part["text"] for item in found["output"] for part in item["content"]] == ["Two says yes."]
        events = (await client.http.get(f"{path}?stream=true")).text
        assert "One says no" not in events
