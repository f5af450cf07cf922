"""Clients that follow through the balancer and go on from their packet, whatever becomes of the replicas."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2
import msgspec

ONE, TWO, THREE = "claude-opus-4-8", "claude-haiku-5-5", "claude-sonnet-5-5"
CHOICES = ((), (), (), (ONE, TWO), (ONE, TWO, THREE))
"""Models that a message names; none is the conversation's own."""

PAUSE = 0.05
"""Seconds before a client asks again."""

GIVE_UP = 60.0
"""Seconds without a word after which a client gives up, and the message is lost or stuck."""


@dataclass(slots=True)
class Heard:
    """What a client knows of a message. Its text is in no other. Times are of the client's monotonic clock."""

    key: str
    conversation: str
    text: str
    models: tuple[str, ...] = ()
    command: bool = False
    sent_at: float = 0.0
    turn_id: str = ""
    queued_id: str = ""
    packets: list[tuple[int, str, float]] = field(default_factory=list)
    """Number, type and time of each."""
    said: str = ""
    ended: str = ""
    connections: int = 0
    silence: float = 0.0
    """The longest time without a word while it was not ended, or waited behind another turn."""
    refused: str = ""
    told: list[str] = field(default_factory=list)
    """Answers that ask to send again: the status, and what went wrong."""

    @property
    def numbers(self) -> list[int]:
        """Of all packets that were heard."""
        return [number for number, _, _ in self.packets]

    @property
    def text_times(self) -> list[tuple[int, float]]:
        """Number and time of each piece of an answer."""
        return [(number, at) for number, kind, at in self.packets if kind == "text.delta"]


class Speaker:
    """Sends through the balancer, on a new connection if one breaks."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def conversation(self) -> str:
        """The id of a new one."""
        while True:
            try:
                answer = await self._http.post("/api/v1/conversations", json={})
                if answer.status_code == 201 or answer.status_code == 200:
                    return str(answer.json()["id"])
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(PAUSE)

    async def say(self, one: Heard, placed: asyncio.Event | None = None) -> None:
        """Send it and follow until its turn ends; sends again, with its key, what nobody acknowledged."""
        one.sent_at = last = time.monotonic()
        while not one.ended and not one.refused:
            heard = len(one.packets) + bool(one.queued_id)
            try:
                async for _ in self._once(one):
                    now = time.monotonic()
                    if not one.queued_id or one.turn_id:
                        one.silence = max(one.silence, now - last)
                    last = now
                    if placed is not None:
                        placed.set()
            except httpx2.HTTPError:
                pass
            if len(one.packets) + bool(one.queued_id) == heard:
                await asyncio.sleep(PAUSE)
            if time.monotonic() - last > GIVE_UP:
                one.silence, one.refused = GIVE_UP, "gave up"
        if placed is not None:
            placed.set()

    async def _once(self, one: Heard) -> Any:
        one.connections += 1
        async with self._request(one) as answer:
            if answer.status_code in (409, 500, 502, 503, 504) or (answer.status_code == 404 and one.turn_id):
                await answer.aread()
                one.told.append(f"{answer.status_code} {answer.text}")
                return
            if answer.is_error:
                await answer.aread()
                one.refused = answer.text
                return
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self._take(one, msgspec.json.decode(line[6:]))
                    yield None

    def _request(self, one: Heard) -> Any:
        if one.turn_id:
            after = one.numbers[-1] if one.packets else 0
            return self._http.stream("GET", f"/api/v1/turns/{one.turn_id}/events?after={after}")
        path = f"/api/v1/conversations/{one.conversation}"
        if one.queued_id:
            return self._http.stream("GET", f"{path}/queue/{one.queued_id}/events")
        body = {"text": one.text} | ({"models": list(one.models)} if one.models else {})
        return self._http.stream("POST", f"{path}/turns", json=body, headers={"Idempotency-Key": one.key})

    def _take(self, one: Heard, packet: dict[str, Any]) -> None:
        kind = packet["type"]
        if kind == "turn.queued":
            one.queued_id = packet["message_id"]
        elif kind == "command":
            one.ended = "command"
        elif kind == "error" and not packet.get("turn_id"):
            if packet["error"]["code"] != "overloaded":
                one.ended = "command" if one.command else "failed"
        elif packet.get("turn_id"):
            one.turn_id = packet["turn_id"]
            one.packets.append((packet["n"], kind, time.monotonic()))
            if kind == "text.delta" and packet["model_index"] == 0:
                one.said += packet["text"]
            if kind == "turn.finished":
                one.ended = packet["status"]


def messages(random: Random, name: str, conversation: str) -> list[Heard]:
    """What is said at once in a conversation: one message, at times a second that waits, at times a compaction."""
    made = [Heard(f"{name}-{n}", conversation, f"Question {name}-{n}.") for n in range(1 + (random.random() < 0.3))]
    for one in made:
        one.models = random.choice(CHOICES)
    if random.random() < 0.1:
        made.append(Heard(f"{name}-c", conversation, "/compact", command=True))
    return made
