"""Clients of frontends in Node: AG-UI's HttpAgent, and the chat of the AI SDK in three versions."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lamella.core.prompt import ToolSpec
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from lamella_simulator.provider import Provider, simulated

from .conftest import PROGRAMS, Door, Object
from .install import place

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ROOT = Path(__file__).parents[2]
AI_SDK = ["ai-sdk-ui", "ai-sdk-ui-6", "ai-sdk-ui-5"]
ANSWERS = {"And the ships": "Two ships.", "And the oil": "Half of it.", "Thank you": "Gladly."}
LAMP, SHIPS, OIL = "How is the lamp in the tower?", "And the ships?", "And the oil?"


class Look:
    """Says what there is to see at a place."""

    spec = ToolSpec("look", "Says what there is to see.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return f"At {call.arguments['place']} the lamp is green."


class Light(Look):
    """Asks before it does anything."""

    spec = ToolSpec("light", "Lights the lamp.", '{"type":"object"}')
    needs_approval = True

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "The lamp is lit."


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in real time: what it tells slowly takes two seconds."""
    with simulated(clock="system") as found:
        slowly = {"match": "slowly", "text": "It is a long story of the tower. " * 20, "chunk": 20, "ms": 2_000}
        ships, oil, thanks = ({"match": word, "text": text} for word, text in ANSWERS.items())
        lit = {"match": "lamp is lit|did not approve", "text": "Done."}
        lights = {"match": "[Ll]ight it", "tool_calls": [{"name": "light", "arguments": {"place": "the tower"}}]}
        signals = {"match": "Signal the", "tool_calls": [{"name": "signal", "arguments": {"lamp": "red"}}]}
        found.script({"answer": {"match": "ships answer red", "text": "They saw it."}, "signals": signals})
        found.script({"lit": lit, "slowly": slowly, "lights": lights, "ships": ships, "oil": oil, "thanks": thanks})
        yield found


@pytest.fixture
async def door(provider: Provider, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Door]:
    settings = read_settings(
        data=tmp_path / "data", anthropic_api_key="sk-upstream", anthropic_base_url=provider.url, titles=False
    )
    home = tmp_path / "home"
    home.mkdir()
    async with served(settings, more_tools=[Look(), Light()]) as (app, client):
        made = Door(app, client, provider, home)
        made.calls("in the tower", "look", {"place": "the tower"})
        yield made


async def ran(door: Door, name: str, file: str) -> Object:
    """What a program printed: one JSON object, in its last line."""
    if place(name).exists():
        (door.home / "node_modules").symlink_to(place(name) / "node_modules")
    path = door.write(file, (PROGRAMS / file).read_text())
    said: Object = json.loads((await door.run(name, path)).splitlines()[-1])
    return said


async def branches(door: Door, thread: str) -> list[tuple[str, str]]:
    """The turns of the conversation that begins with this text, with how they ended, oldest first."""
    for one in (await door.client.get("/conversations"))["data"]:
        tree = (await door.client.get(f"/conversations/{one['id']}/tree?order=asc"))["data"]
        if tree[0]["text"] == thread:
            return [(turn["text"], turn["status"]) for turn in tree]
    raise AssertionError(thread)


BRANCHES = [
    *((text, "finished") for text in (LAMP, SHIPS, OIL, OIL)),
    ("Tell it slowly.", "stopped"),
    ("Thank you", "finished"),
]
"""What both programs ask: the question about the ships is edited, and the edited one is answered again."""


@pytest.mark.parametrize("name", AI_SDK)
async def test_the_chat_of_the_ai_sdk(door: Door, name: str) -> None:
    said = await ran(door, name, "ui_chat.mjs")
    first = [["user", LAMP], ["assistant", "The lamp is green."]]
    edited = [*first, ["user", OIL], ["assistant", "Half of it."]]
    assert said["first"] == first
    assert said["second"] == [*first, ["user", SHIPS], ["assistant", "Two ships."]]
    assert said["edited"] == said["again"] == edited
    called = next(part for part in said["parts"] if part["type"] == "dynamic-tool")
    assert (called["toolName"], called["state"], called["providerExecuted"]) == ("look", "output-available", True)
    assert (called["input"], called["output"]) == ({"place": "the tower"}, "At the tower the lamp is green.")
    assert [part["type"] for part in said["parts"]] == ["step-start", "dynamic-tool", "step-start", "text"]
    assert said["metadata"]["usage"]["input"] > 0
    assert (said["stopped"], said["after"]) == (["ready", True], ["ready", "assistant", "Gladly."])
    assert await branches(door, LAMP) == BRANCHES
    assert said["resumed"] == ["ready", 2, "It is a long story of the tower. " * 20]
    assert await branches(door, "Tell it slowly again.") == [("Tell it slowly again.", "finished")]
    assert said["idle"] == "ready"
    assert said["refused"][0] == "error"
    assert "There is no conversation conv_nobody." in said["refused"][1]
    signalled = [["user", "Signal the ships."], ["assistant", "They saw it."]]
    assert said["own"] == ["output-available", *signalled]
    assert said["owned"] == ["assistant", "Gladly."]
    if name != "ai-sdk-ui-5":
        lit, denied = ["output-available", "The lamp is lit.", "Done."], ["output-denied", None, "Done."]
        assert said["approvals"] == ["approval-requested", lit, "approval-requested", denied]
        assert any("It is day." in str(request.json) for request in door.provider.requests)


async def test_agui(door: Door) -> None:
    said = await ran(door, "ag-ui", "agui.mjs")
    first = [["user", LAMP], ["assistant", ""], ["tool", "At the tower the lamp is green."]]
    first.append(["assistant", "The lamp is green."])
    edited = [*first, ["user", OIL], ["assistant", "Half of it."]]
    assert said["first"] == first
    assert said["second"] == [*first, ["user", SHIPS], ["assistant", "Two ships."]]
    assert said["edited"] == said["again"] == edited
    [usage] = said["usage"]
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > 0
    assert (said["stopped"], said["after"]) == (True, ["assistant", "Gladly."])
    assert await branches(door, LAMP) == BRANCHES
    assert [one for one in said["loaded"] if one[0] == "user"] == [["user", text] for text in (LAMP, OIL, *ASIDE)]
    assert said["same"], "the messages of a thread have the ids that its events gave them"
    interrupt = [["tool_call", "May light run?"]]
    assert said["approvals"][0] == said["approvals"][2] == interrupt
    assert said["approvals"][1] == ["success", ["tool", "The lamp is lit."], ["assistant", "Done."]]
    outcome, [role, why], done = said["approvals"][3]
    assert (outcome, role, done) == ("success", "tool", ["assistant", "Done."])
    assert "The user did not approve this call of light: It is day." in why
    signalled = [["user", "Signal the ships."], ["assistant", ""], ["tool", "The ships answer red."]]
    assert said["own"] == [
        1,
        *signalled,
        ["assistant", "They saw it."],
        ["user", "Thank you"],
        ["assistant", "Gladly."],
    ]
    assert said["refused"] == [404, "not_found"]
    assert any("It is noon." in str(request.json) for request in door.provider.requests)


ASIDE = ("Tell it slowly.", "Thank you")


@pytest.mark.parametrize(("name", "file"), [("ai-sdk-ui", "use_chat.mjs"), ("ag-ui", "agui.mjs")])
async def test_the_examples_of_the_how_to_page(door: Door, name: str, file: str) -> None:
    page = (ROOT / "docs" / "how-to" / "frontends.md").read_text("utf-8")
    [command] = [line for line in page.splitlines() if line.startswith(f"node {file} ")]
    _, _, *questions = shlex.split(command)
    door.environment["LAMELLA_URL"] = door.url
    (door.home / "node_modules").symlink_to(place(name) / "node_modules")
    path = door.write(file, (ROOT / "examples" / "frontends" / file).read_text("utf-8"))
    printed = await door.run(name, path, *questions)
    assert printed.count("offline demonstration") == len(questions) == 2
    assert await branches(door, questions[0]) == [(question, "finished") for question in questions]
