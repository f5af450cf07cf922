"""A client's conversation goes on here: its turns become those of a conversation of this server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lamella.cli.replay  # noqa: F401 (it registers the command)
from lamella.app.app import App
from lamella.cli.main import cli
from lamella.core.errors import InvalidRequest
from lamella.core.json import encode
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_lab.export.export import WRITTEN_BY_A_CLIENT
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.run import replay
from lamella_lab.trace.reader import read_trace
from lamella_simulator.provider import Provider

from .clients import Client, tool
from .conftest import settings_of
from .test_lines import lines

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def turns(client: ServerClient, conversation: str) -> list[Object]:
    """The turns, oldest first."""
    return list(reversed((await client.get(f"/conversations/{conversation}/turns"))["data"]))


def with_a_call(talking: Client) -> None:
    """A call with its result, and an answer, in the shape of the client's API."""
    if talking.wire == "messages":
        call = {"type": "tool_use", "id": "toolu_1", "name": "Weather", "input": {"place": "Ystad"}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain in Ystad"}
        talking.history[-1]["content"].append(call)
        talking.history.append({"role": "user", "content": [result]})
    elif talking.wire == "chat":
        function = {"name": "Weather", "arguments": '{"place":"Ystad"}'}
        talking.history[-1]["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        talking.history.append({"role": "tool", "tool_call_id": "call_1", "content": "Rain in Ystad"})
    else:
        call = {"type": "function_call", "call_id": "call_1", "name": "Weather", "arguments": '{"place":"Ystad"}'}
        talking.history.append(call)
        talking.history.append({"type": "function_call_output", "call_id": "call_1", "output": "Rain in Ystad"})


@WIRES
async def test_a_line_goes_on_here_with_texts_calls_and_results(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    talking = Client(wire, system="You are the client's own keeper.")
    await talking.send(client.http, "Hello there")
    with_a_call(talking)
    await talking.send(client.http)
    await talking.send(client.http, "And the ships?")
    [line] = await lines(app, client)
    made = await client.post(f"/lines/{line['id']}/fork", {})
    assert (made["observed"], made["title"]) == (False, line["title"])
    assert [turn["text"] for turn in await turns(client, made["id"])] == ["Hello there", "And the ships?"]
    packets = await client.send(made["id"], "What was the weather?")
    assert packets[-1]["type"] == "turn.finished"
    sent = str(provider.requests[-1].json)
    for text in ("Hello there", "And the ships?", "What was the weather?", "Rain in Ystad", "Weather", *talking.said):
        assert text[:40] in sent
    assert "the client's own keeper" not in sent
    assert [one["requests"] for one in await lines(app, client)] == [3], "the line stays as it is"
    assert len(await turns(client, made["id"])) == 3


@WIRES
async def test_any_turn_can_be_the_last_and_the_system_prompt_comes_if_it_is_asked_for(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    talking = Client(wire, system="You are the client's own keeper.")
    for text in ("Hello there", "And the ships?", "Thank you"):
        await talking.send(client.http, text)
    [line] = await lines(app, client)
    raw = await client.get(f"/requests/{line['request_id']}/raw")
    assert "prompt_cache_breakpoint" not in str(raw), "the client set none"
    assert wire != "responses" or raw["instructions"] == talking.system
    second = (await turns(client, line["id"]))[1]["id"]
    made = await client.post(f"/lines/{line['id']}/fork", {"turn_id": second, "system": True})
    first, newest = await turns(client, made["id"])
    assert first["text"].endswith("Hello there")
    assert "You are the client's own keeper." in first["text"]
    assert (newest["text"], newest["answer"]) == ("And the ships?", talking.said[1])
    other = await client.conversation()
    await client.send(other, "Hello")
    [foreign] = await turns(client, other)
    refused = await client.call("POST", f"/lines/{line['id']}/fork", json={"turn_id": foreign["id"]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "turn_id")


async def test_a_call_without_a_result_gets_one_and_a_picture_comes_along(
    app: App, client: ServerClient, provider: Provider
) -> None:
    provider.script({"calls": {"tool_calls": [{"name": "Weather", "arguments": {"place": "Ystad"}}]}})
    picture = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": picture}]
    body = {"model": "claude-opus-5-5", "max_tokens": 200, "tools": [tool("Weather", "messages")]}
    body["messages"] = [{"role": "user", "content": content}]
    await client.http.post("/v1/messages", json=body, headers={"x-sim-reply": "calls"})
    [line] = await lines(app, client)
    made = await client.post(f"/lines/{line['id']}/fork", {})
    await client.send(made["id"], "Go on")
    sent = str(provider.requests[-1].json)
    assert "There is no result: the client's conversation ended before it." in sent
    assert "'media_type': 'image/png'" in sent


async def test_what_can_not_be_taken_says_why(app: App, client: ServerClient) -> None:
    admin = await client.set_up()
    client.http.headers["authorization"] = f"Bearer {admin}"
    key = (await client.post("/keys", {"name": "k", "storage": "hashes"}))["secret"]
    await Client("chat").send(client.http, "Hello", **{"authorization": f"Bearer {key}"})
    [line] = await lines(app, client)
    refused = await client.call("POST", f"/lines/{line['id']}/fork", json={})
    assert refused.status_code == 400
    assert "Only digests of this request are stored" in refused.json()["error"]["message"]


async def test_the_export_of_a_line_is_replayed_under_a_layout_and_says_what_is_not_carried(
    app: App, client: ServerClient, tmp_path: Path
) -> None:
    talking = Client("chat")
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
    [line] = await lines(app, client)
    trace = await client.get(f"/conversations/{line['id']}/export")
    assert WRITTEN_BY_A_CLIENT in trace["exported"]["not_carried"]
    file = tmp_path / "line.json"
    file.write_bytes(encode(trace))
    refused = CliRunner().invoke(cli, ["replay", str(file)]).exception
    assert isinstance(refused, InvalidRequest)
    assert refused.message.startswith("A client wrote these requests")
    report = await replay(read_trace(file), ReplayOptions("lamella", "planner", settings={}), ReplayEnvironment())
    assert [request.record.layout for request in report.requests] == ["lamella", "lamella"]
    assert report.cost > 0


async def test_a_line_whose_model_is_not_served_is_exported(provider: Provider, tmp_path: Path) -> None:
    async with served(settings_of(provider.url, provider.openai_url, tmp_path)) as (app, client):
        await Client("chat").send(client.http, "Hello there")
        [line] = await lines(app, client)
    async with served(read_settings(data=tmp_path, anthropic_api_key="sk", anthropic_base_url=provider.url)) as (
        _,
        late,
    ):
        trace = await late.get(f"/conversations/{line['id']}/export")
    told = " ".join(trace["exported"]["not_carried"])
    assert "what is known of the model “gpt-6.1-terra”: it is not served any more" in told
