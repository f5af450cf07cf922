"""`/why` after “Answer again”: the window was sent before, so nothing says that it is the first of its conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from .stage import Playback, staged

pytestmark = pytest.mark.anyio

LONG = "The tide turns twice a day, and the harbour with it. " * 60


async def why(stage: Playback, conversation: str) -> str:
    answer = await stage.client.post(f"/conversations/{conversation}/commands", {"text": "/why"})
    request = await stage.client.get(f"/requests/{answer['data']['request_id']}/why")
    assert request["text"] == answer["answer"]
    return str(answer["answer"])


async def test_a_first_message_that_is_answered_again_is_compared_with_the_answer_before(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    first = (await stage.turn(conversation, LONG, {"text": "Yes."}))[0]["turn_id"]
    assert "It is the first request of its conversation" in await why(stage, conversation)
    for _ in range(2):
        await stage.turn(conversation, "", {"text": "Also yes."}, regenerate=first)
        assert (await why(stage, conversation)).endswith("All that was cached was read.")


async def test_it_is_after_other_turns_too(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    first = (await stage.turn(conversation, LONG, {"text": "Yes."}))[0]["turn_id"]
    for text in ("And then?", "And now?"):
        await stage.turn(conversation, text, {"text": "No."})
    await stage.turn(conversation, "", {"text": "Also yes."}, regenerate=first)
    assert (await why(stage, conversation)).endswith("All that was cached was read.")


async def test_another_model_has_another_cache(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path) as stage:
        conversation = await stage.client.conversation()
        first = (await stage.turn(conversation, LONG, {"text": "Yes."}))[0]["turn_id"]
        await stage.turn(conversation, "", {"text": "Also yes."}, regenerate=first, models=["claude-sonnet-5-5"])
        said = await why(stage, conversation)
        assert "he model was changed from claude-opus-4-8 to claude-sonnet-5-5, which has another cache" in said


async def test_a_first_message_that_is_edited_says_so(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.turn(conversation, LONG, {"text": "Yes."})
    await stage.turn(conversation, f"No. {LONG}", {"text": "No."}, parent_message_id=None)
    assert (await why(stage, conversation)).endswith("an earlier message was edited.")
