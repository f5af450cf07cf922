"""Open WebUI with its own server and database: its chats, and what it asks for by itself."""

from __future__ import annotations

import json
import shlex

import pytest

from .conftest import ADDRESS, PROGRAMS, Door, Object, commands, is_told

pytestmark = [pytest.mark.anyio, pytest.mark.long]

HEADING = "Open WebUI"
SECONDS = 400
"""It makes its database anew, which takes a minute on a busy machine."""

ANSWERS = {
    "title": {"match": "concise title", "text": '{"title": "The lamp"}'},
    "tags": {"match": "broad tags", "text": '{"tags": ["Lamps"]}'},
    "next": {"match": "naturally send next", "text": '{"follow_ups": ["And the oil?"]}'},
    "chat": {"match": ".", "text": "The lamp is green."},
}

OFFLINE = {
    "OFFLINE_MODE": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "ENABLE_OLLAMA_API": "false",
    "RAG_EMBEDDING_ENGINE": "openai",
    "WEBUI_SECRET_KEY": "a secret of this test",
}
"""It loads nothing from the network, and no model of its own for files."""


async def chatted(door: Door, **more: str) -> Object:
    """A chat of three turns, with the command and the variables of the how-to."""
    door.provider.script(ANSWERS)
    exports, [command] = commands(HEADING)
    told = [word for line in exports for word in shlex.split(line.replace(ADDRESS, door.url))[1:]]
    door.environment |= OFFLINE | dict(word.split("=", 1) for word in told)
    door.environment |= {"DATA_DIR": str(door.home / "data"), **more}
    program = str(PROGRAMS / "open_webui_chat.py")
    said: Object = json.loads(await door.run("open-webui", program, *shlex.split(command), seconds=SECONDS))
    return said


async def first_map(door: Door, line: Object) -> Object:
    """The map of a line's first request."""
    first = (await door.requests(line))[0]
    return await door.client.get(f"/requests/{first['id']}/map")


async def test_a_chat_is_one_line_and_its_side_calls_stand_apart(door: Door) -> None:
    said = await chatted(door)
    assert (said["title"], said["tags"]) == ("The lamp", ["Lamps"])
    assert said["answers"] == ["The lamp is green."] * 3
    assert said["follow_ups"] == [["And the oil?"]] * 3
    lines = await door.lines()
    chat = await door.conversation()
    assert (chat["client"], chat["turns"], chat["requests"], chat["breaks"]) == ("Open WebUI", 3, 3, 0)
    assert {line["session"] for line in lines} == {chat["session"]}
    side = [line for line in lines if line["id"] != chat["id"]]
    assert sorted(line["label"] for line in side) == ["follow-ups", "follow-ups", "follow-ups", "tags", "title"]
    for line in side:
        [request] = await door.requests(line)
        assert request["usage"]["cache_read"] == request["usage"]["cache_write"] == 0, "it quotes the chat in a text"
    for request in (await door.requests(chat))[1:]:
        assert request["usage"]["cache_read"] == request["predicted"]["read"] > 5_000
    assert sum(line["cost"] for line in lines) == pytest.approx(door.provider.cost)
    share = sum(line["cost"] for line in side) / door.provider.cost
    tools = [request.json["tools"] for request in door.provider.requests if "tools" in request.json]
    weights = {one["label"]: one["tokens"] for one in (await first_map(door, chat))["segments"]}
    assert (round(100 * share), {len(one) for one in tools}) == (16, {28})
    assert weights["Tools"] == pytest.approx(4_100, abs=50), weights


async def test_a_moment_in_the_system_prompt_breaks_every_turn(door: Door) -> None:
    await chatted(door, TOLD_PREFIX="It is {{CURRENT_DATETIME}}. ")
    chat = await door.conversation()
    assert (chat["turns"], chat["requests"], chat["breaks"]) == (3, 3, 2)
    *_, newest = await door.why(chat)
    assert newest["cause"] == "time", newest["text"]
    assert is_told(HEADING, newest["text"]), newest["text"]
