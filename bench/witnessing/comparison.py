"""Sends the same prompts to an engine and to the simulator in token mode, and compares what each has read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

import httpx2

from lamella_simulator.testing import EXACT, InProcess
from witnessing.engine import read_by
from witnessing.model import OVERHEAD, TinyModel
from witnessing.prompts import Message

TOLERANCE = 0.01
LEAST = 200
"""Tokens read, below which two of them are not yet 1 %: where an engine starts anew it shares a few by chance."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Tokens of one request: of its prompt, and read by each."""

    prompt: int
    engine: int
    simulator: int

    @property
    def difference(self) -> float:
        """As a share of what the engine has read; a token or two of an almost empty cache are none."""
        return abs(self.engine - self.simulator) / max(LEAST, self.engine)


def in_token_mode(model: TinyModel) -> InProcess:
    """A simulator that caches as the engine does, with the vocabulary of its model."""
    tokenizer = str(model.tokenizer)
    return InProcess(replace(EXACT, engine="tokens", engine_tokenizer=tokenizer, message_overhead=OVERHEAD))


async def compared(
    client: httpx2.Client, simulator: InProcess, prompts: Iterable[list[Message]]
) -> AsyncIterator[Compared]:
    """Each prompt through both, in order."""
    for messages in prompts:
        read, prompt = read_by(client, messages)
        answer = await simulator.chat({"messages": messages, "max_completion_tokens": 1})
        yield Compared(prompt, read, answer.usage["prompt_tokens_details"]["cached_tokens"])
