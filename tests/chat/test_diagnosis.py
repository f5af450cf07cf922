"""A prefix that was broken on purpose: what was found here and what the vendor says are stored and told together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.core.json import Json

from .stage import Playback, staged

pytestmark = pytest.mark.anyio
LONG = "The tide turns twice a day, and the harbour with it. " * 200


def asked(body: dict[str, Any]) -> Any:
    """The answer that a body asks to be compared with."""
    return (body.get("diagnostics") or {}).get("previous_message_id") or body.get("prompt_cache_options", {}).get(
        "comparison_response_id"
    )


async def talked(stage: Playback) -> tuple[list[Any], str]:
    """Three turns, of which the last has another agent in front of all: their requests, and the conversation."""
    one, other = [await stage.client.post("/agents", {"name": name, "prompt": f"{name}. {LONG}"}) for name in "AB"]
    conversation = await stage.client.conversation(agent_id=one["id"])
    requests = []
    for text, fields in (("One?", {}), ("Two?", {}), ("Three?", {"agent_id": other["id"]})):
        packets = await stage.turn(conversation, text, {"text": "Yes."}, **fields)
        requests += (await stage.client.get(f"/turns/{packets[0]['turn_id']}/requests"))["data"]
    return requests, conversation


@pytest.mark.parametrize(
    ("model", "reason", "said"),
    [
        ("claude-opus-4-8", "system_changed", "the system prompt changed"),
        ("gpt-6.1-terra", "input_changed", "earlier input changed"),
    ],
)
async def test_both_causes_are_told(provider: str, tmp_path: Path, model: str, reason: str, said: str) -> None:
    openai = {
        "openai_base_url": f"{provider}/v1",
        "openai_api_key": SecretStr(tmp_path.name),
        "openai_api": "responses",
    }
    async with staged(provider, tmp_path, model=model, **openai) as stage:
        (first, second, third), conversation = await talked(stage)
        assert [asked(seen["body"]) for seen in await stage.seen()] == [None, first["answer_id"], second["answer_id"]]
        assert first["answer_id"] is not None
        assert first["diagnosis"] is None
        assert second["diagnosis"]["compared_with"] == first["answer_id"]
        why = await stage.client.get(f"/requests/{second['id']}/why")
        assert (why["cause"], why["provider"]["agrees"]) == ("read", True)  # the reminder moved, behind the last marker
        assert (third["diagnosis"]["verdict"], third["diagnosis"]["reason"]) == ("changed", reason)
        assert third["diagnosis"]["missed"] > 2_000
        why = await stage.client.get(f"/requests/{third['id']}/why")
        assert why["cause"] == "decided"
        assert why["provider"]["agrees"] is True
        assert f" The provider says: {said} (" in why["text"]
        assert why["text"].endswith(why["provider"]["text"])
        for path in ("map", "diff"):
            found = await stage.client.get(f"/requests/{third['id']}/{path}")
            assert why["text"] in (found.get("why"), found.get("text"))
        packets = await stage.client.send(conversation, "/why")
        assert why["text"] in str(packets)
        assert asked(await stage.client.get(f"/requests/{third['id']}/raw")) == second["answer_id"]


async def test_nobody_is_asked_where_that_is_set(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, cache_diagnostics=False) as stage:
        requests, _ = await talked(stage)
        assert [asked(seen["body"]) for seen in await stage.seen()] == [None, None, None]
        assert [request["diagnosis"] for request in requests] == [None, None, None]
        assert all(request["answer_id"] for request in requests)


async def test_each_step_of_a_turn_is_compared_with_the_one_before(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path) as stage:
        conversation = await stage.client.conversation()
        await stage.turn(conversation, LONG, {"text": "Yes."})
        call: Json = {"tool_calls": [{"name": "read_file", "arguments": {"file_id": "file_none"}}]}
        packets = await stage.turn(conversation, "Look it up.", call, call, {"text": "No."})
        steps = (await stage.client.get(f"/turns/{packets[0]['turn_id']}/requests"))["data"]
        sent = [asked(seen["body"]) for seen in await stage.seen()]
    assert len(steps) == 3
    assert sent[2:] == [steps[0]["answer_id"], steps[1]["answer_id"]]
    assert [step["diagnosis"]["compared_with"] for step in steps] == sent[1:]
    assert all(step["usage"]["cache_read"] for step in steps)
