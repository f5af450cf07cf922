"""What happened can be carried away: the replay of an export sends the same bodies, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from lamella.app.app import App
from lamella.server.testing import Object, ServerClient

from .asking import patched
from .carrying import CHINESE, GREEK, RUSSIAN, WORDS, assert_carried, carried, carrier, rested

pytestmark = pytest.mark.anyio

Opened = tuple[App, ServerClient]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Opened]:
    async with carrier(tmp_path_factory.mktemp("data"), keep_recent_tokens=200, titles=False) as found:
        yield found


@pytest.fixture
def client(opened: Opened) -> ServerClient:
    return opened[1]


MODELS = ["claude-sonnet-5-5", "claude-haiku-4-5", "gpt-6.1-terra", "gpt-5.5"]


@pytest.mark.parametrize("model", MODELS)
async def test_files_tools_and_languages(client: ServerClient, model: str) -> None:
    conversation = await client.conversation(model=model)
    notes = await client.upload("Übersicht 概要.txt", (CHINESE * 20 + RUSSIAN).encode())
    broken = await client.upload("broken.pdf", b"%PDF-1.4 nothing")
    await client.send(conversation, "What is in it? 😀", file_ids=[notes["id"], broken["id"]], timezone="Asia/Tokyo")
    for text in ("look at both", "read the page", "condensed, please", "kept", "opened", "failing", "said"):
        await client.send(conversation, f"{text}: {GREEK}", dynamic_context=[f"User: Ann. {CHINESE}"])
    await client.send(conversation, "Once more", file_ids=[notes["id"]])
    await assert_carried(client, conversation)


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-6.1-terra"])
async def test_calls_that_the_caller_answers(client: ServerClient, model: str) -> None:
    conversation = await client.conversation(model=model)
    own: Any = [{"name": "keep_for_me", "description": "Keeps.", "input_schema": {"type": "object"}}]
    first = await client.send(conversation, "mine, and look at both", tools=own, dynamic_context=["Be brief."])
    handed = [packet for packet in first if packet["type"] == "tool.handed_out"]
    assert [packet["name"] for packet in handed] == ["keep_for_me"]
    given: Any = [{"call_id": handed[0]["call_id"], "content": f"Kept. {CHINESE * 9}"}]
    await client.send(conversation, "", results=given, dynamic_context=["Be long."])
    await client.send(conversation, "mine again", tools=own)
    await client.send(conversation, "Never mind")
    found = await assert_carried(client, conversation)
    assert found.raw["exported"]["not_carried"] == []


@pytest.mark.parametrize("layout", ["lamella", "lis", "onyx", "wegent"])
async def test_every_layout(client: ServerClient, layout: str) -> None:
    conversation = await client.conversation(layout=layout)
    for number in range(3):
        await client.send(conversation, "look at both, read the page", dynamic_context=[f"The user is Ann, {number}."])
    await assert_carried(client, conversation)


@pytest.mark.parametrize("word", ["overload", "broken", "empty", "limited", "refused", "cut off"])
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-6.1-terra"])
async def test_answers_that_fail_or_are_not_whole(client: ServerClient, word: str, model: str) -> None:
    conversation = await client.conversation(model=model)
    for text in ("Hello", word, f"look at both, {word}", "And now?"):
        await client.send(conversation, text)
    found = await assert_carried(client, conversation)
    assert found.raw["exported"]["not_carried"] == []


async def stopped(client: ServerClient, conversation: str, text: str, packet: str, count: int, **fields: Any) -> None:
    """Send a message and stop its turn after so many packets of a type."""
    async with client.sending(conversation, text, **fields) as events:
        async for event in events:
            count -= event.type == packet
            if count == 0:
                await client.post(f"/turns/{event.packet['turn_id']}/stop")
                count -= 1


@pytest.mark.parametrize(
    ("text", "packet", "count"),
    [
        ("slowly", "text.delta", 3),
        ("waiting", "tool.result", 1),
        ("waiting", "tool.call", 2),
        ("slowly", "turn.started", 1),
    ],
)
async def test_stopped_answers(client: ServerClient, text: str, packet: str, count: int) -> None:
    conversation = await client.conversation()
    await client.send(conversation, "Hello")
    await stopped(client, conversation, text, packet, count)
    await client.send(conversation, "Go on")
    await assert_carried(client, conversation)


async def test_messages_that_waited(client: ServerClient) -> None:
    conversation = await client.conversation()
    async with client.sending(conversation, "slowly") as events:
        [await anext(events) for _ in range(4)]
        waits = [
            client.send(conversation, text, debounce_ms=0) for text in ("One of them", "look at both", "And the last")
        ]
        asked = asyncio.gather(*waits)
        async for _ in events:
            pass
        await asked
    await assert_carried(client, conversation)


async def test_edits_repeats_and_ways_back(client: ServerClient) -> None:
    conversation = await client.conversation()
    first = await client.send(conversation, "look at both")
    second = await client.send(conversation, "read the page")
    await client.send(conversation, "And?")
    turn = await client.get(f"/turns/{second[0]['turn_id']}")
    begun = await client.get(f"/turns/{first[0]['turn_id']}")
    await client.send(conversation, "said instead", parent_message_id=begun["runs"][0]["id"])
    await client.send(conversation, "", regenerate=turn["id"])
    await client.send(conversation, "From the beginning", parent_message_id=None)
    await client.post(f"/turns/{turn['id']}/prefer", {"run_id": turn["runs"][0]["id"], "latest": True})
    await client.send(conversation, "On from there")
    await assert_carried(client, conversation)


async def test_several_models_with_a_preferred_one(client: ServerClient) -> None:
    conversation = await client.conversation()
    both = ["claude-sonnet-5-5", "claude-haiku-4-5", "gpt-6.1-terra"]
    packets = await client.send(conversation, "look at both", models=both)
    turn = await client.get(f"/turns/{packets[0]['turn_id']}")
    await client.send(conversation, "acting", models=both[:2])
    await client.post(f"/turns/{turn['id']}/prefer", {"run_id": turn["runs"][1]["id"]})
    await client.send(conversation, "And you?")
    async with client.sending(conversation, "slowly", models=both[:2]) as events:
        runs: list[Object] = []
        async for event in events:
            runs += [event.packet] if event.type == "run.started" else []
            if event.type == "text.delta" and runs and event.packet["model_index"] == 0:
                await client.post(f"/runs/{runs.pop(0)['run_id']}/stop")
                runs.clear()
    await client.send(conversation, "So?")
    await assert_carried(client, conversation)


async def test_agents_projects_prompts_and_settings_that_change(client: ServerClient) -> None:
    plan = await client.upload("plan.md", (WORDS * 9).encode())
    other = await client.upload("other.md", (CHINESE * 9).encode())
    agent = await client.post("/agents", {"name": "Editor", "prompt": "You edit. 编辑", "reminder": "Be kind."})
    whole = await client.post("/agents", {"name": "All", "prompt": "Only this.", "replaces_system": True})
    few = await client.post("/agents", {"name": "Few", "prompt": "", "tools": ["look"], "reminder": "Look first."})
    project = await client.post("/projects", {"name": "Mill", "instructions": "Be exact.", "file_ids": [plan["id"]]})
    conversation = await client.conversation(agent_id=agent["id"])
    prompt = await client.post("/system-prompts", {"text": "You know mills."})
    where = f"/conversations/{conversation}"
    await client.send(conversation, "look at both")
    await patched(client, f"/agents/{agent['id']}", prompt="You edit less.")
    await client.send(conversation, "And now?")
    await patched(client, where, project_id=project["id"], agent_id=None)
    await client.send(conversation, "read the page")
    await patched(client, f"/projects/{project['id']}", file_ids=[other["id"], plan["id"]], instructions="Be brief.")
    await client.send(conversation, "said", agent_id=whole["id"])
    await patched(client, where, system_prompt_version=prompt["version"], layout="onyx", thinking_effort="high")
    await client.send(conversation, "both of them")
    await patched(client, where, model="claude-haiku-4-5", project_id=None, layout="lamella", agent_id=few["id"])
    await client.send(conversation, "failing", file_ids=[plan["id"]], thinking_effort="off", marker_policy="auto_tail")
    await client.call("DELETE", f"/agents/{few['id']}")
    await client.send(conversation, "At last")
    found = await assert_carried(client, conversation)
    assert {type(entry).__name__ for entry in found.trace.entries} == {
        *("TraceTurn", "AgentChange", "ProjectChange", "SystemChange"),
    }


def picture(colour: tuple[int, int, int], form: str) -> bytes:
    target = BytesIO()
    Pillow.new("RGB", (40, 30), colour).save(target, form)
    return target.getvalue()


async def test_pictures(client: ServerClient) -> None:
    red = await client.upload("rot 红.png", picture((255, 0, 0), "PNG"))
    blue = await client.upload("blue.jpg", picture((0, 0, 255), "JPEG"))
    project = await client.post("/projects", {"name": "Colours", "file_ids": [blue["id"]]})
    conversation = await client.conversation(project_id=project["id"])
    await client.send(conversation, "Which is red?", file_ids=[red["id"]])
    await client.send(conversation, "Compare them", file_ids=[blue["id"], red["id"]], models=["gpt-6.1-terra"])
    await assert_carried(client, conversation)


@pytest.mark.parametrize("layout", ["lamella", "lis"])
async def test_sessions_compacted_begun_anew_and_resumed(client: ServerClient, layout: str) -> None:
    conversation = await client.conversation(layout=layout)
    where = f"/conversations/{conversation}"
    for number in range(4):
        await client.send(conversation, f"look at both, number {number}: {WORDS * 4}")
    await client.post(f"{where}/compact", {"focus": "the northern mill"})
    await rested(client, conversation)
    await client.send(conversation, "Which mill?")
    await client.send(conversation, "read the page. " + CHINESE * 30)
    await client.post(f"{where}/prune")
    await client.send(conversation, "said")
    sessions = (await client.get(f"{where}/sessions"))["data"]
    await client.post(f"{where}/new")
    await client.send(conversation, "Something else: " + RUSSIAN * 20)
    await rested(client, conversation)
    await client.post(f"/sessions/{sorted(sessions, key=lambda one: one['number'])[0]['id']}/resume", {})
    await client.send(conversation, "Back again")
    await client.post(f"{where}/commands", {"text": "/status"})
    await client.send(conversation, "And on")
    found = await assert_carried(client, conversation)
    told = [one.cause for one in found.report.happenings if one.kind == "session"]
    assert told == ["/compact the northern mill", "/new", "/resume 1"]
    assert any("Σ" in letters for letters in found.letters)


async def test_a_budget_that_was_lowered_between_messages(tmp_path: Path) -> None:
    """What stands no longer fits: pieces of it are summarised before the next message, as they were."""
    licence = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
    async with carrier(tmp_path, keep_recent_tokens=200, titles=False) as (_, client):
        conversation = await client.conversation()
        for number in range(4):
            await client.send(conversation, f"Part {number}, said: {licence[number * 2_000 :][:7_000]}")
    for budget in (5_000, 20_000):
        async with carrier(tmp_path, keep_recent_tokens=200, titles=False, context_budget=budget) as (_, client):
            assert (await client.send(conversation, "hi"))[-1]["status"] == "finished"
            await client.post(f"/conversations/{conversation}/compact")
            await rested(client, conversation)
            await client.send(conversation, "And now?")
            found = await assert_carried(client, conversation)
    assert len([letters for letters in found.letters if "Σ" in letters]) >= 3
    async with carrier(tmp_path, keep_recent_tokens=200, titles=False) as (_, client):
        await assert_carried(client, conversation)


FORGETFUL: dict[str, dict[str, Any]] = {
    "summary": {"match": "Summarise this conversation now", "text": f"# Facts\n{CHINESE}", "ms": 1_500},
    "slowly": {"match": "slowly", "text": WORDS * 9, "ms": 4_000, "chunk": 12},
    "else": {"match": ".", "text": WORDS * 30},
}
"""A summary that lacks what it has to hold: it is asked for twice."""


async def test_a_summary_that_is_asked_for_again_while_somebody_writes(tmp_path: Path) -> None:
    async with carrier(tmp_path, FORGETFUL, keep_recent_tokens=300) as (_, client):
        conversation = await client.conversation()
        for number in range(4):
            await client.send(conversation, f"Remember: the gate {number} opens with 47-{number}-11. {WORDS * 3}")
        where = f"/conversations/{conversation}"
        await client.post(f"{where}/compact", {})
        await rested(client, conversation)
        await client.send(conversation, "Remember: the other gate opens with 99-12. Which one is open?")
        await client.post(f"{where}/commands", {"text": "/resume 1"})
        await client.send(conversation, "slowly, please")
        await asyncio.sleep(1)
        await client.send(conversation, "And now?")
        await rested(client, conversation)
        found = await carried(client, conversation)
    assert sorted(found.replayed) == sorted(found.bodies)
    assert [request.difference for request in found.report.differing] == []
    assert found.report.lost == 0
    asked = [request.record.step for request in found.report.requests if request.record.purpose == "summary"]
    assert asked == [0, 1, 0, 1]
