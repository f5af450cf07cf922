"""The thinking effort of a conversation: the narrowest wins, a change is decided and warned of, reads are predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.app.app import LOCAL_OWNER
from lamella.core.errors import ConfigurationError
from lamella.server.testing import Object
from lamella.settings import read_settings

from .stage import Playback, only, staged

pytestmark = pytest.mark.anyio

LONG = "The tide turns twice a day, and the harbour with it. " * 150


async def asks(stage: Playback) -> list[Any]:
    """What each request said of thinking."""
    return [
        (seen["body"].get("thinking"), seen["body"].get("output_config"), seen["body"].get("reasoning_effort"))
        for seen in await stage.seen()
    ]


async def requests(stage: Playback, packets: list[Object]) -> list[Object]:
    turn_id = packets[0]["turn_id"]
    found: list[Object] = (await stage.client.get(f"/turns/{turn_id}/requests"))["data"]
    return found


async def test_the_narrowest_effort_wins(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, thinking_effort="low", model="claude-haiku-4-5") as stage:
        agent = await stage.client.post("/agents", {"name": "A", "prompt": "Be brief.", "thinking_effort": 4096})
        assert agent["thinking_effort"] == "medium"
        other = await stage.client.post("/agents", {"name": "B", "prompt": "Be long.", "thinking_effort": "1100"})
        conversation = await stage.client.conversation(agent_id=agent["id"])
        path = f"/conversations/{conversation}"
        await stage.turn(conversation, "By the agent?", {"text": "Yes."})
        changed = await stage.client.call("PATCH", path, json={"thinking_effort": "6000"})
        assert changed.json()["thinking_effort"] == "6000"
        await stage.turn(conversation, "By the conversation?", {"text": "Yes."})
        await stage.turn(conversation, "By the named agent?", {"text": "Yes."}, agent_id=other["id"])
        await stage.turn(conversation, "By the message?", {"text": "Yes."}, thinking_effort="off")
        back = await stage.client.call("PATCH", path, json={"thinking_effort": None, "agent_id": None})
        assert back.json()["thinking_effort"] is None
        packets = await stage.turn(conversation, "By the deployment?", {"text": "Yes."})
        [last] = await requests(stage, packets)
        assert last["thinking_effort"] == "low"
        budgets = [(thinking or {}).get("budget_tokens") for thinking, _, _ in await asks(stage)]
        assert budgets == [4_096, 6_000, 1_100, None, 1_024]
        decided = [one.decision for one in await stage.app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        efforts = [(one.outcome, one.why) for one in decided if one.subject == "thinking_effort"]
        assert efforts == [
            ("medium", "the thinking effort was changed from off to medium"),
            ("6000", "the thinking effort was changed from medium to 6000"),
            ("1100", "the thinking effort was changed from 6000 to 1100"),
            ("off", "the thinking effort was changed from 1100 to off"),
            ("low", "the thinking effort was changed from off to low"),
        ]


@pytest.mark.parametrize(
    ("model", "level"), [("claude-opus-4-8", "messages"), ("claude-opus-5-5", "messages"), ("gpt-5.6", "tools")]
)
async def test_reads_stay_predicted_while_the_effort_changes(
    provider: str, tmp_path: Path, model: str, level: str
) -> None:
    keys = {"openai_api_key": SecretStr(tmp_path.name), "openai_base_url": f"{provider}/v1"}
    async with staged(provider, tmp_path, model=model, **keys) as stage:
        await stage.client.post("/system-prompts", {"text": LONG * 2})
        conversation = await stage.client.conversation()
        efforts = ["off", "off", "low", "low", "off", "medium", "6000", "low"]
        lost, read = [], []
        for number, effort in enumerate(efforts):
            said = {"text": f"Answer {number}. {LONG}"}
            packets = await stage.turn(conversation, f"Question {number}?", said, thinking_effort=effort)
            [request] = await requests(stage, packets)
            # An entry in the middle of a window has an estimated size; the last one of a request is known exactly.
            slack = 0 if not changed(efforts, number) else 0.05 * request["usage"]["input"]
            assert abs(request["predicted"]["read"] - request["usage"]["cache_read"]) <= slack, (number, effort)
            lost.append([packet["tokens"] for packet in packets if packet["type"] == "cache.lost"])
            read.append(request["usage"]["cache_read"])
            for packet in packets:
                if packet["type"] == "cache.lost":
                    assert (packet["subject"], packet["level"]) == ("thinking_effort", level)
                    assert packet["cost"] > 0
        # `medium` is what claude-opus-5-5 and the GPT models think without being asked; 6000 tokens are nearest to it.
        by_default = model != "claude-opus-4-8"
        changes = [bool(one) for one in lost]
        assert changes == [False, False, True, False, True, not by_default, False, True]
        assert read[1] > 0
        if level == "tools":
            assert read[2] == 0
        else:
            assert 0 < read[2] < read[1]


def changed(efforts: list[str], number: int) -> bool:
    return number > 0 and efforts[number] != efforts[number - 1]


async def test_the_cost_of_a_change_is_known_before_it_is_made(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    path = f"/conversations/{conversation}"
    nothing = (await stage.client.get(f"{path}/efforts"))["data"]
    assert [(one["name"], one["current"], one["cache_lost"]) for one in nothing] == [
        ("off", True, None),
        ("low", False, None),
        ("medium", False, None),
        ("high", False, None),
    ]
    await stage.turn(conversation, "Tell me all.", {"text": LONG})
    await stage.turn(conversation, "And more.", {"text": LONG})
    off, low, *_ = (await stage.client.get(f"{path}/efforts"))["data"]
    assert off["cache_lost"] is None
    assert low["requested"] == {"level": "low", "budget": None, "disabled": False}
    assert low["cache_lost"]["level"] == "messages"
    assert low["cache_lost"]["tokens"] > 1_000
    assert low["cache_lost"]["cost"] > 0
    changed = await stage.client.call("PATCH", path, json={"thinking_effort": "low"})
    assert changed.json()["cache_lost"] == low["cache_lost"]
    packets = await stage.turn(conversation, "And?", {"text": "Yes."})
    assert only(packets, "cache.lost")["tokens"] == low["cache_lost"]["tokens"]
    # What was written before is still there: going back costs nothing but what came since.
    back = (await stage.client.get(f"{path}/efforts"))["data"][0]
    assert back["cache_lost"] is None or back["cache_lost"]["tokens"] < low["cache_lost"]["tokens"]


async def test_an_effort_that_is_none_is_refused(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    for method, where, body in (
        ("PATCH", f"/conversations/{conversation}", {"thinking_effort": "lots"}),
        ("POST", "/conversations", {"thinking_effort": 12}),
        ("POST", f"/conversations/{conversation}/turns", {"text": "Hi", "thinking_effort": "4k"}),
        ("POST", "/agents", {"name": "A", "prompt": "B", "thinking_effort": "-1"}),
    ):
        answer = await stage.client.call(method, where, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "thinking_effort")
        assert "off, low, medium, high" in answer.json()["error"]["hint"]
    assert await stage.seen() == []


def test_a_deployment_that_names_none_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"LAMELLA_THINKING_EFFORT can't be used: .*off, low, medium, high"):
        read_settings(data=tmp_path, thinking_effort="much")
    assert read_settings(data=tmp_path, thinking_effort="1024").thinking_effort == "low"


async def test_why_names_the_change_of_the_effort(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.client.post("/system-prompts", {"text": LONG})
    for effort in ("off", "off", "low"):
        packets = await stage.turn(conversation, "Tell me.", {"text": LONG}, thinking_effort=effort)
    answer = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/why"})
    assert answer["data"]["cause"] == "effort"
    assert answer["data"]["lost"] > 1_000
    assert "the thinking effort was changed from off to low, which is part of the cache's key" in answer["answer"]
    request_id = only(packets, "request.started")["request_id"]
    assert answer["data"]["request_id"] == request_id
    assert (await stage.client.get(f"/requests/{request_id}/why"))["text"] == answer["answer"]
