"""`send`: one way for every message, and its window is assembled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import App, open_app
from lamella.app.conversations import NewConversation
from lamella.chat import Message, OutgoingMessage, WaitPolicy
from lamella.chat.dynamic_context import Blocks, BlockScope
from lamella.core.prompt import Prompt, Wired
from lamella.core.records import Notice
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


class CountingModel(ScriptedModel):
    """Counts the windows that are wired for it."""

    wired = 0

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        self.wired += 1
        return super().wire(prompt, previous)


class Weather:
    """A deployment's own block."""

    name, order = "weather", 0

    async def block(self, scope: BlockScope) -> str | None:
        return f"It rains on {scope.identity.name}."


async def answered(app: App, conversation_id: str, text: str) -> None:
    asked = OutgoingMessage(Message(text), WaitPolicy(debounce=0))
    done = await app.chat.sender.send(LOCAL_IDENTITY, conversation_id, asked)
    async for _ in await app.chat.packets(LOCAL_IDENTITY.caller, done):
        pass


async def test_the_window_of_a_message_is_assembled_and_wired_once(tmp_path: Path) -> None:
    """What is admitted is what is sent: also of a later message, and with dynamic context."""
    model = CountingModel([saying("Yes."), saying("No."), saying("Perhaps.")])
    settings = read_settings(data=tmp_path, titles=False, recall="off")
    async with open_app(settings, models=ScriptedModels(model), blocks=Blocks([Weather()])) as app:
        conversation = await app.conversations.create(LOCAL_IDENTITY.caller, NewConversation())
        for number, text in enumerate(("Is it wet?", "And dry?", "And now?"), start=1):
            await answered(app, conversation.id, text)
            assert (model.wired, len(model.requests)) == (number, number)
    assert "It rains on Local user." in str([block.value for block in model.requests[-1].blocks])


async def test_with_a_file_the_window_is_assembled_again_with_its_text(tmp_path: Path) -> None:
    """Whether it fits is seen before the turn is stored, and the file is numbered with it: twice is what that takes."""
    model = CountingModel([saying("Yes.")])
    async with served(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as (_, client):
        await with_file(client)
    assert (model.wired, len(model.requests)) == (2, 1)
    assert "Twice a day." in str([block.value for block in model.requests[0].blocks])


async def with_file(client: ServerClient) -> None:
    file = await client.upload("tides.txt", b"Twice a day.")
    await client.send(await client.conversation(), "How often?", file_ids=[file["id"]])


async def test_a_slash_is_a_command_unless_the_message_is_literal(tmp_path: Path) -> None:
    model = ScriptedModel([saying("It is five.")])
    async with open_app(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as app:
        conversation = await app.conversations.create(LOCAL_IDENTITY.caller, NewConversation())
        send = app.chat.sender.send
        told = await send(LOCAL_IDENTITY, conversation.id, OutgoingMessage(Message("/status")))
        assert isinstance(told, Notice)
        assert model.requests == []
        turn_id = await send(LOCAL_IDENTITY, conversation.id, OutgoingMessage(Message("/status"), is_literal=True))
        assert isinstance(turn_id, str)
        async for _ in app.packets(turn_id):
            pass
    assert "/status" in str([block.value for block in model.requests[0].blocks])
