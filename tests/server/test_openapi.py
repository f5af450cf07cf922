"""The description of the API is served, and it has every route."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import httpx2
import pytest

from lamella import __version__
from lamella.core.packets import AnyPacket
from lamella.server import web
from lamella.server.testing import ServerClient, description

pytestmark = pytest.mark.anyio

ROUTES = [path.read_text("utf-8") for path in (Path(str(web.__file__)).parent / "routes").glob("*.py")]


async def test_the_description_has_every_route(client: ServerClient) -> None:
    document = (await client.http.get("/openapi.json")).json()
    assert (document["info"]["title"], document["info"]["version"]) == ("Lamella", __version__)
    written = {
        (verb, ("/v1" if "api_router('/v1')" in source.replace('"', "'") else "/api/v1") + path)
        for source in ROUTES
        for verb, path in re.findall(r'@router\.(\w+)\(\s*"([^"]+)"', source)
    }
    described = {(verb, path) for path, verbs in document["paths"].items() for verb in verbs}
    assert described == written | {("get", "/healthz"), ("get", "/readyz"), ("get", "/version")}
    assert all(
        verb.get("description") or verb.get("summary")
        for verbs in document["paths"].values()
        for verb in verbs.values()
    )


async def test_every_answer_is_described(client: ServerClient) -> None:
    document = (await client.http.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    operations = [(path, verb) for path, verbs in document["paths"].items() for verb in verbs if "/v1/" in path]
    for path, verb in operations:
        answers = document["paths"][path][verb]["responses"]
        done = [answer for status, answer in answers.items() if status.startswith("2")]
        assert done, path
        assert all(answer.get("content") for answer in done) or "204" in answers, path
        assert {"401", "default"} <= answers.keys() or path.endswith(("/login", "/setup")), path
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named <= schemas.keys()
    assert "HTTPValidationError" not in schemas
    packets = {one["$ref"].rpartition("/")[2] for one in schemas["Packet"]["anyOf"]}
    assert packets == {kind.__name__ for kind in get_args(AnyPacket)}


async def test_the_reference_has_every_route_and_object_and_loads_nothing(client: ServerClient) -> None:
    document = (await client.http.get("/openapi.json")).json()
    answer = await client.http.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script|<link|src=|@import|url\(", answer.text)
    assert all(f"<code>{path}</code>" in answer.text for path in document["paths"])
    assert all(f'id="object-{name}"' in answer.text for name in document["components"]["schemas"])


async def test_an_answer_that_is_not_as_described_fails_here(client: ServerClient) -> None:
    described = description()
    described.check_packet('{"type":"text.delta","n":1,"turn_id":"t","model_index":0,"block_index":0,"text":"a"}')
    with pytest.raises(AssertionError, match="not as described"):
        described.check_packet('{"type":"text.delta","n":1,"turn_id":"t","model_index":0,"block_index":0}')
    request = httpx2.Request("GET", f"{client.http.base_url}/api/v1/conversations/conv_1")
    with pytest.raises(AssertionError, match="not as described"):
        await described.check(httpx2.Response(200, json={"id": "conv_1"}, request=request))


async def test_the_small_addresses_answer(client: ServerClient) -> None:
    assert (await client.http.get("/healthz")).json() == {"status": "ok"}
    assert (await client.http.get("/version")).json() == {"version": __version__}
    status = await client.get("/status")
    assert (status["model"], status["demonstration"], status["notice"]) == ("scripted", False, None)
    assert [model["id"] for model in (await client.get("/models"))["data"]] == ["scripted"]
