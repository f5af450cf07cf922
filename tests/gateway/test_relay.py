"""What a client sends goes on as it was written, and what the upstream answers comes back as it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.json import decode_object, encode
from lamella.core.prompt import Marker, Ttl
from lamella.gateway.additions import with_markers
from lamella.gateway.dialects import Dialect, read
from lamella.gateway.relay import with_model
from lamella.server.testing import ServerClient, served

from .conftest import settings_of
from .test_dialects import MESSAGES, body
from .upstream_server import UpstreamServer, upstream_server

pytestmark = pytest.mark.anyio
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
DOORS = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
MODELS = {"/v1/messages": "claude-opus-5-5", "/v1/chat/completions": "gpt-6.1-terra", "/v1/responses": "gpt-6.1-terra"}
ODD = (
    b'{ "zeta":1, "model" : "%b",\n "messages":[ {"role":"user","content":"caf\\u00e9 \xe2\x98\x95"} ],'
    b'"input":"x","a":1.50 }'
)


@pytest.fixture
async def upstream(anyio_backend: str) -> AsyncIterator[UpstreamServer]:
    async with upstream_server() as found:
        yield found


@pytest.fixture
async def client(upstream: UpstreamServer, tmp_path: Path) -> AsyncIterator[ServerClient]:
    async with served(settings_of(upstream.url, f"{upstream.url}/v1", tmp_path), checked=False) as (_, client):
        yield client


@DOORS
async def test_the_body_goes_on_byte_for_byte(client: ServerClient, upstream: UpstreamServer, path: str) -> None:
    sent = ODD % MODELS[path].encode()
    answer = await client.http.post(path, content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    [got] = upstream.got
    assert (got.path, got.body) == (path, sent)


@DOORS
async def test_a_prompt_that_can_not_be_read_is_for_the_upstream_to_refuse(
    client: ServerClient, upstream: UpstreamServer, path: str
) -> None:
    sent = b'{"model":"%b","stream":true,"messages":[{"role":"user","content":"\xff"}],"stream_options":null}'
    answer = await client.http.post(path, content=sent % MODELS[path].encode())
    assert answer.status_code == 200
    assert b'"content":"\xff"' in upstream.got[0].body


@DOORS
async def test_headers_go_on_but_for_the_callers_key_and_its_connection(
    client: ServerClient, upstream: UpstreamServer, path: str
) -> None:
    headers = {
        "x-api-key": "lam-not-set-up",
        "anthropic-beta": "a-2026-01-01,b-2026-02-02",
        "anthropic-version": "2023-06-01",
        "x-stainless-retry-count": "1",
        "x-of-tomorrow": "yes",
        "cookie": "secret=1",
        "x-lamella-markers": "off",
        "accept-encoding": "gzip",
    }
    await client.http.post(f"{path}?beta=true", content=ODD % MODELS[path].encode(), headers=headers)
    [got] = upstream.got
    assert got.path == f"{path}?beta=true"
    kept = {"anthropic-beta", "anthropic-version", "x-stainless-retry-count", "x-of-tomorrow"}
    assert {name: got.headers[name] for name in kept} == {name: headers[name] for name in kept}
    assert got.headers["x-api-key"] == "sk-upstream"
    assert not {"cookie", "x-lamella-markers", "authorization"} & set(got.headers)
    assert got.headers["accept-encoding"] == "identity"


@DOORS
async def test_the_stream_comes_back_as_it_came(client: ServerClient, upstream: UpstreamServer, path: str) -> None:
    """Also what is no event, and what ends in the middle of a character."""
    coffee = "data: ☕\n\n".encode()
    upstream.pieces = [b"event: odd\r\nda", b"ta: {}\r\n\r\n: c", coffee[:7], coffee[7:], b"no event at all"]
    upstream.headers = [("content-type", "text/event-stream"), ("request-id", "req_up"), ("x-of-tomorrow", "yes")]
    answer = await client.http.post(path, content=ODD % MODELS[path].encode())
    assert answer.content == b"".join(upstream.pieces)
    assert answer.headers["content-type"] == "text/event-stream"
    assert (answer.headers["request-id"], answer.headers["x-of-tomorrow"]) == ("req_up", "yes")


@DOORS
@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 529])
async def test_an_error_of_the_upstream_passes_as_it_is(
    client: ServerClient, upstream: UpstreamServer, path: str, status: int
) -> None:
    upstream.status, upstream.pieces = status, [b'{"odd": "error"}']
    upstream.headers = [("content-type", "application/json"), ("retry-after", "7"), ("x-request-id", "req_up")]
    answer = await client.http.post(path, content=ODD % MODELS[path].encode())
    assert (answer.status_code, answer.content) == (status, b'{"odd": "error"}')
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("7", "req_up")
    assert len(upstream.got) == 1, "the client retries, and nobody else"


@DOORS
async def test_an_upstream_that_is_away_is_told_in_the_clients_words(
    client: ServerClient, upstream: UpstreamServer, path: str
) -> None:
    upstream.silent = False
    upstream.breaks, upstream.pieces = True, []
    upstream.headers = [("content-type", "text/event-stream")]
    answer = await client.http.post(path, content=ODD % MODELS[path].encode())
    last = answer.content.decode().strip().rpartition("data: ")[2]
    told = decode_object(last)
    error = (told.get("response") or told).get("error")  # type: ignore[union-attr]
    assert "message" in error  # type: ignore[operator]
    assert b"[DONE]" not in answer.content


@DOORS
async def test_a_stream_that_breaks_off_ends_with_an_error_event(
    client: ServerClient, upstream: UpstreamServer, path: str
) -> None:
    upstream.headers = [("content-type", "text/event-stream")]
    upstream.pieces, upstream.breaks = [b"data: {}\n\n"], True
    answer = await client.http.post(path, content=ODD % MODELS[path].encode())
    assert answer.content.startswith(b"data: {}\n\n")
    rest = answer.content.removeprefix(b"data: {}\n\n").decode()
    name = {"/v1/messages": "event: error\n", "/v1/responses": "event: response.failed\n"}.get(path, "")
    assert rest.startswith(f"{name}data: ")
    assert "broke off" in rest


@DOORS
async def test_a_client_that_leaves_closes_the_upstream_at_once(
    client: ServerClient, upstream: UpstreamServer, path: str
) -> None:
    upstream.headers = [("content-type", "text/event-stream")]
    upstream.pieces, upstream.pause = [b"data: {}\n\n"] * 500, 0.02
    async with client.http.stream("POST", path, content=ODD % MODELS[path].encode()) as answer:
        async for _ in answer.aiter_bytes():
            break
    async with asyncio.timeout(5):
        await upstream.closed.wait()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"messages":[]}', b'{"model":7}', b"\xff\xfe", b'{"model":"\xff"}']
)
@DOORS
async def test_what_is_no_request_is_refused_in_the_clients_words(
    client: ServerClient, upstream: UpstreamServer, path: str, content: bytes
) -> None:
    answer = await client.http.post(path, content=content)
    assert answer.status_code == 400
    assert upstream.got == []
    told = answer.json()
    assert told["error"]["type"] == "invalid_request_error"
    assert told.get("type") == ("error" if path == "/v1/messages" else None)


async def test_a_path_that_is_not_there_is_told_in_the_clients_words(client: ServerClient) -> None:
    answer = await client.http.post("/v1/messages/batches", content=b"{}")
    assert answer.status_code in (404, 405)
    assert answer.json()["type"] == "error"
    answer = await client.http.get("/v1/nothing")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")


async def test_the_models_are_listed_for_both_vendors_libraries(client: ServerClient) -> None:
    listed = (await client.http.get("/v1/models")).json()
    assert listed["object"] == "list"
    of_both = {"id", "object", "type", "display_name", "created", "created_at", "owned_by"}
    of_anthropic = {"lifecycle", "max_input_tokens", "max_tokens"}
    assert of_both | of_anthropic == set(listed["data"][0])
    one = await client.http.get(f"/v1/models/{listed['data'][0]['id']}")
    assert one.json() == listed["data"][0]
    assert (await client.http.get("/v1/models/nothing")).status_code == 404


@given(body.filter(lambda sent: "model" in sent), st.text(min_size=1, max_size=20))
def test_an_alias_changes_the_model_and_nothing_else(sent: dict[str, Any], model: str) -> None:
    data = encode(sent)
    changed = with_model(data, model)
    assert list(decode_object(changed)) == list(sent)
    assert decode_object(changed) == {**decode_object(data), "model": model}
    assert with_model(changed, model) == changed


@pytest.mark.parametrize("index", range(5))
def test_a_marker_is_added_and_nothing_else_is_touched(index: int) -> None:
    """Numbers, escapes and unknown fields keep their letters."""
    plain = decode_object(encode(MESSAGES).replace(b',"cache_control":{"type":"ephemeral"}', b""))
    data = encode(plain).replace(b'"Rain"', b'"R\\u0061in", "of_tomorrow": 1.500')
    window = read(Dialect.MESSAGES, decode_object(data))
    marked = with_markers(data, window, [Marker(index, Ttl.ONE_HOUR, "test")])
    control = b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
    assert marked.count(control) == 1
    again = read(Dialect.MESSAGES, decode_object(marked))
    assert [(marker.index, marker.ttl) for marker in again.markers] == [(index, Ttl.ONE_HOUR)]
    assert [block.digest for block in again.blocks] == [block.digest for block in window.blocks]
    assert (b"R\\u0061in" in marked, b"1.500" in marked) == (True, True)


def test_a_marked_text_becomes_a_block() -> None:
    data = b'{"model":"m","system":"S\\u0061y","messages":[{"role":"user","content":"Hi","x":1e2}]}'
    window = read(Dialect.MESSAGES, decode_object(data))
    markers = [Marker(0, Ttl.FIVE_MINUTES, "test"), Marker(1, Ttl.FIVE_MINUTES, "test")]
    control = b'"cache_control":{"type":"ephemeral","ttl":"5m"}'
    assert with_markers(data, window, markers) == (
        b'{"model":"m","system":[{"type":"text","text":"S\\u0061y",%b}],'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi",%b}],"x":1e2}]}' % (control, control)
    )


def test_a_body_of_the_vendors_largest_size_is_read_quickly() -> None:
    data = msgspec.json.encode({**MESSAGES, "pad": "x" * 30_000_000})
    assert len(with_model(data, "other")) == len(data) - len("claude-opus-5-5") + len("other")


async def test_a_longer_body_is_refused(client: ServerClient, upstream: UpstreamServer) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b" " * 1_000_000

    try:
        answer = await client.http.post("/v1/messages", content=endless())
    except httpx2.WriteError:
        return
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")
    assert upstream.got == []


async def test_who_asks_for_a_websocket_is_told_to_use_http(client: ServerClient) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x"}
    answer = await client.http.get("/v1/responses", headers=headers)
    assert answer.status_code == 426
    assert answer.json()["error"]["message"] == "Use HTTP: there are no WebSockets here."
    assert (await client.http.get("/v1/responses")).status_code == 405


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/messages", "There is no /messages here, but /v1/messages: the base URL has one /v1 too few."),
        ("/v1/v1/messages", "There is no /v1/v1/messages here, but /v1/messages: the base URL has one /v1 too many."),
        ("/chat/completions", "but /v1/chat/completions"),
        ("/responses", "but /v1/responses"),
    ],
)
async def test_a_base_url_that_is_nearly_right_is_told_so(client: ServerClient, path: str, said: str) -> None:
    answer = await client.http.post(path, json={"model": "claude-opus-5-5"})
    assert answer.status_code == 404
    assert said in answer.json()["error"]["message"]
