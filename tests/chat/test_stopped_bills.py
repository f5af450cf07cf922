"""What an answer that was stopped is billed: what the provider said until then, else an estimate that is marked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from endless import CHUNK, claude, never_ending
from lamella.app.app import LOCAL_OWNER
from lamella.core.tokens import Usage
from lamella.server.testing import Object, served
from lamella.settings import read_settings

from .stage import MODEL, Playback, staged, text_of

pytestmark = pytest.mark.anyio

STORY = "Once upon a time there was a ship in a harbour. " * 40


async def stopped(stage: Playback, conversation: str) -> list[Object]:
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
        assert await stage.app.store.requests.last_bill(LOCAL_OWNER, conversation, "gpt-6.1-terra") is None
        status = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        assert "(in part an estimate" in status["answer"]
        assert status["data"]["cost_estimated"] is True


async def test_anthropic_says_the_input_at_the_beginning_and_the_output_at_the_end(stage: Playback) -> None:
    """So the input is billed, and the output is estimated by what was streamed."""
    conversation = await stage.client.conversation()
    packets = await stopped(stage, conversation)
    usage, said = packets[-1]["usage"], text_of(packets)
    assert (usage["estimated"], usage["input_estimated"]) == (True, False)
    assert len(said) / 8 < usage["output"] < len(said)
    assert packets[-1]["cost"] > usage["output"] * 25 / 1_000_000
    turn = await stage.client.get(f"/turns/{packets[-1]['turn_id']}")
    assert turn["usage"] == turn["runs"][0]["usage"] == usage
    [request] = (await stage.client.get(f"/turns/{turn['id']}/requests"))["data"]
    assert request["usage"] == usage
    bill = await stage.app.store.requests.last_bill(LOCAL_OWNER, conversation, MODEL)
    assert bill is not None
    assert bill.usage.input == usage["input"]
    status = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
    assert "(in part an estimate" in status["answer"]
    assert status["data"]["cost_estimated"] is True
    why = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/why"})
    assert f"(about ${packets[-1]['cost']:.4f})" in why["answer"]


def gpt(count: int, output: int | None) -> Iterator[Any]:
    """Some servers tell the usage with every chunk; `output` tokens a chunk, or none at all until the end."""
    for number in range(1, count + 1):
        usage = {"prompt_tokens": 300, "completion_tokens": number * output} if output is not None else None
        yield {"id": "x", "choices": [{"index": 0, "delta": {"content": CHUNK}}], "usage": usage}


def responses(count: int) -> Iterator[Any]:
    yield {"type": "response.created", "response": {"id": "r", "usage": None}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}
    for _ in range(count):
        yield {
            **{"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0},
            "delta": CHUNK,
        }


@pytest.mark.parametrize(
    ("model", "api", "bodies", "estimated"),
    [
        (MODEL, None, claude(50), (True, False)),
        ("gpt-5.6", "chat", gpt(50, None), (True, True)),
        ("gpt-5.6", "chat", gpt(50, 0), (True, False)),
        ("gpt-5.6", "chat", gpt(50, 13), (False, False)),
        ("gpt-6.1-terra", "responses", responses(50), (True, True)),
    ],
)
async def test_an_output_that_can_not_be_for_what_was_streamed_is_estimated(
    tmp_path: Path, model: str, api: str | None, bodies: Iterator[Any], estimated: tuple[bool, bool]
) -> None:
    key = SecretStr("any")
    async with never_ending(bodies) as url:
        at: dict[str, Any] = {"anthropic_base_url": url, "anthropic_api_key": key}
        if api is not None:
            at = {"openai_base_url": f"{url}/v1", "openai_api_key": key, "openai_api": api}
        async with served(read_settings(data=tmp_path, model=model, **at)) as (_, client):
            packets: list[Object] = []
            async with client.sending(await client.conversation(), "Tell me about tides.") as events:
                async for event in events:
                    packets.append(event.packet)
                    if sum(packet["type"] == "text.delta" for packet in packets) == 50:
                        await client.post(f"/turns/{event.packet['turn_id']}/stop")
    usage = packets[-1]["usage"]
    assert (usage["estimated"], usage["input_estimated"]) == estimated
    assert 400 < usage["output"] < 1_200


def test_a_sum_with_an_estimate_is_one() -> None:
    measured, guessed = Usage(input=3), Usage(input=4, estimated=True)
    assert measured + guessed == guessed + measured == Usage(input=7, estimated=True)
    assert not (measured + measured).estimated
