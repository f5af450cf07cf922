"""`lamella.wrap`: a program's own client gets markers, and its requests are recorded in a folder."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import lamella
from lamella.app.app import LOCAL_OWNER, App
from lamella.core.errors import AuthenticationFailed, ConfigurationError, InvalidRequest, LamellaError
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Exchange, Route
from lamella.gateway.recorder import WAITING
from lamella.gateway.wrap import RECORDS
from lamella.gateway.wrap import _open as OPEN
from lamella.gateway.wrap import _servers as SERVERS
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.server.testing import ServerClient
from lamella.server.testing import client as connected
from lamella_simulator.provider import Provider

from .clients import SYSTEM, tool

pytestmark = pytest.mark.anyio
ASKED: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 200, "system": SYSTEM}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "records"
    for records in [one for one in OPEN.values() if one.folder == tmp_path / "records"]:
        records.close()


def test_three_lines_give_markers_a_bill_and_a_why(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder)
    messages: list[Any] = []
    tools: Any = [tool("Weather", "messages")]
    for text in ("Hello there", "And the ships?"):
        messages.append({"role": "user", "content": text})
        said = client.messages.create(messages=messages, tools=tools, **ASKED)
        messages.append({"role": "assistant", "content": said.content[0].text})
    newest = client.lamella.newest()
    assert "All that was cached was read" in newest.why.text
    assert newest.line.turns == 2
    assert newest.line.cost == pytest.approx(provider.cost)
    assert newest.line.saved > 0
    tools[0]["description"] += " Today."
    messages.append({"role": "user", "content": "Thank you"})
    with client.messages.stream(messages=messages, tools=tools, **ASKED) as stream:
        assert "".join(stream.text_stream)
    assert "tool Weather, block 0" in client.lamella.newest().why.text


async def test_clients_of_an_event_loop_and_of_the_other_vendor(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k"), folder)
    asked: Any = {"model": "gpt-6.1-terra", "messages": [{"role": "user", "content": "Hello"}]}
    said = await client.chat.completions.create(**asked)
    assert client.lamella.newest().request.usage.input == said.usage.prompt_tokens
    stream = await client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked)
    chunks = [chunk async for chunk in stream]
    assert client.lamella.newest().request.usage.output == chunks[-1].usage.completion_tokens
    plain = await client.chat.completions.create(stream=True, **asked)
    assert all(chunk.choices for chunk in [chunk async for chunk in plain]), "nobody asked for a chunk without choices"
    assert client.lamella.newest().request.usage.output > 0
    answered = await client.responses.create(model="gpt-6.1-terra", input="Hello")
    assert client.lamella.newest().request.usage.input == answered.usage.input_tokens
    await client.close()


def test_a_refusal_is_the_vendors_and_is_recorded(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0), folder)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="claude-opus-5-5", max_tokens=-1, messages=[{"role": "user", "content": "Hi"}])
    assert client.lamella.newest().request.error is not None
    assert client.models.list() is not None, "what is no request to a model passes"


def test_markers_can_be_left_out_and_those_of_the_program_stay(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder, markers=False)
    client.messages.create(messages=[{"role": "user", "content": "Hi"}], tools=[tool("Log", "messages")], **ASKED)
    assert "cache_control" not in str(provider.requests[0].json)


def test_the_terminal_reads_the_records(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder)
    client.messages.create(messages=[{"role": "user", "content": "Hello there"}], **ASKED)
    client.lamella.close()
    told = subprocess.run(
        [sys.executable, "-m", "lamella", "clients", "--data", str(folder)], capture_output=True, text=True, check=True
    )
    assert "anthropic for Python" in told.stdout
    assert "Hello there" in told.stdout


def test_what_is_no_client_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="takes a client of anthropic or openai, not str"):
        lamella.wrap("https://api.example", folder)


def test_a_folder_that_can_not_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError):
        lamella.wrap(anthropic.Anthropic(api_key="k"), tmp_path / "file" / "records")


# Records that go to a server


@pytest.fixture
def server(client: ServerClient) -> Iterator[str]:
    address = str(client.http.base_url).rstrip("/")
    yield address
    for records in [one for one in SERVERS.values() if one.server == address]:
        records.close()


def talk(client: Any, texts: tuple[str, ...]) -> Any:
    """A conversation with a tool; gives its newest record."""
    messages: list[Any] = []
    for text in texts:
        messages.append({"role": "user", "content": text})
        said = client.messages.create(messages=messages, tools=[tool("Weather", "messages")], **ASKED)
        messages.append({"role": "assistant", "content": said.content[0].text})
    return client.lamella.newest()


async def test_records_go_to_a_server_as_if_they_had_passed_its_gateway(
    provider: Provider, client: ServerClient, server: str
) -> None:
    direct: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="sk-own"), server=server)
    newest = await asyncio.to_thread(talk, direct, ("Hello there", "And the ships?"))
    assert "All that was cached was read" in newest.why.text
    assert newest.line.turns == 2
    assert newest.line.saved > 0
    assert newest.request.usage.cache_read > 0
    [line] = (await client.get("/lines"))["data"]
    assert line["id"] == newest.line.id
    assert line["client"].startswith("anthropic for Python")
    assert line["cost"] == pytest.approx(provider.cost)
    told = await client.get(f"/requests/{newest.request.id}/why")
    assert told["text"] == newest.why.text
    assert direct.lamella.dropped == 0


async def test_streams_of_the_other_vendor_go_to_a_server(
    provider: Provider, client: ServerClient, server: str
) -> None:
    direct: Any = lamella.wrap(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k"), server=server)
    asked: Any = {"model": "gpt-6.1-terra", "messages": [{"role": "user", "content": "Hello"}]}
    plain = await direct.chat.completions.create(stream=True, **asked)
    assert all(chunk.choices for chunk in [chunk async for chunk in plain])
    newest = await asyncio.to_thread(direct.lamella.newest)
    assert newest.request.usage.output > 0
    answered = await direct.responses.create(model="gpt-6.1-terra", input="Hello")
    newest = await asyncio.to_thread(direct.lamella.newest)
    assert newest.request.usage.input == answered.usage.input_tokens
    assert {line["dialect"] for line in (await client.get("/lines"))["data"]} == {"openai", "responses"}
    await direct.close()


async def test_a_server_that_is_away_costs_the_record_and_never_the_request(provider: Provider) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    direct: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), server=nobody)
    with pytest.raises(LamellaError, match="took no record"):
        await asyncio.to_thread(talk, direct, ("Hello there", "And the ships?"))
    assert len(provider.requests) == 2
    assert direct.lamella.dropped == 2
    direct.lamella.close()


async def test_a_record_belongs_to_the_owner_of_its_key_and_is_stored_as_the_key_says(
    provider: Provider, client: ServerClient, server: str
) -> None:
    async with connected(server, authorization=f"Bearer {await client.set_up()}") as root:
        others = (await root.post("/users", {"name": "Bob"}))["key"]["secret"]
        key = await root.post("/keys", {"name": "program", "storage": "hashes"})
        vendor = anthropic.Anthropic(base_url=provider.url, api_key="k")
        direct = lamella.wrap(vendor, server=server, key=key["secret"])
        newest = await asyncio.to_thread(talk, direct, ("A secret word",))
        assert [line["id"] for line in (await root.get("/lines"))["data"]] == [newest.line.id]
        assert "secret word" not in str(await root.get(f"/conversations/{newest.line.id}/turns"))
        async with connected(server, authorization=f"Bearer {others}") as stranger:
            assert (await stranger.get("/lines"))["data"] == []
        await root.api.ask("PATCH", f"/keys/{key['id']}", json={"storage": "off"})
        assert await asyncio.to_thread(talk, direct, ("Hello",)) is None
        assert (await root.get("/lines"))["data"][0]["requests"] == 1
    with pytest.raises(AuthenticationFailed):
        await asyncio.to_thread(talk, lamella.wrap(vendor, server=server, key="lam_wrong"), ("Hello",))


RECORD: dict[str, Any] = {"dialect": "messages", "status": 200, "body": '{"model": "claude-opus-5-5", "messages": []}'}
HELLO = '{"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "Hi"}]}'


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"body": "no JSON"}, "can't be read"),
        ({"body": "[1]"}, "can't be read"),
        ({"body": "{}"}, "names no model"),
        ({"body": '{"model": "m", "messages": "Hello"}'}, "no list “messages”"),
        ({"dialect": "responses"}, "no list “input”"),
        ({"dialect": "embeddings"}, "dialect"),
        ({"body": HELLO, "markers": [{"index": 9, "ttl": "5m", "why": ""}]}, "follows no block"),
        ({"body": HELLO, "age": -1.0}, "age"),
        ({"body": HELLO, "vendor_key": "sk"}, "vendor_key"),
    ],
)
async def test_a_record_of_foreign_shape_is_refused(client: ServerClient, sent: dict[str, Any], told: str) -> None:
    answer = await client.http.post("/api/v1/lines/records", json=RECORD | sent)
    assert answer.status_code in (400, 422)
    assert told in str(answer.json()["error"])
    assert (await client.get("/lines"))["data"] == []


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no address of a server"):
        lamella.wrap(anthropic.Anthropic(api_key="k"), server="localhost:8377")


def test_a_folder_next_to_a_server_is_refused(folder: Path) -> None:
    """The records would be in one of them alone."""
    with pytest.raises(InvalidRequest, match="a folder and a server"):
        lamella.wrap(anthropic.Anthropic(api_key="k"), folder, server="http://localhost:8377")
    assert not folder.exists()


async def test_a_record_of_more_than_64_mb_is_refused(client: ServerClient) -> None:
    """By its announced length, before it is read, and by what comes if none is announced."""
    long = b'{"body": "' + b"x" * 64_000_000

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(long), 1_000_000):
            yield long[start : start + 1_000_000]

    for content in (long, pieces()):
        answer = await client.http.post(RECORDS, content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")


async def test_a_record_for_which_there_is_no_room_is_refused_and_counted(app: App, client: ServerClient) -> None:
    """While 500 requests wait; those are kept, and so is each record that was taken."""
    recorder, facts = app.gateway.recorder, ModelTable.shipped().facts("claude-opus-5-5", "anthropic")
    route = Route(Upstream("it", "", 1.0), "", "", "claude-opus-5-5", "account", facts, Dialect.MESSAGES)
    for _ in range(WAITING):
        at = app.gateway.clock.now()
        recorder.take(Exchange(LOCAL_OWNER, Dialect.MESSAGES, "a client", "a session", route, HELLO.encode(), at))
    posts = [client.http.post(RECORDS, json=RECORD | {"body": HELLO}) for _ in range(60)]
    answers = await asyncio.gather(*posts)
    refused = [answer.json()["error"]["code"] for answer in answers if answer.status_code != 201]
    assert set(refused) == {"queue_full"}
    assert (await client.get("/status"))["dropped_records"] == len(refused)
    await recorder.drain()
    found = (await client.get("/lines?limit=100"))["data"]
    assert sum(line["requests"] for line in found) == WAITING + len(answers) - len(refused)
