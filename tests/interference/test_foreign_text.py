"""A caller's answers do not depend on what somebody else said, uploaded or keeps (law 9, LESSONS: safety)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.app.app import App
from lamella.chat.dynamic_context import BlockScope
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.core.records import PageQuery
from lamella.llm.scripted import calling, saying

from .kit import World, differences

pytestmark = pytest.mark.anyio

TEXTS = [
    ("The price is 4711, CANARY-ONE.", "The price is 1174, CANARY-TWO."),
    ("Short. CANARY-ONE", "The heron stands in the reeds. " * 200 + "The price is high. CANARY-TWO"),
]
"""Of one length, and of two; the second holds what the story searches for."""


async def somebody_elses_things(world: World, protected: str) -> None:
    """The text in a conversation of Ann's with an answer, a file, a project, an agent and a system prompt."""
    ann = world.ann
    file = await ann.upload("prices.txt", protected.encode())
    project = await ann.post("/projects", {"name": "Ann's", "instructions": protected, "file_ids": [file["id"]]})
    agent = await ann.post("/agents", {"name": "Ann's", "prompt": protected})
    await ann.post("/system-prompts", {"text": f"Be brief. {protected}"})
    conversation = await ann.conversation(project_id=project["id"], agent_id=agent["id"])
    world.model.then(saying(f"I see: {protected}"))
    packets = await ann.send(conversation, protected, file_ids=[file["id"]])
    [request] = [packet for packet in packets if packet["type"] == "request.started"]
    await world.app.sessions.wait_until_idle(conversation)
    turn = await ann.get(f"/turns/{packets[0]['turn_id']}")
    base = await ann.post("/knowledge-bases", {"name": protected[:100], "description": protected[:1000]})
    world.ids.update(
        conversation=conversation,
        file=file["id"],
        project=project["id"],
        agent=agent["id"],
        turn=turn["id"],
        request=request["request_id"],
        message=turn["user_message_id"] if "user_message_id" in turn else turn["id"],
        base=base["id"],
    )


async def bob_looks_everywhere(world: World) -> None:
    """Bob asks for Ann's things by their ids, searches for the words, and lets a model call its tools with both."""
    ids, ask = world.ids, world.ask
    for path in ("conversations", "files", "projects", "agents", "system-prompts", "knowledge-bases", "users", "keys"):
        await ask("GET", f"/{path}?order=asc")
    for noun in ("conversation", "file", "project", "agent", "turn", "request"):
        await ask("GET", f"/{noun}s/{ids[noun]}{'/map' if noun == 'request' else ''}")
    for path in (f"/files/{ids['file']}/text", f"/turns/{ids['turn']}/events", f"/knowledge-bases/{ids['base']}"):
        await ask("GET", path)
    for words in ("heron", "price 4711", "CANARY"):
        await ask("GET", f"/sessions/search?q={words}")
    mine = (await ask("POST", "/conversations", {}, **{"idempotency-key": "same"}))["id"]
    world.model.then(
        calling(
            ToolCall("c1", "search_conversation", encode_text({"query": "heron price"})),
            ToolCall("c2", "read_message", encode_text({"message_id": ids["message"]})),
            ToolCall("c3", "read_file", encode_text({"document": 1})),
        ),
        saying("I found nothing."),
        saying("Nothing at all."),
    )
    body = {"text": "What does it cost? The heron knows.", "timezone": "Europe/Berlin"}
    await ask("POST", f"/conversations/{mine}/turns", body, accept="application/json")
    await ask("POST", f"/conversations/{mine}/turns", {**body, "file_ids": [ids["file"]]}, accept="application/json")
    await ask("POST", f"/conversations/{mine}/turns", {**body, "agent_id": ids["agent"]}, accept="application/json")
    await ask("POST", f"/conversations/{mine}/commands", {"text": "/resume heron price"})
    await ask("POST", f"/conversations/{mine}/commands", {"text": "/status"})
    stored = await ask("POST", f"/conversations/{mine}/turns", {**body, "text": "And?"}, accept="application/json")
    await ask("GET", f"/turns/{stored['id']}/events")
    for request in (await ask("GET", f"/turns/{stored['id']}/requests"))["data"]:
        for view in ("map", "raw", "why"):
            await ask("GET", f"/requests/{request['id']}/{view}")
    await ask("POST", "/context/preview", {"conversation_id": mine, "text": "heron"})
    await ask("GET", f"/conversations/{mine}/turns")
    await ask("GET", f"/conversations/{mine}/decisions?order=asc")


@pytest.mark.parametrize("texts", TEXTS, ids=["of one length", "of two lengths"])
async def test_nothing_that_leaves_depends_on_somebody_elses_text(tmp_path: Path, texts: tuple[str, str]) -> None:
    found = await differences(tmp_path, texts, somebody_elses_things, bob_looks_everywhere, {"recall": "user"})
    assert found == []


class Gossip:
    """A block that tells everybody how long the newest file of anybody is: what the kit has to notice."""

    name, order = "gossip", 0

    def __init__(self, app: App) -> None:
        self._app = app

    async def block(self, scope: BlockScope) -> str | None:
        owner = (await self._app.accounts.directory.users(PageQuery())).data
        sizes = []
        for user in owner:
            held = (await self._app.store.files.files(type(scope.caller)(user.id), PageQuery())).data
            sizes += [file.size for file in held]
        return f"The newest file has {max(sizes, default=0)} bytes."


async def test_a_server_that_lets_a_length_slip_is_found_out(tmp_path: Path) -> None:
    found = await differences(
        tmp_path, TEXTS[1], somebody_elses_things, bob_looks_everywhere, {"recall": "user"}, blocks=Gossip
    )
    assert any("The newest file has" in one for one in found)
