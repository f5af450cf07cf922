"""Every wire's ways to give no answer, or not a whole one: what the turn says, and that the conversation goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from lamella.core.json import Json

from .stage import MODEL, Playback, only, staged, text_of, types

pytestmark = pytest.mark.anyio

WIRES = {"anthropic": (MODEL, "responses"), "responses": ("gpt-6.1-sol", "responses"), "chat": ("gpt-6.1-sol", "chat")}
ANSWER = "It opens at nine, and it closes at eight."
READ: Json = {"id": "c1", "name": "read_file", "arguments": {"file_id": "file_of_the_house", "query": "hours"}}
FAILED = ["error", "run.finished", "turn.finished"]
PARTIAL = ["answer.partial", "run.finished", "turn.finished"]
WHOLE = ["usage", "run.finished", "turn.finished"]

CASES: dict[str, tuple[Json, int, list[str], str, str]] = {
    # fault, requests, last packets, how the run ended, what the error or the note says
    "nothing": ({"kind": "empty"}, 2, WHOLE, "end_turn", ""),
    "nothing twice": ({"kind": "empty", "times": 2}, 2, FAILED, "error", "without saying anything"),
    "filtered at once": ({"kind": "content_filter"}, 1, FAILED, "error", "refused to answer"),
    "filtered later": ({"kind": "content_filter", "when": 8}, 1, PARTIAL, "refusal", "refused to answer, or to go on"),
    "refused later": ({"kind": "refusal", "when": 8}, 1, PARTIAL, "refusal", "refused to answer, or to go on"),
    "cut off": ({"kind": "max_tokens", "when": 8}, 1, PARTIAL, "max_tokens", "The answer is not whole"),
    "cut off at once": ({"kind": "max_tokens", "when": 0}, 1, FAILED, "error", "came to no answer"),
}


@pytest.mark.parametrize("wire", WIRES)
async def test_how_a_turn_ends(provider: str, tmp_path: Path, wire: str) -> None:
    model, api = WIRES[wire]
    openai = {"openai_base_url": f"{provider}/v1", "openai_api_key": SecretStr("endings"), "openai_api": api}
    async with staged(provider, tmp_path, model=model, **openai) as stage:
        for name, (fault, requests, last, status, words) in CASES.items():
            conversation = await stage.client.conversation()
            packets = await stage.turn(conversation, "When?", {"text": ANSWER, "fault": fault})
            assert types(packets)[-3:] == last, name
            assert only(packets, "run.finished")["status"] == status, name
            assert types(packets).count("request.started") == requests, name
            if last is FAILED:
                error = only(packets, "error")["error"]
                assert (words in error["message"], bool(error["hint"])) == (True, True), name
            elif last is PARTIAL:
                note = only(packets, "answer.partial")
                assert (words in note["message"], bool(note["hint"])) == (True, True), name
                assert text_of(packets).startswith(ANSWER[:8]), name
            else:
                assert text_of(packets) == ANSWER, name
            [run] = (await stage.client.get(f"/turns/{packets[0]['turn_id']}"))["runs"]
            assert run["answer"] == text_of(packets), name
            assert run["stop_reason"] == (None if last is FAILED else status), name
            assert text_of(await stage.turn(conversation, "And now?", {"text": "Better."})) == "Better.", name
        await cut_call(stage)


async def cut_call(stage: Playback) -> None:
    """The limit of the output in the middle of a call: told to the model, which goes on."""
    reply: Json = {"text": "Let me read.", "tool_calls": [READ], "fault": {"kind": "truncated_tool_json", "when": 12}}
    packets = await stage.turn(await stage.client.conversation(), "When?", reply, {"text": ANSWER})
    result = only(packets, "tool.result")
    assert (result["is_error"], "smaller pieces" in result["content"]) == (True, True)
    assert text_of(packets) == f"Let me read.{ANSWER}"
    assert types(packets)[-3:] == WHOLE


async def test_a_refusal_says_why_where_the_provider_does(stage: Playback) -> None:
    packets = await stage.turn(
        await stage.client.conversation(), "How?", {"text": "Never said.", "fault": {"kind": "refusal"}}
    )
    error = only(packets, "error")["error"]
    assert error["message"].startswith(f"{MODEL} refused to answer: This request was declined")
    assert (error["type"], error["code"]) == ("ProviderRefusedAnswer", "provider_error")
