"""Agents and projects on the wire: what the provider is sent, what it reads from its cache, what a restart changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.chat import Message
from lamella.server.testing import Object

from .stage import Playback, only, staged

pytestmark = pytest.mark.anyio

LONG = "Rivers carry sand to the sea. " * 400


async def surrounded(stage: Playback, **fields: Any) -> tuple[Object, Object, str]:
    """An agent, a project of one long file, and a conversation with both."""
    file = await stage.client.upload("rivers.txt", LONG.encode())
    agent = await stage.client.post("/agents", {"name": "Editor", "prompt": "You edit texts. " * 20})
    project = await stage.client.post("/projects", {"name": "Rivers", "file_ids": [file["id"]]})
    conversation = await stage.client.conversation(agent_id=agent["id"], project_id=project["id"], **fields)
    return agent, project, conversation


def texts(body: Object) -> list[str]:
    """Every text of a request, in order."""
    parts = [*body["system"], *(part for message in body["messages"] for part in message["content"])]
    return [part.get("text", "") for part in parts]


@pytest.mark.parametrize("layout", ["lamella", "onyx", "lis", "wegent"])
async def test_agent_and_project_reach_the_provider(stage: Playback, layout: str) -> None:
    _, _, conversation = await surrounded(stage, layout=layout)
    await stage.turn(conversation, "What of the sand?", {"text": "It goes to the sea."})
    await stage.turn(conversation, "And then?", {"text": "It stays there."})
    for seen in await stage.seen():
        sent = texts(seen["body"])
        assert sum("You edit texts." in text for text in sent) == 1
        assert sum("Rivers carry sand" in text for text in sent) == 1


async def test_a_project_is_read_from_the_cache_and_an_edited_agent_costs_what_stands_behind_it(
    stage: Playback,
) -> None:
    agent, _, conversation = await surrounded(stage)
    await stage.turn(conversation, "What of the sand?", {"text": "It goes to the sea."})
    read = only(await stage.turn(conversation, "And then?", {"text": "It stays."}), "usage")["usage"]["cache_read"]
    assert read > 2000
    await stage.client.call("PATCH", f"/agents/{agent['id']}", json={"prompt": "You cut texts. " * 20})
    packets = await stage.turn(conversation, "And now?", {"text": "Still there."})
    assert only(packets, "usage")["usage"]["cache_read"] < 1000
    assert sum("You cut texts." in text for text in texts((await stage.seen())[-1]["body"])) == 1
    again = await stage.turn(conversation, "And again?", {"text": "Yes."})
    assert only(again, "usage")["usage"]["cache_read"] > read


async def test_a_preview_is_what_is_sent(stage: Playback) -> None:
    _, _, conversation = await surrounded(stage)
    await stage.turn(conversation, "What of the sand?", {"text": "It goes to the sea."})
    ahead = await stage.client.post("/context/preview", {"conversation_id": conversation, "text": "And then?"})
    packets = await stage.turn(conversation, "And then?", {"text": "It stays there."})
    started = only(packets, "request.started")
    assert (ahead["letters"], ahead["predicted"]["read"]) == (started["letters"], started["predicted_read"])
    assert ahead["predicted"]["read"] > 0


@pytest.mark.parametrize("layout", ["lamella", "onyx", "lis", "wegent"])
async def test_a_restart_changes_no_byte(provider: str, tmp_path: Path, layout: str) -> None:
    found = []
    async with staged(provider, tmp_path) as stage:
        agent, project, conversation = await surrounded(stage, layout=layout)
        await stage.turn(conversation, "What of the sand?", {"text": "It goes to the sea."})
        await stage.client.call("PATCH", f"/agents/{agent['id']}", json={"prompt": "You cut texts."})
        await stage.client.call("PATCH", f"/projects/{project['id']}", json={"instructions": "Be exact."})
        await stage.turn(conversation, "And then?", {"text": "It stays there."})
        found.append(await blocks(stage, conversation))
    for _ in range(2):
        async with staged(provider, tmp_path) as stage:
            found.append(await blocks(stage, conversation))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) >= 7


async def blocks(stage: Playback, conversation: str) -> list[tuple[str, tuple[str, ...]]]:
    """The fingerprints of the next request's blocks, without those that hold the time of asking."""
    message = Message("And now?")
    segments = (await stage.app.chat.sender.preview(LOCAL_IDENTITY, conversation, message)).record.segments
    return [(one.letters, one.blocks) for one in segments if one.kind != "sections" and one.letters != "U3"]
