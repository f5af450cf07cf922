"""Managed context: long histories are shortened upstream, and their clients notice nothing."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import App
from lamella.server.testing import ServerClient, served
from lamella_simulator.provider import Provider

from .clients import PATHS, PROSE, Client
from .conftest import settings_of
from .test_lines import lines, requests

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
MANAGE = {"x-lamella-context": "manage"}
SUMMARY = {"sum": {"match": "Summarise this conversation now", "rule": "keep_facts"}}
OPENING = "The beginning of this conversation is left out here."


async def settled(app: App) -> None:
    """Wait until all is recorded, and no summary is being made."""
    for _ in range(3):
        await app.gateway.recorder.drain()
        await app.gateway.managed.settle()


async def talk(app: App, client: ServerClient, talking: Client, turns: int, **headers: str) -> None:
    """So many turns, each with a fact in a long message."""
    for _ in range(turns):
        await talking.send(client.http, told(len(talking.said)), **headers)
        await settled(app)


def told(number: int) -> str:
    return f"FACT-{number:02} is {number * 7919}. {PROSE * 120}"


def bodies(provider: Provider) -> list[Object]:
    """What came upstream but the requests for summaries."""
    return [one.json for one in provider.requests if "Summarise this conversation now" not in one.body.decode()]


def messages(body: Object) -> list[Object]:
    found: list[Object] = body["messages"] if "messages" in body else body["input"]
    return [one for one in found if one.get("role") != "system"]


def encoded(values: list[Object]) -> list[str]:
    """Messages without the markers that were added, to be compared."""
    return [json.dumps(_unmarked(value), sort_keys=True) for value in values]


def _unmarked(message: Object) -> Object:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    if [part.get("cache_control") is not None for part in content] == [True] and message["role"] == "user":
        return {**message, "content": content[0]["text"]}
    return {**message, "content": [{n: v for n, v in part.items() if n != "cache_control"} for part in content]}


def is_shortened(body: Object) -> bool:
    return OPENING in json.dumps(messages(body)[0])


@WIRES
async def test_a_long_history_is_shortened_upstream_and_its_facts_stay(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire)
    await talk(app, client, talking, 20, **MANAGE)
    last = bodies(provider)[-1]
    assert is_shortened(last)
    text = json.dumps(last)
    assert [n for n in range(20) if f"FACT-{n:02} is {n * 7919}." not in text] == []
    assert len(text) < len(json.dumps(talking.body())) / 2
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"], line["breaks"]) == (20, 20, 0)
    assert line["compactions"] >= 1
    assert line["context_saved"] > 0
    assert line["cost"] == pytest.approx(provider.cost)


@WIRES
async def test_only_the_replaced_beginning_differs_from_what_the_client_sent(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire, fields={"metadata": {"a": "b"}})
    sent: list[Object] = []
    for number in range(16):
        body = {**talking.body(), "messages" if wire != "responses" else "input": []}
        await talking.send(client.http, told(number), **MANAGE)
        sent.append({**body, "history": talking.history[:-1]})
        await settled(app)
    for body, upstream in zip(sent, bodies(provider), strict=True):
        mine, theirs = encoded(body.pop("history")), encoded(messages(upstream))
        made = (2 if wire == "chat" else 1) if is_shortened(upstream) else 0
        assert mine[len(mine) - len(theirs) + made :] == theirs[made:]
        assert upstream.keys() - {"stream_options"} == body.keys() - {"history"}
        for name in body.keys() - {"messages", "input", "system", "history", "tools"}:
            assert upstream[name] == body[name]
    assert is_shortened(bodies(provider)[-1])


@WIRES
async def test_between_two_compactions_every_request_begins_as_the_one_before(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    await talk(app, client, Client(wire), 24, **MANAGE)
    assert app.gateway.managed.remembered == 0
    changes = 0
    for before, now in pairwise(bodies(provider)):
        known, shown = encoded(messages(before)), encoded(messages(now))
        if known[0] != shown[0]:
            changes += 1
        else:
            assert shown[: len(known)] == known
    [line] = await lines(app, client)
    assert changes == line["compactions"] >= 2


@WIRES
@pytest.mark.parametrize("headers", [{}, {"x-lamella-context": "off"}])
async def test_without_the_header_nothing_is_replaced(
    app: App, client: ServerClient, provider: Provider, wire: str, headers: dict[str, str]
) -> None:
    talking = Client(wire)
    await talk(app, client, talking, 14, **headers)
    assert not any(is_shortened(body) for body in bodies(provider))
    assert len(provider.requests) == 14


@WIRES
async def test_another_word_is_refused_in_the_clients_words(client: ServerClient, wire: str) -> None:
    talking = Client(wire)
    talking.history.append({"role": "user", "content": "Hello"})
    answer = await client.http.post(PATHS[wire], json=talking.body(), headers={"x-lamella-context": "shorten"})
    assert answer.status_code == 400
    assert "manage or off" in answer.json()["error"]["message"]


@WIRES
async def test_a_restart_keeps_what_was_replaced(provider: Provider, tmp_path: Path, wire: str) -> None:
    provider.script(SUMMARY)
    settings = settings_of(provider.url, provider.openai_url, tmp_path)
    talking = Client(wire)
    async with served(settings) as (app, client):
        await talk(app, client, talking, 16, **MANAGE)
        talking.history.append({"role": "user", "content": "And now?"})
        body = talking.body()
        first = await client.http.post(PATHS[wire], json=body, headers=MANAGE)
        await settled(app)
    async with served(settings) as (app, client):
        second = await client.http.post(PATHS[wire], json=body, headers=MANAGE)
    assert (first.status_code, second.status_code) == (200, 200)
    one, other = provider.requests[-2:]
    assert one.body == other.body
    assert is_shortened(one.json)


@WIRES
async def test_an_edited_history_goes_on_as_it_is(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire)
    await talk(app, client, talking, 16, **MANAGE)
    assert is_shortened(bodies(provider)[-1])
    talking.history[0] = {"role": "user", "content": f"Another beginning. {PROSE * 3}"}
    await talking.send(client.http, "And now?", **MANAGE)
    assert not is_shortened(bodies(provider)[-1])
    assert "Another beginning" in json.dumps(bodies(provider)[-1])


@WIRES
async def test_the_replacement_is_told_on_the_line_and_can_be_taken_back(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire)
    await talk(app, client, talking, 16, **MANAGE)
    [line] = await lines(app, client)
    told = await requests(client, line)
    summaries = [one for one in told if one["purpose"] == "summary"]
    assert len(summaries) == line["compactions"]
    chat = [one for one in told if one["purpose"] == "chat"]
    shown = await client.get(f"/requests/{chat[-1]['id']}/map")
    [note, *_] = [one for one in shown["notes"] if one["segment"] == "summary"]
    assert "compacted here by Lamella: turns 1–" in note["text"]
    assert [one["kind"] for one in shown["segments"]].count("summary") >= 1
    made = (await client.get(f"/lines/{line['id']}/replacements"))["data"]
    first = next(one for one in made if one["request_id"])
    why = (await client.get(f"/requests/{first['request_id']}/map"))["why"]
    assert "compacted here by Lamella" in why
    for one in made:
        answer = await client.call("DELETE", f"/lines/{line['id']}/replacements/{one['id']}")
        assert answer.status_code == 200
    await talk(app, client, talking, 3, **MANAGE)
    assert not is_shortened(bodies(provider)[-1])


@WIRES
async def test_a_request_that_does_not_fit_waits_for_a_summary(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire, model="claude-haiku-4-5" if wire == "messages" else "lamella-demo")
    talking.history = long_history(wire, 1_100_000)
    await talking.send(client.http, "And now?", **MANAGE)
    await settled(app)
    last = bodies(provider)[-1]
    assert is_shortened(last)
    assert "FACT-00 is 0." in json.dumps(last)
    [line] = await lines(app, client)
    assert line["compactions"] == 1
    if wire == "messages":  # the other model has no price
        assert line["cost"] == pytest.approx(provider.cost)
    talking.history.append({"role": "user", "content": "And then?"})
    await client.http.post(PATHS[wire], json=talking.body(), headers=MANAGE)
    assert encoded(messages(bodies(provider)[-1]))[0] == encoded(messages(last))[0]


@WIRES
async def test_without_a_summary_it_goes_on_as_the_client_sent_it(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script({"sum": {"match": "Summarise this conversation now|Above stands part", "text": " "}})
    talking = Client(wire, model="claude-haiku-4-5" if wire == "messages" else "lamella-demo")
    talking.history = [*long_history(wire, 1_100_000), ask(wire, "And now?")]
    answer = await client.http.post(PATHS[wire], json=talking.body(), headers=MANAGE)
    assert answer.status_code == 400  # the vendor's, for a prompt that is too long
    assert "Lamella" not in answer.text
    assert encoded(messages(provider.requests[-1].json)) == encoded(talking.history)


def ask(wire: str, text: str) -> Object:
    return {"role": "user", "content": [{"type": "input_text", "text": text}] if wire == "responses" else text}


def long_history(wire: str, size: int) -> list[Object]:
    """Twenty turns of so many characters in all."""
    history: list[Object] = []
    for number in range(20):
        text = f"FACT-{number:02} is {number * 7919}. {PROSE * (size // 20 // len(PROSE))}"
        history += [ask(wire, text), {"role": "assistant", "content": "Noted."}]
    return history


@WIRES
async def test_two_requests_at_once_have_the_same_bytes(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    provider.script(SUMMARY)
    talking = Client(wire)
    await talk(app, client, talking, 16, **MANAGE)
    talking.history.append(ask(wire, "And now?"))
    body = talking.body()
    sent = [client.http.post(PATHS[wire], json=body, headers=MANAGE) for _ in range(4)]
    answers = await asyncio.gather(*sent)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({one.body for one in provider.requests[-4:]}) == 1
    assert is_shortened(bodies(provider)[-1])


async def test_a_key_can_ask_for_it_and_one_without_texts_is_refused(
    app: App, client: ServerClient, provider: Provider
) -> None:
    provider.script(SUMMARY)
    headers = {"authorization": f"Bearer {await client.set_up()}"}
    key = await client.post("/keys", {"name": "editor", "context": "manage"}, headers=headers)
    client.http.headers["authorization"] = f"Bearer {key['secret']}"
    talking = Client("chat")
    await talk(app, client, talking, 16)
    assert is_shortened(bodies(provider)[-1])
    await talking.send(client.http, "As it is", **{"x-lamella-context": "off"})
    assert not is_shortened(bodies(provider)[-1])
    refused = await client.call("PATCH", f"/keys/{key['id']}", json={"storage": "hashes"})
    assert refused.status_code == 400
    await client.call("PATCH", f"/keys/{key['id']}", json={"storage": "hashes", "context": "off"})
    talking.history.append(ask("chat", "Again"))
    answer = await client.http.post(PATHS["chat"], json=talking.body(), headers=MANAGE)
    assert answer.status_code == 400
    assert "texts are not stored" in answer.json()["error"]["message"]


async def test_the_clients_own_compaction_still_works(app: App, client: ServerClient, provider: Provider) -> None:
    provider.script(SUMMARY)
    talking = Client("messages")
    await talk(app, client, talking, 16, **MANAGE)
    await talking.send(client.http, "Your task is to create a summary of the conversation so far.", **MANAGE)
    assert is_shortened(bodies(provider)[-1])
    said = talking.said[-1]
    talking.history = [{"role": "user", "content": f"This session goes on from a summary: {said}"}]
    await talking.send(client.http, "Go on", **MANAGE)
    assert not is_shortened(bodies(provider)[-1])
