"""Dynamic context from a deployment's providers: in the order of their names, with every message, never left out."""

from __future__ import annotations

import asyncio
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lamella.chat.dynamic_context import Blocks, BlockScope, DynamicContextProvider
from lamella.core.errors import ConfigurationError, LamellaError
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


class Says:
    """A provider that always says the same."""

    def __init__(self, name: str, block: str | None, order: int = 0) -> None:
        self.name = name
        self.order = order
        self._block = block

    async def block(self, scope: BlockScope) -> str | None:
        return self._block


class Counts:
    """A provider whose block is another one every time."""

    name, order = "count", 0

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def block(self, scope: BlockScope) -> str | None:
        self.asked.append(f"{scope.caller.user_id} {scope.conversation.model} {scope.text}")
        return f"Block {len(self.asked)}."


class Breaks:
    """A provider with a bug."""

    name, order = "permissions", 0

    async def block(self, scope: BlockScope) -> str | None:
        raise KeyError("secret detail")


def texts(model: ScriptedModel, number: int) -> list[Any]:
    return [block.value.get("text") for block in model.requests[number].blocks]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_blocks_stand_in_the_order_of_their_names(tmp_path: Path, order: tuple[int, ...]) -> None:
    providers = [Says("a-user", "The user is Ann."), Says("b-nothing", " "), Says("c-rights", "She may read.")]
    model = ScriptedModel([saying("Yes.")])
    blocks = Blocks(providers[index] for index in order)
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), blocks=blocks) as (_, client):
        conversation = await client.conversation()
        await client.send(conversation, "May I?", dynamic_context=["It rains."])
    assert "The user is Ann.\n\nShe may read.\n\nIt rains." in texts(model, 0)


async def test_a_provider_knows_for_whom_and_a_preview_asks_it_too(tmp_path: Path) -> None:
    provider, model = Counts(), ScriptedModel([saying("Yes.")])
    parts: dict[str, Any] = {"models": ScriptedModels(model), "blocks": Blocks([provider])}
    async with served(read_settings(data=tmp_path), **parts) as (_, client):
        conversation = await client.conversation()
        asked = {"conversation_id": conversation, "text": "May I?"}
        shown = (await client.call("POST", "/context/preview", json=asked)).json()
        assert [segment["letters"] for segment in shown["segments"]][-2:] == ["U1", "D"]
        await client.send(conversation, "May I?")
    assert provider.asked == ["user_local scripted May I?"] * 2
    assert "Block 2." in texts(model, 0)


async def test_a_message_that_is_sent_again_is_the_same_whatever_a_provider_says_now(tmp_path: Path) -> None:
    provider, model = Counts(), ScriptedModel([saying("Yes.")])
    parts: dict[str, Any] = {"models": ScriptedModels(model), "blocks": Blocks([provider])}
    async with served(read_settings(data=tmp_path), **parts) as (_, client):
        path = f"/conversations/{await client.conversation()}/turns"
        headers = {"Idempotency-Key": "k1", "Accept": "application/json"}
        first = await client.call("POST", path, json={"text": "May I?"}, headers=headers)
        second = await client.call("POST", path, json={"text": "May I?"}, headers=headers)
    assert first.json() == second.json()
    assert len(model.requests) == 1


async def test_a_provider_that_fails_sends_nothing_and_tells_nothing_of_its_inside(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Yes.")])
    parts: dict[str, Any] = {"models": ScriptedModels(model), "blocks": Blocks([Breaks()])}
    async with served(read_settings(data=tmp_path), **parts) as (_, client):
        conversation = await client.conversation()
        with pytest.raises(LamellaError) as caught:
            await client.send(conversation, "May I?")
        error = caught.value
        assert error.message == "The dynamic context “permissions” could not be made; the message was not sent."
        assert "secret" not in str(error.as_dict())
        assert (await client.get(f"/conversations/{conversation}/turns"))["data"] == []
    assert model.requests == []


class Sleeps:
    """A provider that waits for something that never comes."""

    name, order = "directory", 0

    async def block(self, scope: BlockScope) -> str | None:
        await asyncio.Event().wait()
        return "Never."


class Counted(Counts):
    """A provider that gives what is no text."""

    async def block(self, scope: BlockScope) -> str | None:
        return 7  # type: ignore[return-value]  # as code without types does


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        (Sleeps(), "The dynamic context “directory” was not there after 0.01 seconds; the message was not sent."),
        (Counted(), "The dynamic context “count” could not be made; the message was not sent."),
        (Says("half", "\ud800"), "The dynamic context “half” could not be made; the message was not sent."),
    ],
)
async def test_a_provider_that_is_late_or_gives_no_text_sends_nothing(
    tmp_path: Path, provider: DynamicContextProvider, told: str
) -> None:
    model = ScriptedModel([saying("Yes.")])
    parts: dict[str, Any] = {"models": ScriptedModels(model), "blocks": Blocks([provider, Says("x", "X.")], 0.01)}
    async with served(read_settings(data=tmp_path), **parts) as (_, client):
        body = {"text": "May I?"}
        answer = await client.call("POST", f"/conversations/{await client.conversation()}/turns", json=body)
    assert answer.status_code == 500
    assert (answer.json()["error"]["code"], answer.json()["error"]["message"]) == ("dynamic_context_failed", told)
    assert model.requests == []


async def test_an_order_goes_before_a_name_and_a_map_says_who_wrote_what(tmp_path: Path) -> None:
    blocks = Blocks([Says("a", "Last.", 10), Says("z", "First.", -10), Says("m", None)])
    parts: dict[str, Any] = {"models": ScriptedModels(ScriptedModel()), "blocks": blocks}
    async with served(read_settings(data=tmp_path), **parts) as (_, client):
        asked = {"conversation_id": await client.conversation(), "text": "Hi", "dynamic_context": ["It rains."]}
        shown = await client.post("/context/preview", asked)
    assert [note["text"] for note in shown["notes"]] == [
        "from the provider z",
        "from the provider a",
        "sent along with the message",
    ]
    assert shown["segments"][-1]["text_preview"] == "First. Last. It rains."


def test_two_providers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two providers of dynamic context named “x”"):
        Blocks([Says("x", "1"), Says("x", "2")])
