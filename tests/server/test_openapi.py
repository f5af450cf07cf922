"""The description of the API is served, and it has every route."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamella import __version__
from lamella.server import file_routes, library_routes, routes, session_routes, tool_routes
from lamella.server.testing import Client

pytestmark = pytest.mark.anyio

MODULES = (routes, library_routes, file_routes, session_routes, tool_routes)
SOURCE = "".join(Path(str(module.__file__)).read_text("utf-8") for module in MODULES)


async def test_the_description_has_every_route(client: Client) -> None:
    document = (await client.http.get("/openapi.json")).json()
    assert (document["info"]["title"], document["info"]["version"]) == ("Lamella", __version__)
    written = {(verb, f"/api/v1{path}") for verb, path in re.findall(r'@router\.(\w+)\(\s*"([^"]+)"', SOURCE)}
    described = {(verb, path) for path, verbs in document["paths"].items() for verb in verbs}
    assert described == written | {("get", "/healthz"), ("get", "/version")}
    assert all(
        verb.get("description") or verb.get("summary")
        for verbs in document["paths"].values()
        for verb in verbs.values()
    )


async def test_the_small_addresses_answer(client: Client) -> None:
    assert (await client.http.get("/healthz")).json() == {"status": "ok"}
    assert (await client.http.get("/version")).json() == {"version": __version__}
    status = await client.get("/status")
    assert (status["model"], status["demonstration"], status["notice"]) == ("scripted", False, None)
    assert [model["id"] for model in (await client.get("/models"))["data"]] == ["scripted"]
