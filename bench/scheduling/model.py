"""The model of a schedule: it answers a question by its number, and a summary names each question that it was shown."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderOverloaded
from lamella.core.json import encode
from lamella.core.messages import StopReason
from lamella.core.prompt import WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, ScriptedModel
from scheduling.loop import Lanes

QUESTION = re.compile(r"\bQ\d+\b")
SUMMARY = re.compile(r"Summary (\d+):")
PURPOSE = "x-purpose"


@dataclass(eq=False, slots=True)
class Asked:
    """A request as the model saw it: the questions in its window in order, and how often the conversation had gone to
    another session by then."""

    purpose: str
    questions: list[str]
    changes: int
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a summary is none, and how often the summariser is passed over for somebody else."""

    failing: float = 0.0
    empty: float = 0.0
    slow: float = 0.0


@dataclass(slots=True)
class Witness:
    """What was asked, through crashes. `changes` counts how often the conversation went to another session."""

    changes: Callable[[], int]
    asked: list[Asked] = field(default_factory=list)


class ScheduledModel(ScriptedModel):
    """Each delta is an operation."""

    def __init__(self, lanes: Lanes, witness: Witness, faults: Faults) -> None:
        super().__init__(facts=FACTS)
        self._lanes = lanes
        self._witness = witness
        self._faults = faults

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        purpose = headers[PURPOSE]
        texts = [str(block.value.get("text", "")) for block in request.blocks if block.level == "messages"]
        seen = [name for text in texts for name in QUESTION.findall(text)]
        asked = Asked(purpose, seen, self._witness.changes())
        self._witness.asked.append(asked)
        number = len(self._witness.asked)
        if purpose != "chat":
            self._lanes.slow[asked] = self._faults.slow
        await self._lanes.step(asked, f"{purpose} {number} opens")
        yield deltas.Opened(f"scheduled_{number}", encode(self.body(request)))
        asked.answer = self._answer(purpose, number, texts, seen)
        for piece in (asked.answer[:8], asked.answer[8:]):
            await self._lanes.step(asked, f"{purpose} {number} says {piece[:20]}")
            if piece:
                yield deltas.TextDelta(0, piece)
        size = sum(len(block.data) for block in request.blocks) // 4
        await self._lanes.step(asked, f"{purpose} {number} ends")
        yield deltas.UsageReported(Usage(input=size, output=10))
        yield deltas.Closed(StopReason.END_TURN)

    def _answer(self, purpose: str, number: int, texts: list[str], seen: list[str]) -> str:
        if purpose == "chat":
            newest = next(names for text in reversed(texts) if (names := QUESTION.findall(text)))
            return f"An answer to {', '.join(newest)}."
        drawn = self._lanes.random.random()
        if drawn < self._faults.failing:
            raise ProviderOverloaded("too much to do")
        if drawn < self._faults.failing + self._faults.empty:
            return ""
        return f"Summary {number}: " + " ".join(dict.fromkeys(seen))
