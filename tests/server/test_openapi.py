"""The description of the API is served, and it has every route."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamella import __version__
from lamella.server import web
from lamella.server.testing import Client

pytestmark = pytest.mark.anyio

SOURCE = "".join(path.read_text("utf-8") for path in Path(str(web.__file__)).parent.glob("*routes.py"))


async def test_the_description_has_every_route(client: Client) -> None:
    document = (await client.http.get("/openapi.json")).json()
    assert (document["info"]["title"], document["info"]["version"]) == ("Lamella", __version__)
    written = {(verb, f"/api/v1{path}") for verb, path in re.findall(r'@router\.(\w+)\(\s*"([^"]+)"', SOURCE)}
    described = {(verb, path) for path, verbs in document["paths"].items() for verb in verbs}
    assert described == written | {("get", "/healthz"), ("get", "/version"), ("post", "/v1/responses")}
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
