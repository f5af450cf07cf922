"""Responses that an upstream keeps: their owner reaches them through this server, and nobody else does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from lamella.app.app import App
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected

from .conftest import settings_of
from .upstream_server import UpstreamServer, upstream_server

pytestmark = pytest.mark.anyio
ID = "resp_0695fe81fd9f5ed1016a55e272d1d8819489ccfa633440a88b"
BODY = {"model": "gpt-6.1-terra", "input": "Hi", "background": True}
SSE = [("content-type", "text/event-stream")]
ROUTES = [("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")]


@pytest.fixture
async def upstream(anyio_backend: str) -> AsyncIterator[UpstreamServer]:
    async with upstream_server() as found:
        found.pieces = [json.dumps({"id": ID, "object": "response", "status": "queued"}).encode()]
        yield found


@pytest.fixture
async def door(upstream: UpstreamServer, tmp_path: Path) -> AsyncIterator[tuple[App, ServerClient]]:
    async with served(settings_of(upstream.url, f"{upstream.url}/v1", tmp_path), checked=False) as made:
        yield made


@pytest.fixture
def client(door: tuple[App, ServerClient]) -> ServerClient:
    return door[1]


@pytest.mark.parametrize(("method", "tail"), ROUTES)
async def test_what_is_asked_of_a_response_goes_to_its_upstream(
    client: ServerClient, upstream: UpstreamServer, method: str, tail: str
) -> None:
    await client.http.post("/v1/responses", json=BODY)
    upstream.pieces, upstream.status = [b'{"odd": ', b'"answer"}'], 201
    path = f"/v1/responses/{ID}{tail}"
    answer = await client.http.request(method, f"{path}?include=a&limit=7", headers={"x-of-tomorrow": "yes"})
    assert (answer.status_code, answer.content) == (201, b'{"odd": "answer"}')
    got = upstream.got[-1]
    assert (got.path, got.method) == (f"{path}?include=a&limit=7", method)
    assert (got.headers["authorization"], got.headers["x-of-tomorrow"]) == ("Bearer sk-upstream", "yes")


async def test_a_response_is_known_before_its_first_byte_is_read(
    client: ServerClient, upstream: UpstreamServer
) -> None:
    """A client that polls at once, or loses its stream at once, finds its response."""
    event = {"type": "response.created", "sequence_number": 0, "response": {"id": ID}}
    upstream.headers, upstream.pause = SSE, 0.2
    upstream.pieces = [b"event: response.created\ndata: ", json.dumps(event).encode() + b"\n\n", b"data: {}\n\n"]
    async with client.http.stream("POST", "/v1/responses", json={**BODY, "stream": True}) as answer:
        async for line in answer.aiter_lines():
            if ID in line:
                break
    upstream.pieces, upstream.pause = [b"data: {}\n\n"], 0
    again = await client.http.get(f"/v1/responses/{ID}?stream=true&starting_after=0")
    assert (again.status_code, again.content) == (200, b"data: {}\n\n")


async def test_a_response_of_somebody_else_is_not_asked_for(
    door: tuple[App, ServerClient], upstream: UpstreamServer
) -> None:
    app, nobody = door
    root = await nobody.set_up("Root")
    bearer = f"Bearer {root}"
    async with connected(str(nobody.http.base_url), False, authorization=bearer) as ann:
        made = await ann.post("/users", {"name": "Bob"})
        await ann.http.post("/v1/responses", json=BODY)
        bearer = f"Bearer {made['key']['secret']}"
        async with connected(str(nobody.http.base_url), False, authorization=bearer) as bob:
            for stored in (False, True):
                if stored:
                    await app.gateway.recorder.drain()
                before = len(upstream.got)
                for method, tail in ROUTES:
                    answer = await bob.http.request(method, f"/v1/responses/{ID}{tail}")
                    assert answer.status_code == 404
                    assert answer.json()["error"]["message"] == f"Response with id '{ID}' not found."
                assert len(upstream.got) == before
        assert (await ann.http.get(f"/v1/responses/{ID}")).status_code == 200


async def test_the_upstream_is_known_after_a_restart(upstream: UpstreamServer, tmp_path: Path) -> None:
    async with upstream_server() as other:
        path = tmp_path / "upstreams.toml"
        rows = [("first", other.url, "a-*"), ("second", upstream.url, "gpt-*")]
        row = '[[upstream]]\nname = "{}"\nurl = "{}/v1"\nkey = "k"\ndialects = ["responses"]\nmodels = ["{}"]\n'
        path.write_text("".join(row.format(*one) for one in rows))
        settings = settings_of(upstream.url, f"{upstream.url}/v1", tmp_path / "data").model_copy(
            update={"upstreams": path}
        )
        async with served(settings, checked=False) as (_, client):
            await client.http.post("/v1/responses", json=BODY)
        async with served(settings, checked=False) as (_, client):
            assert (await client.http.get(f"/v1/responses/{ID}")).json()["id"] == ID
            unknown = await client.http.get("/v1/responses/resp_ofnobody")
        assert upstream.got[-1].path == f"/v1/responses/{ID}"
        assert (unknown.status_code, other.got) == (404, [])


async def test_without_a_record_the_only_upstream_is_asked(client: ServerClient, upstream: UpstreamServer) -> None:
    answer = await client.http.get("/v1/responses/resp_of_yesterday")
    assert answer.status_code == 200
    assert upstream.got[-1].path == "/v1/responses/resp_of_yesterday"


@pytest.mark.parametrize("id", ["resp_01m883md6d2n6apzd4rsj0efhg", "resp_01m883md6d2n6apzd4rsj0efhh"])
async def test_an_id_of_this_server_is_never_asked_for_elsewhere(
    client: ServerClient, upstream: UpstreamServer, id: str
) -> None:
    for method, tail in ROUTES:
        assert (await client.http.request(method, f"/v1/responses/{id}{tail}")).status_code == 404
    refused = await client.http.post("/v1/responses", json={**BODY, "previous_response_id": id})
    assert refused.json()["error"]["code"] == "previous_response_not_found"
    assert upstream.got == []


async def test_an_answer_that_breaks_off_is_not_taken_for_whole(client: ServerClient, upstream: UpstreamServer) -> None:
    await client.http.post("/v1/responses", json=BODY)
    upstream.breaks, upstream.pieces = True, [b'{"id": ']
    with pytest.raises(httpx2.HTTPError):
        await client.http.get(f"/v1/responses/{ID}")


async def test_a_response_that_is_not_kept_is_not_remembered(
    door: tuple[App, ServerClient], upstream: UpstreamServer
) -> None:
    app, client = door
    await client.http.post("/v1/responses", json={**BODY, "store": False})
    await app.gateway.recorder.drain()
    assert not await app.gateway.recorder.issued.is_somebodys(ID)
