"""Another model in the middle of a conversation: a recorded decision, and a window that the new model can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from lamella.app.app import LOCAL_OWNER
from lamella.core.decisions import DecisionKind

from .stage import Playback, only, staged, text_of

pytestmark = pytest.mark.anyio


async def test_a_change_of_the_model_is_recorded_and_used(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.turn(conversation, "Hello?", {"text": "I am the first."})
    path = f"/conversations/{conversation}"
    changed = await stage.client.call("PATCH", path, json={"model": "claude-sonnet-4-6"})
    assert changed.json()["model"] == "claude-sonnet-4-6"
    again = await stage.client.call("PATCH", path, json={"model": "claude-sonnet-4-6"})
    assert again.status_code == 200
    packets = await stage.turn(conversation, "And you?", {"text": "I am the second."})
    assert only(packets, "run.started")["model"] == "claude-sonnet-4-6"
    first, second = await stage.seen()
    assert (first["body"]["model"], second["body"]["model"]) == ("claude-opus-4-8", "claude-sonnet-4-6")
    assert [message["role"] for message in second["body"]["messages"]] == ["user", "assistant", "user"]
    [decision] = await stage.app.store.conversations.decisions(LOCAL_OWNER, conversation)
    assert (decision.decision.kind, decision.decision.outcome) == (DecisionKind.SETTING, "claude-sonnet-4-6")
    assert "from claude-opus-4-8 to claude-sonnet-4-6" in decision.decision.why


async def test_a_model_for_one_message_changes_nothing_else(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.turn(conversation, "Hello?", {"text": "One."}, models=["claude-sonnet-4-6"])
    await stage.turn(conversation, "And?", {"text": "Two."})
    assert [seen["body"]["model"] for seen in await stage.seen()] == ["claude-sonnet-4-6", "claude-opus-4-8"]
    assert (await stage.client.get(f"/conversations/{conversation}"))["model"] == "claude-opus-4-8"


async def test_thinking_stays_with_the_model_that_made_it(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, thinking_effort="low") as stage:
        conversation = await stage.client.conversation()
        await stage.turn(conversation, "Hello?", {"text": "One.", "reasoning": "Hm."})
        await stage.turn(conversation, "And?", {"text": "Two.", "reasoning": "Aha."}, models=["claude-sonnet-4-6"])
        await stage.turn(conversation, "And?", {"text": "Three."})
        _, second, third = await stage.seen()
        kinds = [
            [part["type"] for part in m["content"]] for m in second["body"]["messages"] if m["role"] == "assistant"
        ]
        assert kinds == [["text"]]
        kinds = [[part["type"] for part in m["content"]] for m in third["body"]["messages"] if m["role"] == "assistant"]
        assert kinds == [["thinking", "text"], ["text"]]


async def test_a_conversation_goes_from_one_vendor_to_the_other_and_back(provider: str, tmp_path: Path) -> None:
    keys = {"openai_api_key": SecretStr("key"), "openai_base_url": f"{provider}/v1"}
    async with staged(provider, tmp_path, **keys) as stage:
        conversation = await stage.client.conversation()
        for number, model in enumerate(["claude-opus-4-8", "gpt-5.6", "claude-opus-4-8", "gpt-5.6"]):
            packets = await stage.turn(conversation, f"Question {number}", {"text": f"Answer {number}"}, models=[model])
            assert text_of(packets) == f"Answer {number}"
            raw = await stage.client.call("GET", f"/requests/{only(packets, 'request.started')['request_id']}/raw")
            assert raw.json() == (await stage.seen())[-1]["body"]
        assert [seen["wire"] for seen in await stage.seen()] == ["anthropic", "openai", "anthropic", "openai"]
