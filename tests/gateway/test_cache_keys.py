"""What one user sent is not read from the provider's cache by another, unless a setting allows it."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import App
from lamella.app.upstreams import cache_salt
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected
from lamella.settings import Settings
from lamella.storage import open_store
from lamella_simulator.provider import Provider

from .clients import Client
from .conftest import settings_of
from .test_lines import lines, requests
from .upstream_server import upstream_server

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["chat", "responses"])


async def users(stack: AsyncExitStack, client: ServerClient, *names: str) -> list[ServerClient]:
    """Clients of an admin, and of these new users."""
    address, secrets = str(client.http.base_url), [await client.set_up()]
    root = await stack.enter_async_context(connected(address, authorization=f"Bearer {secrets[0]}"))
    secrets = [(await root.post("/users", {"name": name}))["key"]["secret"] for name in names]
    others = [connected(address, authorization=f"Bearer {secret}") for secret in secrets]
    return [root, *[await stack.enter_async_context(one) for one in others]]


async def read_by_the_second(client: ServerClient, wire: str) -> int:
    """Tokens that a second user reads of what the first sent, with the same prompt."""
    async with AsyncExitStack() as stack:
        root, bob = await users(stack, client, "Bob")
        await Client(wire).send(root.http, "Hello there")
        await Client(wire).send(bob.http, "Hello there")
        found = (await bob.get("/lines"))["data"]
        while not found:
            found = (await bob.get("/lines"))["data"]
        return int(found[0]["usage"]["cache_read"])


@WIRES
async def test_users_share_no_cache_unless_a_setting_allows_it(
    app: App, client: ServerClient, provider: Provider, tmp_path: Path, wire: str
) -> None:
    assert await read_by_the_second(client, wire) == 0
    one, other = (request.json["prompt_cache_key"] for request in provider.requests)
    assert one != other
    settings = settings_of(provider.url, provider.openai_url, tmp_path / "shared")
    async with served(settings.model_copy(update={"gateway_cache_keys": "shared"})) as (_, shared):
        assert await read_by_the_second(shared, wire) > 0
    assert "prompt_cache_key" not in provider.requests[-1].json


@WIRES
async def test_a_user_reads_its_own_cache_and_the_request_says_what_was_added(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    async with AsyncExitStack() as stack:
        [root] = await users(stack, client)
        talking = Client(wire)
        for text in ("Hello there", "And the ships?"):
            await talking.send(root.http, text)
        [line] = await lines(app, root)
        assert line["usage"]["cache_read"] > 0
        assert (line["turns"], line["session"], line["breaks"]) == (2, None, 0)
        for request in await requests(root, line):
            assert request["predicted"]["read"] == request["usage"]["cache_read"]
            notes = (await root.get(f"/requests/{request['id']}/map"))["notes"]
            assert [note["text"] for note in notes] == [
                "prompt_cache_key was added here: no other user's requests read this cache."
            ]
    assert len({request.json["prompt_cache_key"] for request in provider.requests}) == 1


@WIRES
async def test_the_body_is_the_callers_but_for_the_key_and_the_same_after_a_restart(tmp_path: Path, wire: str) -> None:
    talking = Client(wire, headers={"x-session-id": "s-1"}, fields={"stream": False})
    talking.history.append({"role": "user", "content": "Hello there"})
    body = json.dumps(talking.body()).encode()
    path, key = ("/v1/chat/completions" if wire == "chat" else "/v1/responses"), ""
    async with upstream_server() as upstream:
        settings: Settings = settings_of(upstream.url, upstream.url, tmp_path)
        for _ in range(2):
            async with served(settings) as (_, client):
                key = key or await client.set_up()
                headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
                for more in ({}, {"x-session-id": "s-2"}, {"x-lamella-cache-key": "off"}):
                    await client.http.post(path, content=body, headers={**talking.headers, **headers, **more})
    first, session, off, *again = (got.body for got in upstream.got)
    assert [first, session, off] == again
    added = json.loads(first)
    name = added.pop("prompt_cache_key")
    assert (list(added.items()), len(name)) == (list(json.loads(body).items()), 32)
    assert json.loads(session)["prompt_cache_key"] != name
    assert off == body


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
async def test_a_callers_own_key_and_a_request_without_a_key_of_ours_are_left_alone(
    client: ServerClient, provider: Provider, wire: str
) -> None:
    await Client(wire).send(client.http, "Hello there")
    assert "prompt_cache_key" not in provider.requests[-1].json
    async with AsyncExitStack() as stack:
        [root] = await users(stack, client)
        own = {} if wire == "messages" else {"prompt_cache_key": "my own"}
        await Client(wire, fields=own).send(root.http, "Hello there")
    assert provider.requests[-1].json.get("prompt_cache_key") == own.get("prompt_cache_key")


async def test_a_group_has_a_key_of_its_own_at_the_provider(tmp_path: Path) -> None:
    async with upstream_server() as upstream, AsyncExitStack() as stack:
        file, row = tmp_path / "upstreams.toml", f'[[upstream]]\nurl = "{upstream.url}"\ndialects = ["messages"]\n'
        file.write_text(f'{row}name = "lab"\nkey = "sk-lab"\ngroups = ["Lab"]\n\n{row}name = "all"\nkey = "sk-all"\n')
        settings = settings_of(upstream.url, upstream.url, tmp_path).model_copy(update={"upstreams": file})
        _, client = await stack.enter_async_context(served(settings))
        root, bob = await users(stack, client, "Bob")
        group = await root.post("/groups", {"name": "lab"})
        await root.api.ask("PUT", f"/groups/{group['id']}/members/{(await bob.get('/me'))['id']}")
        for one in (root, bob):
            body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
            await one.http.post("/v1/messages", json=body)
    assert [got.headers["authorization"] for got in upstream.got] == ["Bearer sk-all", "Bearer sk-lab"]


async def test_processes_share_the_salt_of_their_database_and_a_file_of_before_is_read(tmp_path: Path) -> None:
    (tmp_path / "cache_salt").write_bytes(b"of before")
    async with await open_store(tmp_path / "lamella.db") as store:
        assert await cache_salt(tmp_path, store.directory) == b"of before"
        assert await cache_salt(tmp_path / "another", store.directory) == b"of before"
    async with await open_store(tmp_path / "new.db") as store:
        assert len(await cache_salt(tmp_path / "another", store.directory)) == 32
