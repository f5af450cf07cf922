"""What is stored of a client's requests: all, digests alone, or nothing, as its key or the server says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lamella.app.app import App, database_path
from lamella.cache.hashed import PIECE, common, hashed, is_hashed
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected
from lamella_simulator.provider import Provider

from .clients import Client, tool
from .conftest import settings_of
from .test_lines import lines, requests

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
MODES = pytest.mark.parametrize("mode", ["full", "hashes", "off"])


@asynccontextmanager
async def keyed(client: ServerClient, storage: str | None) -> AsyncIterator[ServerClient]:
    """A client that has a key with this option."""
    admin, address = await client.set_up(), str(client.http.base_url)
    async with connected(address, authorization=f"Bearer {admin}") as root:
        key = (await root.post("/keys", {"name": "its key", "storage": storage}))["secret"]
        async with connected(address, authorization=f"Bearer {key}") as found:
            yield found


def on_disk(app: App) -> bytes:
    folder = database_path(app.settings.data).parent
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def full_of_canaries(wire: str) -> Client:
    """A client with the word in every place of a body that may hold text."""
    word = "canary-text"
    made = Client(wire, system=f"{word} in the system prompt. " * 300, fields={"metadata": {"user_id": word}})
    made.tools = [tool(f"{word}-tool", wire), tool("Ships", wire)]
    made.headers = {"x-session-id": f"{word}-session"}
    return made


async def everything_told(client: ServerClient, app: App) -> str:
    """All that the API tells of the lines, their turns and their requests."""
    told = [await client.get("/lines"), await client.get("/conversations")]
    for line in await lines(app, client):
        told += [await client.get(f"/lines/{line['id']}"), await client.get(f"/conversations/{line['id']}/turns")]
        for request in await requests(client, line):
            told += [await client.get(f"/requests/{request['id']}/{what}") for what in ("map", "why", "diff", "raw")]
    return json.dumps(told)


@WIRES
async def test_with_hashes_no_text_is_stored_or_told_anywhere(app: App, client: ServerClient, wire: str) -> None:
    seen: list[str] = []
    with capture_logs() as logged:
        async with keyed(client, "hashes") as mine, mine.api.events("GET", "/lines/live") as events:
            talking = full_of_canaries(wire)
            for text in ("canary-text, hello", "canary-text, and the ships?"):
                await talking.send(mine.http, text)
            # A refused one, whose error repeats what was wrong.
            body = talking.body() | {"max_tokens": "canary-text", "max_output_tokens": "canary-text"}
            path = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}.get(wire, "/v1/responses")
            await mine.http.post(path, json=body, headers=talking.headers)
            await app.gateway.recorder.drain()
            async for _, text in events:
                seen += [text] if text else []
                if len(seen) == 3:
                    break
            told = await everything_told(mine, app)
            [line] = await lines(app, mine)
    assert (line["turns"], line["title"]) == (2, "No text is stored")
    assert line["cost"] > 0
    answer = talking.said[0][:40]
    assert len(answer) == 40
    for place in (told, "".join(seen), str(logged), on_disk(app).decode("utf-8", "replace")):
        assert "canary" not in place
        assert answer not in place


@WIRES
async def test_with_hashes_why_names_the_block_and_the_bytes_within_which_it_broke(
    app: App, client: ServerClient, wire: str
) -> None:
    async with keyed(client, "hashes") as mine:
        talking = Client(wire, marks=wire == "messages")
        for text in ("Hello there", "And the ships?"):
            await talking.send(mine.http, text)
        where = talking.tools[2].get("function", talking.tools[2])
        where["description"] = where["description"][:300] + "X" + where["description"][300:]
        await talking.send(mine.http, "Thank you")
        [line] = await lines(app, mine)
        newest = (await requests(mine, line))[-1]
        why = await mine.get(f"/requests/{newest['id']}/why")
        difference = (await mine.get(f"/requests/{newest['id']}/diff"))["difference"]
    assert (why["cause"], why["first_changed"], why["block"], difference["span"]) == ("tools", "tools", 2, PIECE)
    assert f"block 2, bytes {difference['byte']} to {difference['byte'] + PIECE - 1}" in why["text"]
    assert "a tool is described differently" in why["text"]
    written = json.dumps(talking.tools[2], separators=(",", ":"))
    assert difference["byte"] <= written.index("X") < difference["byte"] + PIECE + 20  # other spellings of JSON
    assert (difference["before"], difference["after"]) == ("", "")


async def test_with_off_nothing_is_recorded_and_all_is_forwarded(
    app: App, client: ServerClient, provider: Provider
) -> None:
    async with keyed(client, "off") as mine:
        await Client("messages").send(mine.http, "Hello there, this is kept nowhere")
        assert await lines(app, mine) == []
    assert "this is kept nowhere" in str(provider.requests[0].json)
    assert b"this is kept nowhere" not in on_disk(app)


@MODES
async def test_a_server_says_what_keys_leave_open(provider: Provider, tmp_path: Path, mode: str) -> None:
    settings = settings_of(provider.url, provider.openai_url, tmp_path)
    async with served(settings.model_copy(update={"gateway_storage": mode})) as (app, client):
        await Client("chat").send(client.http, "Hello there")
        assert [line["title"] for line in await lines(app, client)] == (
            {"full": ["Hello there"], "hashes": ["No text is stored"], "off": []}[mode]
        )
        async with keyed(client, "full") as mine:
            await Client("chat").send(mine.http, "Good evening")
            assert "Good evening" in [line["title"] for line in await lines(app, mine)]


HEADERS = (
    "authorization", "x-api-key", "cookie", "proxy-authorization", "x-own-secret", "x-goog-api-key", "api-key",
    "openai-organization", "openai-project", "anthropic-beta", "x-amz-security-token", "referer", "from", "traceparent",
    "x-stainless-retry-count", "idempotency-key", "accept-language", "x-claude-remote-session-id",
)  # fmt: skip


@MODES
@WIRES
async def test_no_header_and_no_query_is_stored_in_any_mode(
    provider: Provider, tmp_path: Path, wire: str, mode: str
) -> None:
    settings = settings_of(provider.url, provider.openai_url, tmp_path)
    async with served(settings.model_copy(update={"gateway_storage": mode})) as (app, client):
        talking = Client(wire)
        talking.history.append({"role": "user", "content": "Hello there"})
        secrets = dict.fromkeys(HEADERS, "canary-of-a-header")
        secrets |= {"authorization": "Bearer canary-of-a-header"}
        path = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}.get(wire, "/v1/responses")
        with capture_logs() as logged:
            answer = await client.http.post(f"{path}?beta=canary-of-a-query", json=talking.body(), headers=secrets)
            assert answer.status_code == 200, answer.text
            assert len(await lines(app, client)) == (mode != "off")
            told = await everything_told(client, app)
        for place in (told, str(logged), on_disk(app).decode("utf-8", "replace")):
            assert "canary" not in place


def test_pieces_find_a_difference_to_64_bytes() -> None:
    text = bytes(range(65, 91)) * 40
    for at in (0, 1, 63, 64, 500, len(text) - 1):
        other = text[:at] + b"?" + text[at + 1 :]
        for one, two in ((hashed(text), hashed(other)), (hashed(text), other), (text, hashed(other))):
            assert common(one, two) <= at < common(one, two) + PIECE
    assert is_hashed(hashed(text))
    assert hashed(hashed(text)) == hashed(text)
    assert len(hashed(text)) < 0.15 * len(text)
    assert common(hashed(text[:640]), hashed(text)) == 640
