"""A provider that refuses, fails or is not there: a visible error with what to do, and a conversation that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from lamella.core.json import Json
from lamella.server.testing import Object

from .stage import Playback, only, staged, text_of, types

pytestmark = pytest.mark.anyio

END = ["error", "run.finished", "turn.finished"]


def failed(packets: list[Object], code: str) -> Object:
    """The error object of a turn that failed in the one way that turns fail."""
    assert types(packets)[-3:] == END
    assert only(packets, "run.finished")["status"] == "error"
    assert only(packets, "turn.finished")["status"] == "failed"
    error: Object = only(packets, "error")["error"]
    assert (error["code"], bool(error["message"]), bool(error["hint"])) == (code, True, True)
    assert "Traceback" not in str(error)
    return error


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ({"kind": "429", "retry_after": 7}, "rate_limit_exceeded", "Try again in 7 s."),
        ({"kind": "500"}, "provider_error", "Try again in a moment."),
        ({"kind": "504"}, "provider_timeout", "Try again in a moment."),
        ({"kind": "529"}, "overloaded", "Try again in a moment."),
        ({"kind": "drop_before"}, "provider_error", "Check the network"),
    ],
)
async def test_a_refusal_before_the_first_byte(stage: Playback, fault: Json, code: str, words: str) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"text": "Never said.", "fault": fault})
    assert words in failed(packets, code)["hint"]
    turn = await stage.client.get(f"/turns/{packets[0]['turn_id']}")
    assert (turn["status"], turn["answer"], turn["error"]["code"]) == ("failed", "", code)
    [request] = (await stage.client.get(f"/turns/{packets[0]['turn_id']}/requests"))["data"]
    assert request["error"]["code"] == code
    assert text_of(await stage.turn(conversation, "And now?", {"text": "Better."})) == "Better."


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "stream_error", "when": 12}, "overloaded"),
        ({"kind": "drop_after", "when": 12}, "provider_error"),
        ({"kind": "500", "when": 12}, "provider_error"),
    ],
)
async def test_a_failure_in_the_middle_keeps_what_was_said(stage: Playback, fault: Json, code: str) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(
        conversation, "Hello?", {"text": "Half a sentence and no more.", "fault": fault, "chunk": 4}
    )
    assert "What came is kept" in failed(packets, code)["hint"]
    assert text_of(packets) == "Half a sente"
    turn = await stage.client.get(f"/turns/{packets[0]['turn_id']}")
    assert (turn["status"], turn["answer"]) == ("failed", "Half a sente")
    assert turn["usage"]["input"] > 0
    await stage.turn(conversation, "And now?", {"text": "Better."})
    messages = (await stage.seen())[-1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "provider" not in str(messages).lower()


async def test_an_answer_in_json_has_the_errors_status(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "Never said.", "fault": {"kind": "529"}})
    path = f"/conversations/{conversation}/turns"
    answer = await stage.client.call("POST", path, json={"text": "Hi"}, headers={"accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert answer.json()["turn"]["status"] == "failed"


async def test_a_key_that_is_refused(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, anthropic_api_key=SecretStr("invalid-key-of-mine")) as stage:
        packets = await stage.turn(await stage.client.conversation(), "Hello?", {"text": "Never said."})
        error = failed(packets, "provider_error")
    assert "ANTHROPIC_API_KEY" in error["hint"]
    assert "invalid-key-of-mine" not in str(packets)


async def test_a_provider_that_is_not_there(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, anthropic_base_url="http://127.0.0.1:9") as stage:
        conversation = await stage.client.conversation()
        error = failed(await stage.client.send(conversation, "Hello?"), "provider_error")
        assert "http://127.0.0.1:9" in error["message"]
        assert "base URL" in error["hint"]


async def test_a_provider_that_says_nothing_in_time(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, provider_timeout=0.3) as stage:
        reply: Json = {"text": "Too late.", "fault": {"kind": "slow", "ms": 5_000}}
        packets = await stage.turn(await stage.client.conversation(), "Hello?", reply)
        failed(packets, "provider_timeout")


async def test_a_request_is_sent_again_when_the_provider_was_busy(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, provider_retries=2) as stage:
        reply: Json = {"text": "At last.", "fault": {"kind": "529", "times": 1}}
        packets = await stage.turn(await stage.client.conversation(), "Hello?", reply)
        assert text_of(packets) == "At last."
        assert [seen["status"] for seen in await stage.seen()] == [529, 200]


async def test_a_prompt_that_the_provider_finds_too_long(provider: str, tmp_path: Path) -> None:
    """Our count said that it fits; the provider's says that it does not (law 7)."""
    async with staged(provider, tmp_path, model="claude-haiku-4-5") as stage:
        conversation = await stage.client.conversation()
        await stage.simulator.post("/_sim/settings", json={"token_factor": 400.0})
        try:
            packets = await stage.turn(conversation, "Hello? " * 300, {"text": "Never said."})
        finally:
            await stage.simulator.post("/_sim/settings", json={"token_factor": None})
        error = failed(packets, "context_length_exceeded")
        assert "larger window" in error["hint"]
        assert text_of(await stage.turn(conversation, "And now?", {"text": "Better."})) == "Better."


async def test_a_refusal_of_the_model_is_an_answer(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"text": "I would", "fault": {"kind": "refusal", "when": 7}})
    assert (only(packets, "run.finished")["status"], text_of(packets)) == ("refusal", "I would")
    assert only(packets, "turn.finished")["status"] == "finished"


async def test_an_answer_that_is_too_long_says_why_it_ends(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    reply: Json = {"text": "A long answer.", "fault": {"kind": "max_tokens", "when": 6}}
    packets = await stage.turn(conversation, "Hello?", reply)
    assert (only(packets, "run.finished")["status"], text_of(packets)) == ("max_tokens", "A long")
