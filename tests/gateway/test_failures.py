"""What fails upstream over each door, at each moment: what the caller gets, what is recorded, and what stays open."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from lamella.app.app import App
from lamella.server.testing import ServerClient, served

from .conftest import settings_of
from .upstream_server import UpstreamServer, upstream_server

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-6.1-terra", "responses": "gpt-6.1-terra"}
DOORS = pytest.mark.parametrize("door", PATHS)
KINDS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
STREAM = [("content-type", "text/event-stream"), ("request-id", "req_up")]
SILENCE = 0.4
BEGUN = {
    "messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"claude-opus-5-5",'
    b'"usage":{"input_tokens":1000,"output_tokens":1}}}\n\n',
    "chat": b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Ye"}}]}\n\n',
    "responses": b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_up","object":'
    b'"response","status":"in_progress","model":"gpt-6.1-terra","output":[]}}\n\n',
}

SAID = {
    "messages": b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":'
    b'"text","text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":'
    b'"text_delta","text":"Yes, the lamp is lit."}}\n\n',
    "chat": b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"s, the lamp is lit."}}]}\n\n',
    "responses": b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","output_index":0,'
    b'"content_index":0,"delta":"Yes, the lamp is lit."}\n\n',
}


@pytest.fixture
async def upstream(anyio_backend: str) -> AsyncIterator[UpstreamServer]:
    async with upstream_server() as found:
        yield found


@pytest.fixture
async def door_of(upstream: UpstreamServer, tmp_path: Path) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = settings_of(upstream.url, f"{upstream.url}/v1", tmp_path).model_copy(
        update={"gateway_timeout": SILENCE, "gateway_markers": False}
    )
    async with served(settings, checked=False) as made:
        yield made


@pytest.fixture
def app(door_of: tuple[App, ServerClient]) -> App:
    return door_of[0]


@pytest.fixture
def client(door_of: tuple[App, ServerClient]) -> ServerClient:
    return door_of[1]


def body(door: str, streams: bool) -> Object:
    said = [{"role": "user", "content": "Hello"}]
    prompt = {"input": said} if door == "responses" else {"messages": said}
    return {"model": MODELS[door], "stream": streams, "max_tokens": 50, **prompt}


async def ask(client: ServerClient, door: str, streams: bool) -> httpx2.Response:
    return await client.http.post(PATHS[door], json=body(door, streams))


async def recorded(app: App, client: ServerClient) -> list[Object]:
    """All requests as they were recorded, oldest first."""
    await app.gateway.recorder.drain()
    found = []
    for line in (await client.get("/lines?limit=100"))["data"]:
        for turn in (await client.get(f"/conversations/{line['id']}/turns"))["data"]:
            found += (await client.get(f"/turns/{turn['id']}/requests"))["data"]
    return sorted(found, key=lambda one: str(one["at"]))


async def closed(upstream: UpstreamServer) -> float:
    """Seconds until the connections of the upstream are closed."""
    started = time.monotonic()
    while upstream.open and time.monotonic() - started < 5:  # noqa: ASYNC110 (a socket tells nobody)
        await asyncio.sleep(0.005)
    return time.monotonic() - started


def error_of(door: str, said: bytes) -> Object:
    """The error at the end of an answer, of a stream or not."""
    found = json.loads(said.decode().strip().rpartition("data: ")[2])
    if found.get("type") == "response.failed":
        assert (found["response"]["status"], found["response"]["object"]) == ("failed", "response")
        found = found["response"]
    assert (found.get("type") == "error") is (door == "messages")
    error: Object = found["error"]
    return error


@DOORS
@KINDS
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "provider_error"),
        (401, "provider_error"),
        (403, "provider_error"),
        (404, "provider_error"),
        (413, "context_length_exceeded"),
        (429, "rate_limit_exceeded"),
        (500, "provider_error"),
        (503, "overloaded"),
        (529, "overloaded"),
    ],
)
async def test_a_refusal_passes_whole_and_is_recorded_without_a_bill(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, streams: bool, status: int, code: str
) -> None:
    upstream.status, upstream.pieces = status, [b'{"error": {"type": "odd", "message": "No, ', b'not now."}}']
    headers = {"retry-after": "7", "request-id": "req_up", "x-should-retry": "false", "anthropic-ratelimit-x": "1"}
    upstream.headers = [("content-type", "application/json"), *headers.items()]
    answer = await ask(client, door, streams)
    assert (answer.status_code, answer.content) == (status, b"".join(upstream.pieces))
    assert {name: answer.headers[name] for name in headers} == headers
    assert len(upstream.got) == 1
    [request] = await recorded(app, client)
    assert (request["error"]["code"], request["usage"], request["cost"]) == (code, None, None)
    assert "No, not now." in request["error"]["message"]
    assert request["provider_request_id"] == "req_up"


@DOORS
@KINDS
async def test_a_connection_that_drops_before_the_first_byte_may_be_tried_again(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, streams: bool
) -> None:
    upstream.drops = True
    answer = await ask(client, door, streams)
    assert (answer.status_code, answer.headers["x-should-retry"], len(upstream.got)) == (502, "true", 1)
    assert "can't be reached" in error_of(door, answer.content)["message"]
    [request] = await recorded(app, client)
    assert (request["error"]["code"], request["usage"]) == ("provider_error", None)


@DOORS
@KINDS
async def test_an_upstream_that_stays_silent_may_have_spent_tokens_and_is_not_asked_again(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, streams: bool
) -> None:
    upstream.silent = True
    answer = await ask(client, door, streams)
    assert (answer.status_code, answer.headers["x-should-retry"], len(upstream.got)) == (504, "false", 1)
    assert "did not answer in time" in error_of(door, answer.content)["message"]
    assert await closed(upstream) < 0.5
    [request] = await recorded(app, client)
    assert (request["error"]["code"], request["usage"]) == ("provider_timeout", None)


@DOORS
@pytest.mark.parametrize("fault", ["breaks", "stalls"])
async def test_a_stream_that_ends_early_says_so_in_the_dialect(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, fault: str
) -> None:
    begun = BEGUN[door] + SAID[door]
    upstream.headers, upstream.pieces = STREAM, [begun]
    setattr(upstream, fault, True)
    answer = await ask(client, door, True)
    assert answer.content.startswith(begun)
    assert b"[DONE]" not in answer.content
    rest = answer.content.removeprefix(begun)
    began = {"messages": b"event: error\n", "chat": b"data: ", "responses": b"event: response.failed\n"}[door]
    assert rest.startswith(began)
    said = "broke off" if fault == "breaks" else "did not answer in time"
    assert said in error_of(door, answer.content)["message"]
    if door == "responses":
        assert json.loads(rest.partition(b"data: ")[2])["response"]["id"] == "resp_up"
    [request] = await recorded(app, client)
    assert request["error"]["code"] == ("provider_error" if fault == "breaks" else "provider_timeout")
    usage = request["usage"]
    assert usage["estimated"], "what was not told is estimated"
    assert usage["input_estimated"] is (door != "messages")
    assert usage["input"] == (1000 if door == "messages" else request["estimate"])
    assert 3 <= usage["output"] <= 20
    assert request["cost"] > 0
    [line] = (await client.get("/lines"))["data"]
    assert (line["cost"], line["usage"]) == (request["cost"], usage), "the line says that its sum is an estimate"
    why = await client.get(f"/requests/{request['id']}/why")
    if door != "messages":
        assert (why["cause"], why["lost"]) == ("not_billed", 0)
        assert "is estimated" in why["text"]


@DOORS
async def test_a_stream_that_ends_within_an_event_is_broken_off(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str
) -> None:
    """An event of ours would be read as the end of the one that is cut."""
    upstream.headers, upstream.pieces, upstream.breaks = STREAM, [BEGUN[door], BEGUN[door][:40]], True
    asked = body(door, True) | ({"stream_options": {"include_usage": True}} if door == "chat" else {})
    got = b""
    with pytest.raises(httpx2.RemoteProtocolError):  # noqa: PT012
        async with client.http.stream("POST", PATHS[door], json=asked) as answer:
            async for data in answer.aiter_raw():
                got += data
    assert got == BEGUN[door] + BEGUN[door][:40]
    [request] = await recorded(app, client)
    assert request["error"]["code"] == "provider_error"


@DOORS
async def test_an_answer_that_is_no_stream_and_breaks_off_is_broken_off(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str
) -> None:
    upstream.pieces, upstream.breaks = [b'{"id":'], True
    with pytest.raises(httpx2.RemoteProtocolError):
        await ask(client, door, False)
    [request] = await recorded(app, client)
    assert request["error"]["code"] == "provider_error"


@DOORS
async def test_headers_alone_are_relayed_and_recorded_as_no_answer(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str
) -> None:
    upstream.headers, upstream.pieces = STREAM, []
    answer = await ask(client, door, True)
    assert (answer.status_code, answer.content) == (200, b"")
    [request] = await recorded(app, client)
    assert "ended before the message did" in request["error"]["message"]


@DOORS
@KINDS
async def test_a_redirect_would_lead_the_caller_past_this_server_and_is_refused(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, streams: bool
) -> None:
    upstream.status = 307
    upstream.headers = [("location", "http://127.0.0.1:9/elsewhere"), ("content-type", "text/html")]
    answer = await ask(client, door, streams)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (502, "false")
    assert "location" not in answer.headers
    assert "answered 307" in error_of(door, answer.content)["message"]
    [request] = await recorded(app, client)
    assert "answered 307" in request["error"]["message"]


@DOORS
@pytest.mark.parametrize("cut", [0, 9], ids=["whole", "truncated"])
async def test_an_answer_that_is_packed_though_nobody_asked_passes_and_is_read(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, cut: int
) -> None:
    packed = gzip.compress(BEGUN[door] * 3)
    packed = packed[: len(packed) - cut]
    upstream.headers, upstream.pieces = [*STREAM, ("content-encoding", "gzip")], [packed[:10], packed[10:]]
    async with client.http.stream("POST", PATHS[door], json=body(door, True)) as answer:
        assert b"".join([data async for data in answer.aiter_raw()]) == packed
    [request] = await recorded(app, client)
    assert "ended before the message did" in request["error"]["message"]
    usage = request["usage"]
    assert usage["input"] == (1000 if door == "messages" else request["estimate"])
    assert usage["input_estimated"] is (door != "messages"), "it has no end"


@DOORS
async def test_a_trickle_passes_byte_by_byte(client: ServerClient, upstream: UpstreamServer, door: str) -> None:
    """Silence is what times out, not time."""
    upstream.headers, upstream.pause = STREAM, SILENCE / 20
    upstream.pieces = [BEGUN[door][n : n + 1] for n in range(60)]
    started = time.monotonic()
    answer = await ask(client, door, True)
    assert answer.content == BEGUN[door][:60]
    assert time.monotonic() - started > SILENCE


async def test_headers_that_are_no_latin_pass_both_ways(client: ServerClient, upstream: UpstreamServer) -> None:
    upstream.headers = [("content-type", "application/json"), ("x-of-tomorrow", "coffee ☕")]
    sent = [(b"x-place", "Malmö ☕".encode()), (b"content-type", b"application/json")]
    request = client.http.build_request("POST", PATHS["chat"], json=body("chat", False), headers=sent)
    answer = await client.http.send(request)
    assert answer.status_code == 200
    assert dict(answer.headers.raw)[b"x-of-tomorrow"] == "coffee ☕".encode()
    assert upstream.got[0].headers["x-place"].encode("latin-1") == "Malmö ☕".encode()


@DOORS
@KINDS
async def test_an_upstream_that_speaks_no_tls_is_told(tmp_path: Path, door: str, streams: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        address = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        async with served(settings_of(address, f"{address}/v1", tmp_path), checked=False) as (app, client):
            said = await ask(client, door, streams)
            assert (said.status_code, said.headers["x-should-retry"]) == (502, "true")
            assert "no TLS connection" in error_of(door, said.content)["message"]
            [request] = await recorded(app, client)
            assert "no TLS connection" in request["error"]["message"]


# The caller leaves


async def connected(client: ServerClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = client.http.base_url
    return await asyncio.open_connection(address.host, address.port)


def head_of(client: ServerClient, door: str, length: int) -> bytes:
    address = client.http.base_url.netloc.decode()
    return f"POST {PATHS[door]} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n".encode()


@DOORS
@KINDS
@pytest.mark.parametrize("stage", ["before the answer", "after the headers", "after some bytes"])
async def test_a_caller_that_leaves_closes_the_upstream_at_once_and_is_recorded(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, streams: bool, stage: str
) -> None:
    upstream.headers = STREAM if streams else [("content-type", "application/json")]
    upstream.silent, upstream.stalls = stage == "before the answer", True
    upstream.pieces = [] if stage == "after the headers" else [BEGUN[door]]
    reader, writer = await connected(client)
    sent = json.dumps(body(door, streams)).encode()
    writer.write(head_of(client, door, len(sent)) + sent)
    if stage == "before the answer":
        async with asyncio.timeout(5):
            while not upstream.got:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    else:
        await reader.readuntil(b"\r\n\r\n")
    if stage == "after some bytes":
        await reader.readuntil(BEGUN[door][-10:])
    writer.close()
    assert await closed(upstream) < 0.5
    assert len(upstream.got) == 1
    [request] = await recorded(app, client)
    assert "the client left before" in request["error"]["message"]
    if stage == "before the answer":
        assert request["usage"] is None
    elif door != "messages" or stage == "after the headers":
        assert request["usage"]["input_estimated"], "the provider has read the prompt"


@DOORS
async def test_a_caller_that_leaves_while_it_sends_is_no_request(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str
) -> None:
    _, writer = await connected(client)
    writer.write(head_of(client, door, 900) + b'{"model":')
    await writer.drain()
    writer.close()
    assert (await ask(client, door, False)).status_code == 200
    assert len(upstream.got) == len(await recorded(app, client)) == 1


async def test_nothing_is_left_of_many_that_fail_and_leave(
    app: App, client: ServerClient, upstream: UpstreamServer
) -> None:
    """Neither a task nor a connection."""
    await ask(client, "chat", False)
    before = len(asyncio.all_tasks())

    async def failing(number: int) -> None:
        door = list(PATHS)[number % 3]
        async with client.http.stream("POST", PATHS[door], json=body(door, True)) as answer:
            async for _ in answer.aiter_raw():
                if number % 2:
                    return

    upstream.headers, upstream.stalls = STREAM, True
    upstream.pieces = [BEGUN["chat"]]
    async with asyncio.timeout(20):
        await asyncio.gather(*(failing(number) for number in range(60)))
    assert await closed(upstream) < 0.5
    made = await recorded(app, client)
    assert len(made) == 61
    assert len({request["id"] for request in made}) == 61
    await asyncio.sleep(0.05)
    # Connections to this server that the client keeps have a task each; others ended.
    assert len(asyncio.all_tasks()) <= before + 2


# Real libraries, which retry themselves


@pytest.mark.parametrize(("fault", "attempts"), [("429", 3), ("529", 3), ("400", 1), ("drops", 3), ("silent", 1)])
@pytest.mark.parametrize("door", PATHS)
async def test_attempts_upstream_are_the_callers(
    app: App, client: ServerClient, upstream: UpstreamServer, door: str, fault: str, attempts: int
) -> None:
    upstream.headers = [("content-type", "application/json"), ("retry-after", "0"), ("retry-after-ms", "1")]
    upstream.pieces = [b'{"error":{"message":"No."}}']
    if fault.isdecimal():
        upstream.status = int(fault)
    else:
        setattr(upstream, fault, True)
    address = str(client.http.base_url).rstrip("/")
    said: Any = [{"role": "user", "content": "Hello"}]
    with pytest.raises((openai.APIError, anthropic.APIError)):  # noqa: PT012
        if door == "messages":
            async with anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=2) as messages:
                await messages.messages.create(model=MODELS[door], max_tokens=9, messages=said)
        else:
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=2) as sdk:
                if door == "chat":
                    await sdk.chat.completions.create(model=MODELS[door], messages=said)
                else:
                    await sdk.responses.create(model=MODELS[door], input=said)
    assert len(upstream.got) == attempts
    assert len(await recorded(app, client)) == attempts


@pytest.mark.parametrize("door", PATHS)
async def test_an_error_in_a_stream_is_one_for_the_vendors_library(
    client: ServerClient, upstream: UpstreamServer, door: str
) -> None:
    upstream.headers, upstream.pieces, upstream.breaks = STREAM, [BEGUN[door]], True
    address = str(client.http.base_url).rstrip("/")
    said: Any = [{"role": "user", "content": "Hello"}]
    if door == "messages":
        async with anthropic.AsyncAnthropic(base_url=address, api_key="x") as messages:
            with pytest.raises(anthropic.APIStatusError, match="broke off"):
                async for _ in await messages.messages.create(
                    model=MODELS[door], max_tokens=9, messages=said, stream=True
                ):
                    pass
    else:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as sdk:
            if door == "chat":
                with pytest.raises(openai.APIError, match="broke off"):
                    async for _ in await sdk.chat.completions.create(model=MODELS[door], messages=said, stream=True):
                        pass
            else:
                events = [
                    event async for event in await sdk.responses.create(model=MODELS[door], input=said, stream=True)
                ]
                assert events[-1].type == "response.failed"
                assert "broke off" in str(events[-1].response.error)
    assert len(upstream.got) == 1
