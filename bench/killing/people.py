"""What users send while servers die, and what they know of it: only what they saw."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2
import msgspec

from lamella.server.testing import ServerClient

ONE, TWO, THREE = "claude-opus-4-8", "claude-haiku-5-5", "claude-sonnet-5-5"
CHOICES = ((), (), (ONE, TWO), (ONE, TWO, THREE))
"""Models that a message names; none is the conversation's own."""


@dataclass(slots=True)
class Sent:
    """A message; its `text` is in no other. `known`: its place was acknowledged; `ended`: the end of its turn came."""

    key: str
    conversation: str
    text: str
    models: tuple[str, ...]
    known: bool = False
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first packet, and when the server died before that."""
    ended: str = ""
    queued_id: str = ""
    turn_id: str = ""
    said: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any]:
        """What is posted."""
        return {"text": self.text} | ({"models": list(self.models)} if self.models else {})


def messages(random: Random, name: str, conversation: str) -> list[Sent]:
    """One message of a conversation, and now and then a second that has to wait behind it."""
    count = 2 if random.random() < 0.3 else 1
    made = []
    for number in range(count):
        key = f"{name}-{number}"
        made.append(Sent(key, conversation, f"Question {key}.", random.choice(CHOICES)))
    return made


class Hearing:
    """Counts what all of them hear; `enough` is set when it is as much as was asked for, or when all is said."""

    def __init__(self, packets: int) -> None:
        self._left = packets
        self.enough = asyncio.Event()
        self.heard()

    def heard(self) -> None:
        """One more packet."""
        self._left -= 1
        if self._left < 0:
            self.enough.set()


async def send(client: ServerClient, sent: Sent, hearing: Hearing | None = None) -> None:
    """Send it and listen, until its turn ends or the server dies."""
    path = f"/api/v1/conversations/{sent.conversation}/turns"
    try:
        async with client.http.stream(
            "POST", path, json=sent.body, headers={"Idempotency-Key": sent.key}, timeout=60
        ) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    _hear(sent, msgspec.json.decode(line[6:]))
                    if hearing is not None:
                        hearing.heard()
    except httpx2.HTTPError:
        return  # it died: whoever sent this knows no more
    finally:
        sent.placed.set()


def _hear(sent: Sent, packet: dict[str, Any]) -> None:
    sent.known = True
    sent.placed.set()
    if packet["type"] == "turn.queued":
        sent.queued_id = packet["message_id"]
        return
    sent.turn_id = packet["turn_id"]
    sent.numbers.append(packet["n"])
    if packet["type"] == "text.delta" and packet["model_index"] == 0:
        sent.said.append(packet["text"])
    if packet["type"] == "turn.finished":
        sent.ended = packet["status"]


async def speak(client: ServerClient, all_sent: list[list[Sent]], hearing: Hearing) -> None:
    """Everybody at once; a second message of a conversation follows when the first has its place."""

    async def one(conversation: list[Sent]) -> None:
        async with asyncio.TaskGroup() as group:
            for sent in conversation:
                group.create_task(send(client, sent, hearing))
                await sent.placed.wait()

    await asyncio.gather(*(one(conversation) for conversation in all_sent))
    hearing.enough.set()
