"""Requests of clients become lines: conversations with turns, side calls apart, each with its bill and its why."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from lamella.app.app import LOCAL_OWNER, App, database_path
from lamella.cache.ledger import Ledger
from lamella.core.json import decode_object, encode
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Exchange, Route
from lamella.gateway.recorder import WAITING, recording
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected
from lamella_simulator.provider import Provider

from .clients import PATHS, PROSE, Client, tool
from .conftest import settings_of

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])


async def lines(app: App, client: ServerClient) -> list[Object]:
    """The lines, the newest first."""
    await app.gateway.recorder.drain()
    found: list[Object] = (await client.get("/lines"))["data"]
    return found


async def requests(client: ServerClient, line: Object) -> list[Object]:
    """The requests of a line, oldest first."""
    turns = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    found: list[Object] = []
    for turn in reversed(turns):
        found += (await client.get(f"/turns/{turn['id']}/requests"))["data"]
    return found


def stored(app: App) -> int:
    """Bytes of the requests' rows."""
    with closing(sqlite3.connect(database_path(app.settings.data))) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(requests)")]
        lengths = " + ".join(f"coalesce(length({name}), 0)" for name in columns)
        [size] = database.execute(f"SELECT sum({lengths}) FROM requests").fetchone()
    return int(size)


@WIRES
async def test_no_secret_of_a_header_is_stored(app: App, client: ServerClient, provider: Provider, wire: str) -> None:
    secrets = {
        "authorization": "Bearer canary-of-a-key",
        "cookie": "login=canary-of-a-cookie",
        "proxy-authorization": "Basic canary-of-a-proxy",
        "x-own-secret": "canary-of-its-own",
    }
    await Client(wire).send(client.http, "Hello there", **secrets)
    assert len(await lines(app, client)) == 1
    folder = database_path(app.settings.data).parent
    written = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"Hello there" in written
    assert b"canary" not in written


@WIRES
async def test_three_turns_are_one_line_with_three_turns(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    talking = Client(wire)
    for text in ("Hello there", "And the ships?", "Thank you"):
        await talking.send(client.http, text)
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"], line["label"], line["title"]) == (3, 3, "conversation", "Hello there")
    assert line["cost"] == pytest.approx(provider.cost)
    turns = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    assert [turn["text"] for turn in reversed(turns)] == ["Hello there", "And the ships?", "Thank you"]
    assert [turn["answer"] for turn in reversed(turns)] == talking.said
    assert (await client.get("/conversations"))["data"] == [], "they are not among the conversations of this server"


@WIRES
async def test_a_text_with_nul_is_forwarded_and_recorded(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    await Client(wire).send(client.http, "One\0 two")
    [line] = await lines(app, client)
    assert line["title"] == "One two"
    [turn] = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    assert turn["text"] == "One\0 two"
    assert b"One\\u0000 two" in provider.requests[-1].body


async def test_markers_are_added_for_a_client_that_sets_none_and_what_they_save_is_told(
    app: App, client: ServerClient, provider: Provider
) -> None:
    talking = Client("messages")
    for text in ("Hello there", "And the ships?", "Thank you"):
        await talking.send(client.http, text)
    [line] = await lines(app, client)
    sent = [record.json for record in provider.requests]
    assert all("cache_control" in str(body) for body in sent)
    assert line["usage"]["cache_read"] > 0
    assert line["saved"] > 0
    assert (line["breaks"], line["lost"]) == (0, 0)
    made = await requests(client, line)
    assert {one["marker_policy"] for one in made} == {"planner"}
    assert [one["usage"]["cache_read"] for one in made] == [one["predicted"]["read"] for one in made]


async def test_a_client_that_sets_markers_keeps_them_and_one_that_says_off_gets_none(
    app: App, client: ServerClient, provider: Provider
) -> None:
    talking = Client("messages", marks=True)
    await talking.send(client.http, "Hello there")
    body = talking.body()
    await talking.send(client.http, "And the ships?")
    assert str(provider.requests[0].json).count("cache_control") == str(body).count("cache_control") == 2
    await Client("messages").send(client.http, "Hello there", **{"x-lamella-markers": "off"})
    assert "cache_control" not in str(provider.requests[2].json)
    policies = {one["marker_policy"] for line in await lines(app, client) for one in await requests(client, line)}
    assert policies == {"client", "off"}


async def test_a_marker_within_a_result_is_a_marker_too(app: App, client: ServerClient, provider: Provider) -> None:
    talking = Client("messages")
    await talking.send(client.http, "Hello there")
    result = {"type": "text", "text": PROSE, "cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Weather", "input": {}}
    talking.history[-1]["content"].append(call)
    talking.history.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [result]}]}
    )
    await talking.send(client.http)
    [line] = await lines(app, client)
    policies = [request["marker_policy"] for request in await requests(client, line)]
    assert policies == ["planner", "off"]


async def test_a_very_long_request_gets_its_markers_the_same_way_each_time(
    app: App, client: ServerClient, provider: Provider
) -> None:
    talking = Client("messages", system=PROSE * 4_000)
    await talking.send(client.http, "Hello there")
    del talking.history[-1]
    await talking.send(client.http)
    one, two = (logged.json for logged in provider.requests[-2:])
    assert one == two
    assert "cache_control" in str(one)


async def test_what_is_stored_of_a_request_does_not_grow_with_its_conversation(app: App, client: ServerClient) -> None:
    talking, sizes = Client("chat"), [0]
    for turn in range(61):
        await talking.send(client.http, f"Question {turn}: {PROSE}")
        if turn in (20, 40, 60):
            await app.gateway.recorder.drain()
            sizes.append(stored(app))
    first, second, third = (later - sooner for sooner, later in pairwise(sizes))
    assert third < 1.2 * second, (first, second, third)


async def test_a_title_is_no_conversation_and_both_are_in_the_bill(
    app: App, client: ServerClient, provider: Provider
) -> None:
    headers = {"x-claude-code-session-id": "session-1"}
    fields = {"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"title": {}}}}}}
    title = Client("messages", "claude-cli/9.9 (test)", headers, fields={}, system="You write titles.")
    title.tools = []
    title.fields = fields
    talking = Client("messages", "claude-cli/9.9 (test)", headers, marks=True)
    body = title.body() | {"messages": [{"role": "user", "content": "<session>Hello</session> Write the title."}]}
    body.pop("output_config")
    answer = await client.http.post("/v1/messages", json=body, headers={"user-agent": "claude-cli/9.9", **headers})
    assert answer.status_code == 200
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
    found = {line["label"]: line for line in await lines(app, client)}
    assert set(found) == {"title", "conversation"}
    assert {line["session"] for line in found.values()} == {"session-1"}
    assert found["conversation"]["client"] == "Claude Code 9.9"
    assert (found["conversation"]["turns"], found["title"]["turns"]) == (2, 1)
    assert sum(line["cost"] for line in found.values()) == pytest.approx(provider.cost)


async def test_a_tool_loop_is_one_turn_with_its_results(app: App, client: ServerClient, provider: Provider) -> None:
    provider.script({"calls": {"tool_calls": [{"name": "Weather", "arguments": {"place": "Ystad"}}]}})
    address = str(client.http.base_url)
    messages: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    tools: Any = [tool("Weather", "messages")]
    asked: Any = {"model": "claude-opus-5-5", "max_tokens": 200, "tools": tools}
    async with anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=0) as sdk:
        first = await sdk.messages.create(messages=messages, extra_headers={"x-sim-reply": "calls"}, **asked)
        [call] = [block for block in first.content if block.type == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain in Ystad"}
        content: Any = [block.model_dump(exclude_none=True) for block in first.content]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        await sdk.messages.create(messages=messages, **asked)
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"]) == (1, 2)
    [turn] = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    [called, answered] = (await app.store.turns.turn(LOCAL_OWNER, turn["id"])).steps
    assert [result.content for result in called.results] == ["Rain in Ystad"]
    assert (called.calls[0].name, answered.calls) == ("Weather", ())
    assert [one["step"] for one in await requests(client, line)] == [0, 1]


async def test_an_answer_that_is_no_stream_is_recorded_as_one_that_is(
    app: App, client: ServerClient, provider: Provider
) -> None:
    address = str(client.http.base_url).rstrip("/")
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as sdk:
        said = await sdk.chat.completions.create(model="gpt-6.1-terra", messages=[{"role": "user", "content": "Hello"}])
        answered = await sdk.responses.create(model="gpt-6.1-terra", input="Good evening")
    found = {line["dialect"]: line for line in await lines(app, client)}
    assert found["openai"]["usage"]["input"] == said.usage.prompt_tokens  # type: ignore[union-attr]
    assert found["responses"]["usage"]["input"] == answered.usage.input_tokens  # type: ignore[union-attr]
    for line, text in (("openai", said.choices[0].message.content), ("responses", answered.output_text)):
        [turn] = (await client.get(f"/conversations/{found[line]['id']}/turns"))["data"]
        assert turn["answer"] == text


async def test_two_conversations_that_begin_alike_are_two(app: App, client: ServerClient) -> None:
    one, other = Client("chat"), Client("chat")
    await one.send(client.http, "Hello")
    await other.send(client.http, "Hello")
    await one.send(client.http, "I am the first")
    await other.send(client.http, "I am the second")
    assert sorted(line["turns"] for line in await lines(app, client)) == [2, 2]


async def test_an_edited_message_stays_on_its_line_and_is_named(app: App, client: ServerClient) -> None:
    talking = Client("messages", marks=True)
    for text in ("Hello there, keeper. " + PROSE * 20, "And the ships?", "And the oil?"):
        await talking.send(client.http, text)
    talking.history[2]["content"] = "And the whales?"
    await talking.send(client.http, "Thank you")
    [line] = await lines(app, client)
    assert (line["turns"], line["breaks"]) == (4, 1)
    newest = (await requests(client, line))[-1]
    why = await client.get(f"/requests/{newest['id']}/why")
    assert (why["cause"], why["by"], why["first_changed"]) == ("edited", "client", "message 3")
    assert "Message 3 (user)" in why["text"]


@pytest.mark.parametrize("wire", ["messages", "responses"])
async def test_what_the_vendor_says_of_a_missed_cache_stands_beside_ours_if_the_client_asked(
    app: App, client: ServerClient, wire: str
) -> None:
    talking = Client(wire, marks=wire == "messages", system=PROSE * 20)
    await talking.send(client.http, "Hello there")
    [line] = await lines(app, client)
    answer_id = (await requests(client, line))[-1]["answer_id"]
    asked = {"diagnostics": {"previous_message_id": answer_id}}
    if wire == "responses":
        asked = {"prompt_cache_options": {"comparison_response_id": answer_id}}
    talking.fields, talking.system = asked, "Now. " + PROSE * 20
    await talking.send(client.http, "And the ships?")
    newest = (await requests(client, (await lines(app, client))[0]))[-1]
    assert newest["diagnosis"]["reason"] == ("system_changed" if wire == "messages" else "input_changed")
    why = await client.get(f"/requests/{newest['id']}/why")
    assert (why["cause"], why["provider"]["agrees"]) == ("edited", True)


@WIRES
async def test_a_search_finds_what_clients_said_and_got_also_in_a_turn_that_goes_on(
    app: App, client: ServerClient, wire: str
) -> None:
    talking = Client(wire)
    await talking.send(client.http, "Where is the quixotic lighthouse?")
    [line] = await lines(app, client)
    for query in ({"q": "quixotic"}, {"q": "quixotic", "conversation_id": line["id"]}):
        hits = (await client.api.get("/sessions/search", **query))["data"]
        assert {hit["conversation_id"] for hit in hits} == {line["id"]}
    if wire == "messages":
        call = {"type": "tool_use", "id": "toolu_1", "name": "Weather", "input": {}}
        talking.history[-1]["content"].append(call)
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "A zephyr from the west"}
        talking.history.append({"role": "user", "content": [result]})
        await talking.send(client.http)
        await lines(app, client)
        assert (await client.get("/sessions/search?q=quixotic"))["data"] != []
    assert (await client.call("DELETE", f"/conversations/{line['id']}")).status_code == 204
    assert (await client.get("/sessions/search?q=quixotic"))["data"] == []


async def test_an_effort_and_tools_that_change_together_are_both_named(app: App, client: ServerClient) -> None:
    talking = Client("messages", marks=True, fields={"output_config": {"effort": "low"}})
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
    talking.fields = {"output_config": {"effort": "high"}}
    talking.tools[1]["description"] += " Now."
    await talking.send(client.http, "Thank you")
    [line] = await lines(app, client)
    why = await client.get(f"/requests/{line['request_id']}/why")
    assert why["cause"] == "effort"
    assert "the thinking effort was changed from low to high" in why["text"]
    assert "a tool is described differently, as the client gave them (tool Ships, block 1, byte " in why["text"]


async def test_a_line_goes_on_after_a_restart(provider: Provider, tmp_path: Path) -> None:
    settings, talking = settings_of(provider.url, provider.openai_url, tmp_path), Client("messages", marks=True)
    for text in ("Hello there", "And the ships?"):
        async with served(settings) as (app, client):
            await talking.send(client.http, text)
            [line] = await lines(app, client)
    assert line["turns"] == 2
    assert line["usage"]["cache_read"] > 0
    assert line["breaks"] == 0


async def test_a_deployment_can_switch_off_what_is_added(provider: Provider, tmp_path: Path) -> None:
    settings = settings_of(provider.url, provider.openai_url, tmp_path)
    settings = settings.model_copy(update={"gateway_markers": False, "gateway_usage": False})
    async with served(settings) as (_, client):
        messages, chat = Client("messages"), Client("chat")
        await messages.send(client.http, "Hello there")
        await chat.send(client.http, "Hello there")
    assert "cache_control" not in str(provider.requests[0].json)
    assert "stream_options" not in provider.requests[1].json


async def test_users_with_the_same_session_never_meet(app: App, client: ServerClient) -> None:
    key = await client.set_up()
    address = str(client.http.base_url)
    async with connected(address, authorization=f"Bearer {key}") as root:
        made = await root.post("/users", {"name": "Bob"})
        async with connected(address, authorization=f"Bearer {made['key']['secret']}") as bob:
            for one in (root, bob):
                talking = Client("messages", headers={"x-session-id": "the-same"}, marks=True)
                await talking.send(one.http, "Hello there")
                await talking.send(one.http, "And the ships?")
            for one in (root, bob):
                [line] = await lines(app, one)
                assert (line["turns"], line["requests"]) == (2, 2)
            [mine] = await lines(app, root)
            assert (await bob.call("GET", f"/lines/{mine['id']}")).status_code == 404
    assert (await client.http.post("/v1/messages", json={})).status_code == 401


async def test_nobody_goes_on_with_a_line_here(app: App, client: ServerClient) -> None:
    talking = Client("chat")
    await talking.send(client.http, "Hello")
    [line] = await lines(app, client)
    answer = await client.call("POST", f"/conversations/{line['id']}/turns", json={"text": "Me too"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "conversation_id")
    assert (await client.call("DELETE", f"/conversations/{line['id']}")).status_code == 204
    assert await lines(app, client) == []
    await talking.send(client.http, "Still there?")
    assert [line["turns"] for line in await lines(app, client)] == [1]


async def test_a_failed_request_is_on_its_line_too(app: App, client: ServerClient, provider: Provider) -> None:
    talking = Client("messages")
    await talking.send(client.http, "Hello")
    talking.history.append({"role": "user", "content": "And?"})
    body = talking.body() | {"max_tokens": -1}
    refused = await client.http.post("/v1/messages", json=body)
    assert refused.status_code == 400
    talking.history.pop()
    await talking.send(client.http, "And the ships?")
    [line] = await lines(app, client)
    assert [one["error"] for one in await requests(client, line)] == [None, None], "both stand after the first answer"
    tree = (await client.get(f"/conversations/{line['id']}/tree"))["data"]
    assert [(turn["text"], turn["runs"][0]["status"]) for turn in reversed(tree)] == [
        ("Hello", "finished"),
        ("And?", "failed"),
        ("And the ships?", "finished"),
    ]
    assert line["requests"] == 3


def backwards(value: Any) -> Any:
    """The same JSON with the fields of each object in the other order."""
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in reversed(value)}
    return [backwards(one) for one in value] if isinstance(value, list) else value


@WIRES
async def test_messages_that_come_back_with_their_fields_in_another_order_are_read_from_the_cache(
    app: App, client: ServerClient, wire: str
) -> None:
    talking = Client(wire)
    for text in ("Hello there", "And the ships?", "Thank you"):
        await talking.send(client.http, text)
        talking.history = backwards(talking.history)
    [line] = await lines(app, client)
    assert (line["breaks"], line["lost"]) == (0, 0)
    _, *later = await requests(client, line)
    assert [one["usage"]["cache_read"] for one in later] == [one["predicted"]["read"] for one in later]
    assert all(one["usage"]["cache_read"] > 0 for one in later)
    assert "All that was cached was read" in (await client.get(f"/requests/{line['request_id']}/why"))["text"]


@WIRES
@pytest.mark.parametrize("session", [None, "s-1"])
async def test_a_first_request_that_is_refused_is_no_conversation_until_one_is_taken(
    app: App, client: ServerClient, wire: str, session: str | None
) -> None:
    """A client mends its first request and sends it again: that is one conversation. Or it goes another way: what was
    refused says so, and stands apart.
    """
    named = {"x-session-id": session} if session else {}
    talking, other = Client(wire, headers=named), Client(wire, headers=named, system="Another system prompt.")
    for one, text in ((talking, "Hello there"), (other, "Nobody answers this")):
        one.history.append({"role": "user", "content": text})
        wrong = one.body() | {"tool_choice": 5}
        assert (await client.http.post(PATHS[wire], json=wrong, headers=named)).status_code == 400
    assert [line["label"] for line in await lines(app, client)] == ["refused", "refused"]
    await talking.send(client.http)
    await talking.send(client.http, "And the ships?")
    refused, line = sorted(await lines(app, client), key=lambda one: int(one["requests"]))
    assert (line["label"], line["turns"], line["requests"]) == ("conversation", 2, 3)
    assert (refused["label"], refused["title"], refused["cost"]) == ("refused", "Nobody answers this", 0)


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_what_openai_caches_without_markers_is_predicted(app: App, client: ServerClient, wire: str) -> None:
    talking = Client(wire)
    for text in ("Hello there", "And the ships?", "Thank you"):
        await talking.send(client.http, text)
    [line] = await lines(app, client)
    first, *later = await requests(client, line)
    assert first["predicted"]["written"] > 0
    assert [one["usage"]["cache_read"] for one in later] == [one["predicted"]["read"] for one in later]
    assert all(one["usage"]["cache_read"] > 0 for one in later)
    assert (line["breaks"], line["lost"]) == (0, 0)
    short = Client(wire, system="Be brief.")
    short.tools = []
    await short.send(client.http, "Good evening")
    await short.send(client.http, "And?")
    newest = (await requests(client, (await lines(app, client))[0]))[-1]
    why = await client.get(f"/requests/{newest['id']}/why")
    assert "too short (at least 1k tokens for gpt-6.1-terra)" in why["text"]


async def test_a_request_after_one_without_markers_says_so(app: App, client: ServerClient) -> None:
    talking = Client("messages")
    await talking.send(client.http, "Hello there", **{"x-lamella-markers": "off"})
    await talking.send(client.http, "And the ships?")
    [line] = await lines(app, client)
    why = await client.get(f"/requests/{line['request_id']}/why")
    assert why["text"].endswith("Nothing was cached before: that request had no markers.")


async def test_who_watches_sees_each_request_with_its_line_and_its_break(app: App, client: ServerClient) -> None:
    talking = Client("messages", marks=True)
    async with client.api.events("GET", "/lines/live") as events:
        for text in ("Hello there", "And the ships?"):
            await talking.send(client.http, text)
        talking.tools[0]["description"] += " Now."
        await talking.send(client.http, "Thank you")
        seen = []
        async for _, text in events:
            seen += [decode_object(text)] if text else []
            if len(seen) == 3:
                break
    assert [one["relation"] for one in seen] == ["new", "next", "next"]
    assert [one["line"]["breaks"] for one in seen] == [0, 0, 1]  # type: ignore[index,call-overload]
    assert "tool Weather" in str(seen[-1]["why"])


async def test_records_are_dropped_if_too_many_wait_and_the_others_are_stored(app: App, client: ServerClient) -> None:
    recorder, body = app.gateway.recorder, encode(Client("chat", history=[{"role": "user", "content": "Hello"}]).body())
    facts = ModelTable.shipped().facts("gpt-6.1-terra", "openai")
    route = Route(Upstream("it", "", 1.0), "", "", "gpt-6.1-terra", "account", facts, Dialect.CHAT)
    for _ in range(WAITING + 20):
        at = app.gateway.clock.now()
        recorder.take(Exchange(LOCAL_OWNER, Dialect.CHAT, "a client", "a session", route, body, at))
    assert recorder.dropped == 20
    assert (await client.get("/status"))["dropped_records"] == 20
    assert sum(line["requests"] for line in await lines(app, client)) == WAITING


async def test_two_processes_record_requests_of_one_line_and_count_each(app: App, client: ServerClient) -> None:
    """Each process has a recorder of its own, and a client's requests go to any of them."""
    clock, facts = app.gateway.clock, ModelTable.shipped().facts("gpt-6.1-terra", "openai")
    route = Route(Upstream("it", "", 1.0), "", "", "gpt-6.1-terra", "account", facts, Dialect.CHAT)
    talking = [{"role": "user", "content": "Hello"}]
    app.gateway.recorder.take(_exchange(app, route, talking))
    await app.gateway.recorder.drain()
    async with recording(app.store, Ledger(), clock, app.ids) as other:
        for number in range(40):
            talking += [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": f"Question {number}"}]
            for recorder in (app.gateway.recorder, other):
                recorder.take(_exchange(app, route, talking))
        await other.drain()
        [line] = await lines(app, client)
    assert line["requests"] == 81


async def test_a_request_that_goes_on_comes_later_whatever_the_clock_of_its_process_says(
    app: App, client: ServerClient
) -> None:
    recorder, facts = app.gateway.recorder, ModelTable.shipped().facts("gpt-6.1-terra", "openai")
    route = Route(Upstream("it", "", 1.0), "", "", "gpt-6.1-terra", "account", facts, Dialect.CHAT)
    talking = [{"role": "user", "content": "Hello"}]
    first = _exchange(app, route, talking)
    recorder.take(first)
    for text in ("And then?", "And now?"):
        talking += [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": text}]
        late = _exchange(app, route, talking)
        late.at -= timedelta(minutes=1)
        recorder.take(late)
    [line] = await lines(app, client)
    assert line["turns"] == 3
    turns = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    assert [turn["text"] for turn in turns] == ["And now?", "And then?", "Hello"]
    times = [one["at"] for one in await requests(client, line)]
    assert times == sorted(times)
    assert line["at"] > first.at.isoformat()


def _exchange(app: App, route: Route, messages: list[Object]) -> Exchange:
    body, at = encode({"model": "gpt-6.1-terra", "messages": messages}), app.gateway.clock.now()
    return Exchange(LOCAL_OWNER, Dialect.CHAT, "a client", "a session", route, body, at)


@WIRES
async def test_a_break_after_a_request_that_failed_is_counted(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    """What failed wrote nothing to the cache: the request before it did."""
    talking = Client(wire, marks=wire == "messages")
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
    provider.fail({"kind": 429, "times": 2})
    refused = talking.body()
    refused["input" if wire == "responses" else "messages"].append({"role": "user", "content": "Thank you"})
    for _ in range(2):
        assert (await client.http.post(PATHS[wire], json=refused)).status_code == 429
    described = talking.tools[2].get("function", talking.tools[2])
    described["description"] += " Now."
    await talking.send(client.http, "Thank you")
    [line] = await lines(app, client)
    assert (line["requests"], line["breaks"]) == (5, 1)
    newest = await client.get(f"/requests/{line['request_id']}/why")
    assert (newest["cause"], newest["by"]) == ("tools", "tools"), newest["text"]
    assert line["lost"] == newest["lost"]


async def test_a_chat_program_whose_side_calls_have_no_session(
    app: App, client: ServerClient, provider: Provider
) -> None:
    """As Open WebUI sends: each answer is followed by a title, tags and follow-ups, which quote the chat in a text."""
    talking = Client("chat", "Python/3.11 aiohttp/3.14.5")
    told = ("Generate a concise title summarizing the chat history.", "Generate 1-3 broad tags for the chat history.")
    asked = (*told, "Predict 3-5 messages this user might naturally send next.")
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
        quoted = "\n".join(f"{one['role'].upper()}: {one['content']}" for one in talking.history)
        for task in asked:
            said = f"### Task:\n{task}\n### Chat History:\n<chat_history>\n{quoted}\n</chat_history>"
            body = {"model": talking.model, "stream": False, "messages": [{"role": "user", "content": said}]}
            headers = {"user-agent": talking.user_agent}
            assert (await client.http.post(PATHS["chat"], json=body, headers=headers)).status_code == 200
    found = await lines(app, client)
    labels = sorted(line["label"] for line in found)
    assert labels == ["conversation", *["follow-ups"] * 2, *["tags"] * 2, *["title"] * 2]
    [line] = [one for one in found if one["label"] == "conversation"]
    assert (line["turns"], line["requests"], line["breaks"]) == (2, 2, 0)
    assert sum(one["cost"] for one in found) == pytest.approx(provider.cost)


async def _versions(app: App, client: ServerClient, line: Object) -> list[Object]:
    """The newest turn of a line, and the turns beside it, the oldest first."""
    newest = (await client.get(f"/conversations/{line['id']}/turns"))["data"][0]
    return [await client.get(f"/turns/{id}") for id in newest["siblings"]]


@WIRES
async def test_a_repeated_request_is_another_answer_to_the_same_message(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    talking = Client(wire, marks=wire == "messages")
    provider.script({f"n{n}": {"text": f"Answer number {n}."} for n in range(4)})
    for n, text in enumerate(("Hello there", "And the ships?")):
        await talking.send(client.http, text, **{"x-sim-reply": f"n{n}"})
    talking.history.pop()
    await talking.send(client.http, **{"x-sim-reply": "n2"})
    await talking.send(client.http, "Thank you", **{"x-sim-reply": "n3"})
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"]) == (3, 4)
    assert line["cost"] == pytest.approx(provider.cost)
    listed = (await client.get(f"/conversations/{line['id']}/turns"))["data"][::-1]
    assert [turn["text"] for turn in listed] == ["Hello there", "And the ships?", "Thank you"]
    assert [turn["answer"] for turn in listed] == ["Answer number 0.", "Answer number 2.", "Answer number 3."]
    [first, again] = [await client.get(f"/turns/{id}") for id in listed[1]["siblings"]]
    assert (first["text"], first["answer"]) == ("And the ships?", "Answer number 1.")
    assert first["cost"] + again["cost"] + listed[0]["cost"] + listed[2]["cost"] == pytest.approx(line["cost"])
    [request] = (await client.get(f"/turns/{again['id']}/requests"))["data"]
    [before] = (await client.get(f"/turns/{first['id']}/requests"))["data"]
    why = await client.get(f"/requests/{request['id']}/why")
    assert why["cause"] == "read", why["text"]
    diff = await client.get(f"/requests/{request['id']}/diff")
    assert (diff["before_id"], diff["difference"]) == (before["id"], None)


async def test_a_repeated_step_of_a_tool_loop_keeps_the_steps_before_it(
    app: App, client: ServerClient, provider: Provider
) -> None:
    talking = Client("messages")
    provider.script({"calls": {"tool_calls": [{"name": "Weather", "arguments": {"place": "Ystad"}}]}})
    provider.script({f"n{n}": {"text": f"Answer number {n}."} for n in range(2)})
    await talking.send(client.http, "What is the weather?", **{"x-sim-reply": "calls"})
    await app.gateway.recorder.drain()
    [line] = await lines(app, client)
    [turn] = (await client.get(f"/conversations/{line['id']}/turns"))["data"]
    [call] = (await app.store.turns.turn(LOCAL_OWNER, turn["id"])).steps[0].calls
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {"place": "Ystad"}}
    talking.history[-1]["content"] = [block]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain in Ystad"}
    talking.history.append({"role": "user", "content": [result]})
    await talking.send(client.http, **{"x-sim-reply": "n0"})
    talking.history.pop()
    await talking.send(client.http, **{"x-sim-reply": "n1"})
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"], line["cost"]) == (1, 3, pytest.approx(provider.cost))
    for version, said in zip(await _versions(app, client, line), ("Answer number 0.", "Answer number 1."), strict=True):
        [called, answered] = (await app.store.turns.turn(LOCAL_OWNER, version["id"])).steps
        assert version["text"] == "What is the weather?"
        assert [result.content for result in called.results] == ["Rain in Ystad"]
        assert ([one.name for one in called.calls], answered.text) == (["Weather"], said)
    costs = [version["cost"] for version in await _versions(app, client, line)]
    assert sum(costs) == pytest.approx(line["cost"])


async def test_a_request_that_is_sent_again_after_a_failure_is_the_same_turn(
    app: App, client: ServerClient, provider: Provider
) -> None:
    talking = Client("messages")
    await talking.send(client.http, "Hello there")
    provider.fail({"kind": 429, "times": 1})
    talking.history.append({"role": "user", "content": "And the ships?"})
    assert (await client.http.post(PATHS["messages"], json=talking.body())).status_code == 429
    await talking.send(client.http)
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"]) == (2, 3)
    [version] = await _versions(app, client, line)
    assert (version["text"], version["answer"]) == ("And the ships?", talking.said[-1])
