"""A client of one API and an upstream of another, over sockets: answers, lines, errors, and who left."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from lamella.app.app import App
from lamella.gateway.dialects import Dialect
from lamella.gateway.translation import plain_name
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.provider import Provider

from .clients import PATHS, PROSE
from .test_lines import lines, requests
from .test_writing import ANSWER, written
from .upstream_server import UpstreamServer, upstream_server

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = ("messages", "chat", "responses")
PAIRS = pytest.mark.parametrize(("wire", "spoken"), list(permutations(WIRES, 2)))
DIALECTS = {"messages": Dialect.MESSAGES, "chat": Dialect.CHAT, "responses": Dialect.RESPONSES}
MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-6.1-terra", "responses": "gpt-6.1-terra"}
SCHEMA: Object = {"type": "object", "properties": {"place": {"type": "string"}}}
NAME = "mcp.harbour/weather"
"""A tool's name that not every vendor takes."""

SYSTEM = PROSE * 60
KEY = "lam-not-set-up"


@asynccontextmanager
async def server_before(url: str, spoken: str, folder: Path) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server whose one upstream speaks this API, and has the model `any`."""
    base = url if spoken == "messages" else f"{url}/v1"
    path = folder / "upstreams.toml"
    path.write_text(
        f'[[upstream]]\nname = "there"\nurl = "{base}"\nkey = "sk-upstream"\ndialects = ["{spoken}"]\n'
        f'aliases = {{ any = "{MODELS[spoken]}" }}\n'
    )
    async with served(read_settings(data=folder / "data", upstreams=path), checked=False) as made:
        yield made


def address(client: ServerClient) -> str:
    return str(client.http.base_url).removesuffix("/").removesuffix("/api/v1")


# The vendors' libraries as clients


@dataclass
class Talk:
    """A conversation by a vendor's library. `step` sends what there is and returns the answer's text and calls."""

    base: str
    streams: bool
    history: list[Any] = field(default_factory=list)
    model: str = "any"
    tool: str = NAME

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    async def step(self) -> tuple[str, list[tuple[str, str, Any]]]:
        raise NotImplementedError

    def answer(self, id: str, text: str) -> None:
        raise NotImplementedError


class MessagesTalk(Talk):
    async def step(self) -> tuple[str, list[tuple[str, str, Any]]]:
        asked: Any = {
            "model": self.model,
            "max_tokens": 2_000,
            "system": SYSTEM,
            "messages": self.history,
            "tools": [{"name": self.tool, "description": PROSE, "input_schema": SCHEMA}],
        }
        async with anthropic.AsyncAnthropic(base_url=self.base, api_key=KEY, max_retries=0) as sdk:
            if self.streams:
                async with sdk.messages.stream(**asked) as stream:
                    message = await stream.get_final_message()
            else:
                message = await sdk.messages.create(**asked)
        content: Any = [block.model_dump(exclude_none=True) for block in message.content]
        self.history.append({"role": "assistant", "content": content})
        calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        return "".join(block.text for block in message.content if block.type == "text"), calls

    def answer(self, id: str, text: str) -> None:
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        if self.history[-1]["role"] == "user":
            self.history[-1]["content"].append(result)
        else:
            self.history.append({"role": "user", "content": [result]})


class ChatTalk(Talk):
    async def step(self) -> tuple[str, list[tuple[str, str, Any]]]:
        function: Any = {"name": self.tool, "description": PROSE, "parameters": SCHEMA}
        asked: Any = {
            "model": self.model,
            "messages": [{"role": "system", "content": SYSTEM}, *self.history],
            "tools": [{"type": "function", "function": function}],
        }
        async with openai.AsyncOpenAI(base_url=f"{self.base}/v1", api_key=KEY, max_retries=0) as sdk:
            if self.streams:
                async with sdk.chat.completions.stream(**asked) as stream:
                    completion: Any = await stream.get_final_completion()
            else:
                completion = await sdk.chat.completions.create(**asked)
        message = completion.choices[0].message
        self.history.append(message.model_dump(exclude_none=True, exclude={"parsed", "tool_calls"}))
        calls = [
            (call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()
        ]
        if calls:
            self.history[-1]["tool_calls"] = [
                {
                    "id": one.id,
                    "type": "function",
                    "function": {"name": one.function.name, "arguments": one.function.arguments},
                }
                for one in message.tool_calls
            ]
        return message.content or "", calls

    def answer(self, id: str, text: str) -> None:
        self.history.append({"role": "tool", "tool_call_id": id, "content": text})


class ResponsesTalk(Talk):
    async def step(self) -> tuple[str, list[tuple[str, str, Any]]]:
        asked: Any = {
            "model": self.model,
            "instructions": SYSTEM,
            "input": self.history,
            "tools": [{"type": "function", "name": self.tool, "description": PROSE, "parameters": SCHEMA}],
            "include": ["reasoning.encrypted_content"],
            "store": False,
        }
        async with openai.AsyncOpenAI(base_url=f"{self.base}/v1", api_key=KEY, max_retries=0) as sdk:
            if self.streams:
                async with sdk.responses.stream(**asked) as stream:
                    response: Any = await stream.get_final_response()
            else:
                response = await sdk.responses.create(**asked)
        self.history += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        calls = [
            (item.call_id, item.name, json.loads(item.arguments))
            for item in response.output
            if item.type == "function_call"
        ]
        return response.output_text, calls

    def answer(self, id: str, text: str) -> None:
        self.history.append({"type": "function_call_output", "call_id": id, "output": text})


TALKS: dict[str, type[Talk]] = {"messages": MessagesTalk, "chat": ChatTalk, "responses": ResponsesTalk}


@PAIRS
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
async def test_the_vendors_library_talks_to_a_model_of_another_vendor(
    provider: Provider, tmp_path: Path, wire: str, spoken: str, streams: bool
) -> None:
    sent_name = plain_name(NAME, 64)
    calls = [{"name": sent_name, "arguments": {"place": place}} for place in ("Tromsø", "Ystad")]
    provider.script(
        {
            "calls": {"match": "weather", "text": "Let me look.", "reasoning": "Two places.", "tool_calls": calls},
            "answer": {"match": "Rain", "text": "Rain in both ☕.", "reasoning": "Both wet."},
            "bye": {"match": "Thank", "text": "You are welcome."},
        }
    )
    async with server_before(provider.url, spoken, tmp_path) as (app, client):
        talk = TALKS[wire](address(client), streams)
        talk.say("How is the weather?")
        said, made = await talk.step()
        assert said == "Let me look."
        assert [(name, arguments) for _, name, arguments in made] == [
            (NAME, {"place": "Tromsø"}),
            (NAME, {"place": "Ystad"}),
        ]
        for id, _, arguments in made:
            talk.answer(id, f"Rain in {arguments['place']}")
        assert await talk.step() == ("Rain in both ☕.", [])
        talk.say("Thank you")
        assert await talk.step() == ("You are welcome.", [])
        assert [request.status for request in provider.requests] == [200] * 3
        assert all(request.tokens_read for request in provider.requests[1:]), "each goes on from the one before"
        [line] = await lines(app, client)
        assert (line["turns"], line["requests"], line["breaks"]) == (2, 3, 0)
        assert line["cost"] == pytest.approx(provider.cost)
        found = await requests(client, line)
        assert {request["model"] for request in found} == {MODELS[spoken]}
        map = await client.get(f"/requests/{found[-1]['id']}/map")
        notes = [note["text"] for note in map["notes"]]
        assert notes[0].startswith("Translated from ")
        changed = [note for note in notes if "the name of a tool is not one that the upstream takes" in note]
        assert len(changed) == 1


@PAIRS
async def test_thinking_that_a_client_sends_back_reaches_the_vendor_that_sealed_it(
    provider: Provider, tmp_path: Path, wire: str, spoken: str
) -> None:
    provider.script({"hi": {"match": "Hello", "text": "Hi.", "reasoning": "A greeting."}, "bye": {"match": "Thank"}})
    async with server_before(provider.url, spoken, tmp_path) as (_, client):
        talk = TALKS[wire](address(client), streams=True)
        talk.say("Hello")
        await talk.step()
        talk.say("Thank you")
        await talk.step()
    history = json.dumps(provider.requests[-1].json)
    goes_back = wire != "chat" and spoken != "chat"  # Chat Completions has no place for a seal
    assert ("A greeting." in history and ("signature" in history or "encrypted_content" in history)) is goes_back
    assert provider.requests[-1].status == 200


# Bodies of our own, and what comes back


BODIES: dict[str, Object] = {
    "messages": {"model": "any", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]},
    "chat": {"model": "any", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "any", "input": "Hi"},
}


@pytest.fixture
async def upstream(anyio_backend: str) -> AsyncIterator[UpstreamServer]:
    async with upstream_server() as found:
        yield found


@pytest.fixture
async def client(upstream: UpstreamServer, spoken: str, tmp_path: Path) -> AsyncIterator[ServerClient]:
    async with server_before(upstream.url, spoken, tmp_path) as (_, client):
        yield client


def streamed(upstream: UpstreamServer, spoken: str) -> bytes:
    stream, _ = written(DIALECTS[spoken], ANSWER, asks_for_usage=True)
    upstream.headers = [("content-type", "text/event-stream"), ("request-id", "req_7")]
    upstream.pieces = [stream]
    return stream


ERRORS: dict[str, Any] = {
    "messages": lambda said: {"type": "error", "error": {"type": "of_the_vendor", "message": said}},
    "chat": lambda said: {"error": {"message": said, "type": "of_the_vendor", "code": None}},
    "responses": lambda said: {"error": {"message": said, "type": "of_the_vendor", "code": None}},
}


@PAIRS
@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 529])
async def test_a_refusal_keeps_its_status_and_when_to_come_again(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str, status: int
) -> None:
    upstream.status = status
    upstream.headers = [("content-type", "application/json"), ("retry-after", "7"), ("x-request-id", "req_9")]
    upstream.pieces = [json.dumps(ERRORS[spoken]("It is so.")).encode()]
    answer = await client.http.post(PATHS[wire], json={**BODIES[wire], "stream": True})
    assert answer.status_code == status
    assert (answer.headers["retry-after"], answer.headers["request-id"]) == ("7", "req_9")
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert "It is so." in told["error"]["message"]
    assert told.get("type") == ("error" if wire == "messages" else None)
    assert len(upstream.got) == 1, "nothing is tried again"


@PAIRS
async def test_what_goes_to_the_upstream(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    streamed(upstream, spoken)
    headers = {"x-api-key": KEY, "anthropic-beta": "a", "openai-organization": "b", "x-stainless-lang": "python"}
    body = {**BODIES[wire], "of_tomorrow": 1, "seed": 2}
    answer = await client.http.post(f"{PATHS[wire]}?beta=true", json=body, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["x-lamella-changes"].startswith("of_tomorrow and 1 more")
    assert (answer.headers["request-id"], answer.headers["x-request-id"]) == ("req_7", "req_7")
    [got] = upstream.got
    assert got.path == PATHS[spoken]
    assert got.headers["authorization"] == "Bearer sk-upstream"
    assert not {"x-api-key", "anthropic-beta", "openai-organization", "x-stainless-lang"} & set(got.headers)
    assert ("anthropic-version" in got.headers) is (spoken == "messages")
    sent = json.loads(got.body)
    assert (sent["model"], sent["stream"]) == (MODELS[spoken], True)


@PAIRS
async def test_an_upstream_that_answers_whole_although_a_stream_was_asked_for(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    _, made = written(DIALECTS[spoken], ANSWER)
    upstream.pieces = [json.dumps(made.whole()).encode()]
    answer = await client.http.post(PATHS[wire], json={**BODIES[wire], "stream": True})
    assert "Grüße" in answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")


@PAIRS
async def test_a_stream_that_breaks_off_ends_with_an_error_and_nothing_else(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    stream = streamed(upstream, spoken)
    upstream.pieces, upstream.breaks = [stream[: len(stream) // 2]], True
    answer = await client.http.post(PATHS[wire], json={**BODIES[wire], "stream": True})
    assert answer.status_code == 200
    assert "[DONE]" not in answer.text
    last = json.loads(answer.text.strip().split("\n")[-1].removeprefix("data: "))
    match wire:
        case "messages":
            assert (last["type"], last["error"]["type"]) == ("error", "api_error")
        case "chat":
            assert last["error"]["type"] == "server_error"
        case _:
            assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")


@PAIRS
async def test_an_answer_that_breaks_off_without_a_stream_is_not_to_be_asked_for_again(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    stream = streamed(upstream, spoken)
    upstream.pieces, upstream.breaks = [stream[: len(stream) // 2]], True
    answer = await client.http.post(PATHS[wire], json=BODIES[wire])
    assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "false")
    upstream.pieces = []
    answer = await client.http.post(PATHS[wire], json=BODIES[wire])
    assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "true")


@PAIRS
async def test_an_upstream_that_makes_no_sense_is_an_error_of_its_own(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    for kind, data in (("text/event-stream", b"event: message_start\ndata: []\n\n"), ("text/html", b"<html>")):
        upstream.headers, upstream.pieces = [("content-type", kind)], [data]
        answer = await client.http.post(PATHS[wire], json=BODIES[wire])
        assert answer.status_code == 502
        assert "Traceback" not in answer.text


@PAIRS
async def test_a_client_that_leaves_closes_the_upstream_within_half_a_second(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    stream = streamed(upstream, spoken)
    head, _, rest = stream.partition(b"Gr")
    upstream.pieces, upstream.pause = [head, b"Gr" + rest, *[b": wait\n\n"] * 500], 0.02
    async with client.http.stream("POST", PATHS[wire], json={**BODIES[wire], "stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    left = time.monotonic()
    async with asyncio.timeout(5):
        await upstream.closed.wait()
    assert time.monotonic() - left < 0.5


@PAIRS
async def test_what_can_not_be_carried_never_reaches_the_upstream(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    odd: Any = {
        "messages": {"messages": [{"role": "user", "content": [{"type": "container_upload"}]}]},
        "chat": {"n": 2},
        "responses": {"input": [{"type": "web_search_call"}]},
    }[wire]
    answer = await client.http.post(PATHS[wire], json={**BODIES[wire], **odd})
    assert answer.status_code == 400
    place = {"messages": "messages.0.content.0", "chat": "n", "responses": "input.0"}[wire]
    assert place in answer.json()["error"]["message"]
    assert upstream.got == []


# Counting


@pytest.mark.parametrize(("wire", "spoken"), [("messages", "responses"), ("responses", "messages")])
async def test_tokens_are_counted_by_the_upstream(provider: Provider, tmp_path: Path, wire: str, spoken: str) -> None:
    path = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}[wire]
    async with server_before(provider.url, spoken, tmp_path) as (_, client):
        answer = await client.http.post(path, json=BODIES[wire])
    assert answer.status_code == 200
    assert "x-lamella-estimate" not in answer.headers
    assert answer.json()["input_tokens"] > 0
    assert answer.json().get("object") == ("response.input_tokens" if wire == "responses" else None)


@pytest.mark.parametrize(("wire", "spoken"), [("messages", "chat"), ("responses", "chat")])
async def test_tokens_are_estimated_for_an_upstream_that_counts_none(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    path = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}[wire]
    body = {**BODIES[wire], "instructions" if wire == "responses" else "system": SYSTEM}
    answer = await client.http.post(path, json=body)
    assert answer.headers["x-lamella-estimate"] == "true"
    assert 1_000 < answer.json()["input_tokens"] < 2_000
    assert upstream.got == []


@pytest.mark.parametrize(("wire", "spoken"), [("responses", "messages")])
async def test_a_compaction_is_not_translated(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    answer = await client.http.post("/v1/responses/compact", json=BODIES[wire])
    assert answer.status_code == 400
    assert "/compact can't be carried" in answer.json()["error"]["message"]


# Why


@PAIRS
async def test_why_names_what_differs_in_the_bytes_that_the_provider_saw(
    provider: Provider, tmp_path: Path, wire: str, spoken: str
) -> None:
    async with server_before(provider.url, spoken, tmp_path) as (app, client):
        talk = TALKS[wire](address(client), streams=False)
        talk.say(f"{PROSE * 20}Hello")
        await talk.step()
        talk.say("And the ships?")
        await talk.step()
        talk.history[0]["content"] = talk.history[0]["content"].replace("keeper", "Keeper", 1)
        talk.say("Thank you")
        await talk.step()
        [line] = await lines(app, client)
        assert (line["requests"], line["breaks"]) == (3, 1)
        newest = (await requests(client, line))[-1]
        why = await client.get(f"/requests/{newest['id']}/why")
    assert "an earlier message was edited" in json.dumps(why)


@PAIRS
async def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_look_for(
    client: ServerClient, upstream: UpstreamServer, wire: str, spoken: str
) -> None:
    upstream.status, upstream.headers = 400, [("content-type", "application/json")]
    said = "prompt is too long: 210342 tokens > 200000 maximum" if spoken == "messages" else "context_length_exceeded"
    upstream.pieces = [json.dumps(ERRORS[spoken](said)).encode()]
    told = (await client.http.post(PATHS[wire], json=BODIES[wire])).json()["error"]
    if wire == "messages":
        assert told["message"].startswith("prompt is too long: ")
    else:
        assert told["code"] == "context_length_exceeded"
