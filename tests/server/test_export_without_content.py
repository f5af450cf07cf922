"""What is carried away without content says nothing that anybody wrote: canaries in every field that takes words."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from lamella.server.testing import ServerClient

from .carrying import assert_carried, carrier, rested
from .test_export import picture

pytestmark = pytest.mark.anyio

CANARIES = re.compile(r"canary|47114711|золот|密码|geheimnis", re.IGNORECASE)


def canary(what: str) -> str:
    """Words that no export without content may hold, in several scripts, with figures."""
    return f"Canary {what}: 47114711, geheimnis, золото, 密码."


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SAID: dict[str, dict[str, Any]] = {
    "summary": {"match": "Summarise this conversation now", "text": f"# Facts\n{canary('summary')}"},
    "title": {"match": "Nothing between those two marks|<conversation>", "text": canary("title")},
    "look": {
        "match": "look",
        "text": canary("before a call"),
        "reasoning": canary("reasoning"),
        "tool_calls": [call("look", query=canary("argument"), canary_key={"canary": ["geheimnis", 47114711]})],
    },
    "fails": {"match": "fails", "tool_calls": [call("fail"), call("canary_tool", canary=canary("unknown"))]},
    "opens": {"match": "opens", "tool_calls": [call("open", canary=1)]},
    "digest": {"match": "condensed", "tool_calls": [call("condense", n=canary("digest"))]},
    "broken": {"match": "broken", "text": canary("broken"), "fault": {"kind": "stream_error", "when": 9}},
    "else": {"match": ".", "text": canary("answer")},
}


async def test_no_canary_is_carried(tmp_path: Path) -> None:
    async with carrier(tmp_path, SAID, keep_recent_tokens=100, titles=True, reminder=canary("setting")) as (_, client):
        conversation = await _story(client)
        whole = (await client.call("GET", f"/conversations/{conversation}/export")).text
        blank = (await client.call("GET", f"/conversations/{conversation}/export?content=false")).text
        assert b"anary" in b"".join((await assert_carried(client, conversation)).bodies)
    assert len(set(CANARIES.findall(whole))) > 3
    for text in (blank, json.dumps(json.loads(blank), ensure_ascii=False)):
        assert CANARIES.findall(text) == []
        assert [one for one in re.findall(r"[A-Za-z0-9+/]{12,}", text) if CANARIES.search(_decoded(one))] == []
    assert json.loads(blank)["exported"]["content"] is False


def _decoded(text: str) -> str:
    """What base64 says, if it is any."""
    return b64decode(text[: len(text) // 4 * 4]).decode("utf-8", "replace")


async def _story(client: ServerClient) -> str:
    """Words wherever somebody can write some."""
    notes = await client.upload(f"{canary('name')}.txt", (canary("text") * 9).encode())
    red = await client.upload("canary 红 geheimnis.png", picture((255, 0, 0), "PNG"))
    broken = await client.upload("canary.pdf", b"%PDF-1.4 canary")
    gone = await client.upload("canary-gone.md", canary("gone").encode())
    agent = await client.post(
        "/agents", {"name": canary("agent"), "prompt": canary("prompt"), "reminder": canary("reminder")}
    )
    project = await client.post(
        "/projects",
        {"name": canary("project"), "instructions": canary("instructions"), "file_ids": [notes["id"], gone["id"]]},
    )
    prompt = await client.post("/system-prompts", {"text": canary("system")})
    conversation = await client.conversation(agent_id=agent["id"], project_id=project["id"])
    where = f"/conversations/{conversation}"
    await client.send(conversation, f"look: {canary('user')}", file_ids=[notes["id"], red["id"], broken["id"]])
    await client.call("PATCH", where, json={"system_prompt_version": prompt["version"]})
    for text in ("fails", "opens", "condensed", "broken", "more"):
        await client.send(conversation, f"{text} {canary('user')}", dynamic_context=[canary(f"context of {text}")])
    await client.post(f"{where}/compact", {"focus": canary("focus")})
    await rested(client, conversation)
    await client.send(conversation, f"After: {canary('user')}")
    await client.post(f"{where}/new")
    await client.send(conversation, "//canary is no command, geheimnis")
    await rested(client, conversation)
    return conversation
