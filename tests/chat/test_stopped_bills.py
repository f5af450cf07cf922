"""What an answer that was stopped is billed: what the provider said until then, else an estimate that is marked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from lamella.app.app import LOCAL_OWNER
from lamella.core.tokens import Usage
from lamella.server.testing import Object

from .stage import Stage, staged

pytestmark = pytest.mark.anyio

STORY = "Once upon a time there was a ship in a harbour. " * 40


async def stopped(stage: Stage, conversation: str) -> list[Object]:
    """The packets of a turn that is stopped in its answer."""
    await stage.script({"text": STORY, "chunk": 8}, rate=200)
    packets: list[Object] = []
    async with stage.client.sending(conversation, "Tell me a story.") as events:
        async for event in events:
            packets.append(event.packet)
            if sum(packet["type"] == "text.delta" for packet in packets) == 10:
                await stage.client.post(f"/turns/{event.packet['turn_id']}/stop")
    return packets


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_openai_says_nothing_before_the_end_so_it_is_estimated(provider: str, tmp_path: Path, api: str) -> None:
    openai = {"openai_base_url": f"{provider}/v1", "openai_api_key": SecretStr("k"), "openai_api": api}
    async with staged(provider, tmp_path, model="gpt-6.1-terra", **openai) as stage:
        conversation = await stage.client.conversation()
        packets = await stopped(stage, conversation)
        usage, [started] = packets[-1]["usage"], [p for p in packets if p["type"] == "request.started"]
        assert (usage["estimated"], usage["input"]) == (True, started["estimate"])
        assert 10 <= usage["output"] < len(STORY) // 8
        assert packets[-1]["cost"] > 0
        turn = await stage.client.get(f"/turns/{packets[-1]['turn_id']}")
        assert turn["usage"] == usage
        [request] = (await stage.client.get(f"/turns/{turn['id']}/requests"))["data"]
        assert request["usage"] == usage
        assert await stage.app.store.last_bill(LOCAL_OWNER, conversation, "gpt-6.1-terra") is None
        status = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        assert "(in part an estimate" in status["answer"]
        assert status["data"]["cost_estimated"] is True


async def test_anthropic_says_the_input_at_the_beginning(stage: Stage) -> None:
    conversation = await stage.client.conversation()
    packets = await stopped(stage, conversation)
    usage = packets[-1]["usage"]
    assert (usage["estimated"], usage["input"] > 0) == (False, True)
    status = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
    assert "estimate" not in status["answer"]
    assert status["data"]["cost_estimated"] is False


def test_a_sum_with_an_estimate_is_one() -> None:
    measured, guessed = Usage(input=3), Usage(input=4, estimated=True)
    assert measured + guessed == guessed + measured == Usage(input=7, estimated=True)
    assert not (measured + measured).estimated
