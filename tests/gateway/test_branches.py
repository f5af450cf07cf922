"""A client that goes on from an earlier answer is followed from there: an older one of two, or before an edit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.server.testing import ServerClient
from lamella_simulator.provider import Provider

from .clients import PROSE, Client
from .test_lines import lines, requests

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
SAID = {"one": "The first of two answers.", "two": "The second of two answers."}


async def path(app: App, client: ServerClient) -> list[tuple[str, str]]:
    """Questions and answers of the path on which the newest line stands."""
    newest = max(await lines(app, client), key=lambda line: str(line["request_id"]))
    turns = (await client.get(f"/conversations/{newest['id']}/turns?limit=100"))["data"]
    return [(turn["text"], turn["answer"]) for turn in reversed(turns)]


def told(talking: Client) -> list[tuple[str, str]]:
    """The same, as the client has it."""
    texts = [_text(one) for one in talking.history if one.get("type") != "reasoning"]
    return list(zip(texts[::2], texts[1::2], strict=True))


def _text(message: Object) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@WIRES
@pytest.mark.parametrize("session", [None, "s-1"])
async def test_a_client_that_goes_on_from_the_older_of_two_answers(
    app: App, client: ServerClient, provider: Provider, wire: str, session: str | None
) -> None:
    provider.script({name: {"text": text} for name, text in SAID.items()})
    talking = Client(wire, headers={"x-session-id": session} if session else {})
    await talking.send(client.http, "Hello there")
    await talking.send(client.http, "Which?", **{"x-sim-reply": "one"})
    first = list(talking.history)
    talking.history.pop()
    await talking.send(client.http, **{"x-sim-reply": "two"})
    assert await path(app, client) == told(talking)
    talking.history = first
    await talking.send(client.http, "And the ships?")
    assert await path(app, client) == told(talking)
    [line] = await lines(app, client)
    assert (line["turns"], line["requests"], line["breaks"], line["lost"]) == (3, 4, 0, 0)
    *_, newest = await requests(client, line)
    assert newest["usage"]["cache_read"] == newest["predicted"]["read"] > 0 or wire == "messages"


@WIRES
@pytest.mark.parametrize("session", [None, "s-1"])
async def test_an_edit_is_a_branch_and_the_branch_before_can_be_gone_on_with(
    app: App, client: ServerClient, wire: str, session: str | None
) -> None:
    talking = Client(wire, headers={"x-session-id": session} if session else {})
    for text in ("Hello there", "And the ships?", "And the oil?"):
        await talking.send(client.http, text)
    before, talking.history = list(talking.history), talking.history[:2]
    await talking.send(client.http, "And the whales?")
    assert await path(app, client) == told(talking)
    talking.history = before
    await talking.send(client.http, "Thank you")
    assert await path(app, client) == told(talking)
    talking.history = before[:2]
    await talking.send(client.http, "And the ships?")
    assert await path(app, client) == told(talking)
    assert len(await lines(app, client)) == 1


@WIRES
async def test_the_first_message_answered_again_in_a_session_stands_next_to_the_first_turn(
    app: App, client: ServerClient, wire: str
) -> None:
    talking = Client(wire, headers={"x-session-id": "s-1"})
    for text in ("Hello there", "And the ships?"):
        await talking.send(client.http, text)
    before, talking.history = list(talking.history), talking.history[:1]
    await talking.send(client.http)
    assert await path(app, client) == told(talking)
    talking.history = before
    await talking.send(client.http, "Thank you")
    assert await path(app, client) == told(talking)
    [line] = await lines(app, client)
    tree = (await client.get(f"/conversations/{line['id']}/tree"))["data"]
    assert sorted(turn["text"] for turn in tree) == ["And the ships?", "Hello there", "Hello there", "Thank you"]


def called(wire: str, id: str) -> list[Object]:
    """The items of a call and its result."""
    if wire == "messages":
        call: Object = {"type": "tool_use", "id": id, "name": "Weather", "input": {"place": "1"}}
        result: Object = {"type": "tool_result", "tool_use_id": id, "content": "Rain"}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    function: Object = {"name": "Weather", "arguments": '{"place":"1"}'}
    if wire == "chat":
        calls = [{"id": id, "type": "function", "function": function}]
        answer: Object = {"role": "assistant", "content": None, "tool_calls": calls}
        return [answer, {"role": "tool", "tool_call_id": id, "content": "Rain"}]
    call = {"type": "function_call", "call_id": id, **function}
    return [call, {"type": "function_call_output", "call_id": id, "output": "Rain"}]


@WIRES
async def test_of_two_answers_that_are_calls_the_one_whose_result_comes_goes_on(
    app: App, client: ServerClient, provider: Provider, wire: str
) -> None:
    """The calls have no text; their ids tell them apart."""
    for number in (1, 2):
        call = {"name": "Weather", "arguments": {"place": f"{number}"}, "id": f"call_{number}"}
        provider.script({f"call{number}": {"tool_calls": [call]}})
    talking = Client(wire)
    await talking.send(client.http, "Hello there")
    question, kept = {"role": "user", "content": "What is the weather?"}, list(talking.history)
    ids = []
    for number in (1, 2):
        talking.history = [*kept, question]
        await talking.send(client.http, **{"x-sim-reply": f"call{number}"})
        [line] = await lines(app, client)
        turn = await app.store.turns.turn(LOCAL_OWNER, (await newest_turn(client, line))["id"])
        ids.append(turn.steps[0].calls[0].id)
    for number in (0, 1, 0):
        talking.history = [*kept, question, *called(wire, ids[number])]
        await talking.send(client.http)
        [line] = await lines(app, client)
        turn = await app.store.turns.turn(LOCAL_OWNER, (await newest_turn(client, line))["id"])
        assert [step.calls[0].id for step in turn.steps if step.calls] == [ids[number]]
        assert [one.content for step in turn.steps for one in step.results] == ["Rain"]
        assert turn.steps[-1].text == talking.said[-1]
    tree = (await client.get(f"/conversations/{line['id']}/tree"))["data"]
    assert [turn["text"] for turn in tree].count("What is the weather?") == 3


async def newest_turn(client: ServerClient, line: Object) -> Object:
    newest: Object = (await client.get(f"/conversations/{line['id']}/turns"))["data"][0]
    return newest


@WIRES
@pytest.mark.parametrize("session", [None, "s-1"])
@pytest.mark.parametrize("seed", range(2))
async def test_whatever_a_client_goes_on_from_its_line_stands_where_it_is(
    app: App, client: ServerClient, provider: Provider, wire: str, session: str | None, seed: int
) -> None:
    """Long conversations with equal questions and answers, regenerated, edited, and gone on with at any place."""
    random = Random(seed)
    provider.script({f"a{n}": {"text": f"Answer {n}. {PROSE[:30]}"} for n in range(3)})
    talking = Client(wire, headers={"x-session-id": session} if session else {}, system="You know lamps.")
    talking.tools = []
    known: list[list[Object]] = []
    for number in range(24):
        reply = {"x-sim-reply": f"a{random.randrange(3)}"}
        choice = random.random()
        if known and choice < 0.5:
            talking.history = list(random.choice(known))
            if choice < 0.2 and len(talking.history) > 2:
                talking.history.pop()
                await talking.send(client.http, **reply)
            else:
                del talking.history[2 * random.randint(1, len(talking.history) // 2) :]
                await talking.send(client.http, f"Question {random.randrange(4)}?", **reply)
        else:
            await talking.send(client.http, f"Question {number if not known else random.randrange(4)}?", **reply)
        known.append(list(talking.history))
        assert await path(app, client) == told(talking), number
    assert len(await lines(app, client)) == 1
