"""What a process keeps of turns that have ended: nothing that grows with their number."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import pytest

from lamella.agent.citations import CitationWatch
from lamella.agent.container import StateContainer
from lamella.agent.inputs import TurnInput
from lamella.app.app import LOCAL_OWNER, App
from lamella.app.conversations import NewConversation
from lamella.chat import Mailbox, Message
from lamella.core.packets import Packet
from lamella.llm.scripted import ScriptedModel, saying
from lamella.turns.journal import MemoryBus, TurnLog

pytestmark = pytest.mark.anyio

CONVERSATIONS, TURNS = 15, 4

LOOKS = 200
"""How often it is looked, every 0.1 s, whether all that belonged to ended turns is gone."""


def living() -> Counter[str]:
    """How many objects of the engine's own classes there are, and tasks."""
    gc.collect()
    kept = (Mailbox, MemoryBus, TurnLog, TurnInput, StateContainer, CitationWatch, asyncio.Task, Packet)
    return Counter(type(item).__qualname__ for item in gc.get_objects() if isinstance(item, kept))


async def test_ended_turns_are_dropped(app: App, model: ScriptedModel) -> None:
    async def talk() -> None:
        conversation = await app.conversations.create(LOCAL_OWNER, NewConversation())
        for number in range(TURNS):
            turn_id = await app.chat.sender.begin(LOCAL_OWNER, conversation.id, Message(f"Question {number}"))
            async for _ in app.chat.stream(LOCAL_OWNER, turn_id):
                pass

    model.then(*(saying("An answer.") for _ in range(TURNS * (CONVERSATIONS + 1))))
    await talk()
    await asyncio.sleep(0.1)
    gc.collect()
    gc.freeze()  # what is here by now is neither counted nor walked again
    before = living()
    await asyncio.gather(*(talk() for _ in range(CONVERSATIONS)))
    assert len(model.requests) == TURNS * (CONVERSATIONS + 1)
    # What ends behind the last packets takes a moment, longer on a busy machine; what leaks never ends.
    for _ in range(LOOKS):
        if not living() - before:
            break
        await asyncio.sleep(0.1)
    assert living() - before == Counter()
