"""Servers that count wrongly, on both vendors' wires: the turn is answered, it is said, and nothing follows from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lamella.server.testing import served
from lamella.settings import read_settings

from .raw_server import answering, events

pytestmark = pytest.mark.anyio

LONG = "The tide turns twice a day, and the harbour with it. " * 200


def claude(**usage: int) -> bytes:
    bodies: list[Any] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"output_tokens": 1, **usage}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return events(*(json.dumps(body, separators=(",", ":")) for body in bodies))


def gpt(prompt: int, **details: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": 9, "prompt_tokens_details": details}
    bodies: list[Any] = [
        {"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Yes."}}]},
        {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"id": "x", "choices": [], "usage": usage},
    ]
    return events(*(json.dumps(body) for body in bodies), names=False)


@pytest.mark.parametrize(
    ("model", "answer", "said"),
    [
        (
            "claude-opus-4-8",
            claude(input_tokens=10, cache_read_input_tokens=900_000),
            "billed 900010 tokens",
        ),
        ("gpt-5.6", gpt(3_500, cached_tokens=9_000), "of 3500 tokens it says that 9000 were read and 0 written"),
        ("gpt-5.6", gpt(10_000_000, cached_tokens=9_000), "billed 10000000 tokens for a window of about"),
    ],
)
async def test_figures_that_can_not_be_end_no_turn_and_decide_nothing(
    tmp_path: Path, model: str, answer: bytes, said: str
) -> None:
    key = SecretStr("any")
    async with answering(answer) as url:
        at = {"anthropic_base_url": url, "anthropic_api_key": key}
        if model.startswith("gpt"):
            at = {"openai_base_url": f"{url}/v1", "openai_api_key": key}
        async with served(read_settings(data=tmp_path, model=model, **at)) as (app, client):
            conversation = await client.conversation()
            for text in (LONG, "And then?", "And now?"):
                packets = await client.send(conversation, text)
                assert packets[-1]["status"] == "finished"
                await app.sessions.wait_until_idle(conversation)
                why = await client.post(f"/conversations/{conversation}/commands", {"text": "/why"})
                assert (why["data"]["cause"], why["data"]["lost"]) == ("counters", 0)
                assert said in why["answer"]
                assert " -" not in why["answer"]
            status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
            sessions = await client.get(f"/conversations/{conversation}/sessions")
    assert len(sessions["data"]) == 1
    assert "Context about" in status["answer"]
    assert status["data"]["cost"] > 0
