"""Pictures that an agent's client names by their address: fetched under the rules of `open_url`, and stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.models import ImageRule
from lamella.core.records import PageQuery
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from tools.web.sites import Site, site
from tools.web.test_addresses import HOSTILE

from .agent_clients import COUNTS, PATHS, AgentClient, Library

pytestmark = pytest.mark.anyio

APIS = pytest.mark.parametrize("api", PATHS)
SEEING = replace(FACTS, images=ImageRule(patch=28, longest_edge=1568, most=1600))
ALL = PageQuery(100, None, "asc")


def red_square() -> bytes:
    data = BytesIO()
    Pillow.new("RGB", (40, 30), (255, 0, 0)).save(data, "PNG")
    return data.getvalue()


def content_of(api: str, *urls: str) -> list[dict[str, Any]]:
    """A user's content with pictures by their addresses."""
    said = {"type": "input_text" if api == "responses" else "text", "text": "What is this?"}
    forms = {
        "messages": lambda url: {"type": "image", "source": {"type": "url", "url": url}},
        "chat": lambda url: {"type": "image_url", "image_url": {"url": url}},
        "responses": lambda url: {"type": "input_image", "image_url": url},
    }
    return [said, *map(forms[api], urls)]


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as made:
        yield made


@asynccontextmanager
async def opened(folder: Path, model: ScriptedModel, allow: str) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = read_settings(data=folder, open_url_allow=allow)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        await client.post("/agents", {"name": "Pilot", "prompt": "You know tides."})
        yield app, client


@APIS
async def test_the_libraries_send_a_picture_by_its_address(tmp_path: Path, here: Site, api: str) -> None:
    here.page("/red.png", red_square(), type="image/png")
    here.redirect("/moved", "/red.png")
    model = ScriptedModel([saying("A red square."), saying("Red.")], SEEING)
    async with opened(tmp_path, model, f"127.0.0.1:{here.port}") as (app, client):
        address = f"http://127.0.0.1:{here.port}"
        talk = Library(str(client.http.base_url).rstrip("/"), api)
        asked: Any = content_of(api, f"{address}/red.png", f"{address}/moved")
        assert await talk.ask(asked) == "A red square."
        assert await talk.ask("What colour?") == "Red."
        assert len((await app.store.files.files(LOCAL_OWNER, ALL)).data) == 1, "the same bytes are one file"
    assert [seen.split()[1] for seen in here.seen] == ["/red.png", "/moved", "/red.png"], "fetched once"
    for request in model.requests:
        sources = [b.value["source"] for b in request.blocks if b.value.get("type") == "image"]
        assert {source["type"] for source in sources} == {"base64"}  # type: ignore[call-overload,index]


@pytest.mark.parametrize("api", COUNTS)
async def test_a_count_fetches_too_and_leaves_no_conversation(tmp_path: Path, here: Site, api: str) -> None:
    here.page("/red.png", red_square(), type="image/png")
    async with opened(tmp_path, ScriptedModel([], SEEING), f"127.0.0.1:{here.port}") as (app, client):
        talk = AgentClient(client.http, api)
        url = f"http://127.0.0.1:{here.port}/red.png"
        talk.more = [{"role": "user", "content": content_of(api, url)}]
        answer = await client.http.post(COUNTS[api], json=talk.body())
        assert answer.status_code == 200
        assert answer.json()["input_tokens"] > 0
        assert (await app.store.lines.lines(LOCAL_OWNER, ALL)).data == ()


@APIS
async def test_no_spelling_of_an_address_leads_to_this_machine_or_its_network(tmp_path: Path, api: str) -> None:
    model = ScriptedModel([], SEEING)
    async with opened(tmp_path, model, "") as (app, client):
        for url, reason in HOSTILE:
            talk = AgentClient(client.http, api, more=[{"role": "user", "content": content_of(api, url)}])
            answer = await talk.post()
            said = answer.json()["error"]["message"]
            assert answer.status_code == 400, url
            known = any(word in said for word in (reason, "no host", "not base64", "no address", "no address"))
            assert known, (url, said)
        assert (await app.store.files.files(LOCAL_OWNER, ALL)).data == ()
        assert (await app.store.lines.lines(LOCAL_OWNER, ALL)).data == ()
    assert model.requests == []


async def slow(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 9\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(30)


@APIS
async def test_what_can_not_be_had_is_an_error_that_says_what_to_do(tmp_path: Path, here: Site, api: str) -> None:
    here.page("/page", b"<p>No.")
    here.page("/broken.png", b"no picture at all", type="image/png")
    here.page("/large.png", b"x" * 10_000_001, type="image/png")
    for n, inside in enumerate(("http://10.0.0.1/", "http://169.254.169.254/latest/", "http://127.0.0.1:1/")):
        here.redirect(f"/inside{n}", inside)
    here.answers["/slow.png"] = slow
    model = ScriptedModel([], SEEING)
    wrong = [
        *(("/page", "is no picture"), ("/gone", "status 404"), ("/broken.png", "can't be read")),
        *(("/large.png", "larger than 10 MB"), ("/slow.png", "silent"), ("/inside0", "private")),
        *(("/inside1", "metadata"), ("/inside2", "Port 1")),
    ]
    async with opened(tmp_path, model, f"127.0.0.1:{here.port}") as (app, client):
        for path, reason in wrong:
            url = f"http://127.0.0.1:{here.port}{path}"
            talk = AgentClient(client.http, api, more=[{"role": "user", "content": content_of(api, url)}])
            answer = await talk.post()
            said = answer.json()["error"]["message"]
            assert (answer.status_code, reason in said) == (400, True), (path, said)
            assert "base64" in said or path == "/broken.png", said
        many = [f"http://127.0.0.1:{here.port}/{n}" for n in range(21)]
        talk.more = [{"role": "user", "content": content_of(api, *many)}]
        assert "20 pictures" in (await talk.post()).json()["error"]["message"]
        assert (await app.store.lines.lines(LOCAL_OWNER, ALL)).data == ()
    assert model.requests == []
