"""A model that answers whatever it is asked, counts tokens its own way, and refuses what is larger than its window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lamella.core.counting import ApproximateCounter
from lamella.core.errors import ProviderContextOverflow
from lamella.core.prompt import WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, ReplayEvent, ScriptedModel, saying

FACT = re.compile(r"FACT-\d+ is [a-z]+-\d+")
ID = re.compile(r"\bmsg_[0-9a-z]+")
ORDERS = ("Summarise this conversation now.", "Make one summary of them now.")


def keeping(asked: str) -> str:
    """The summary of somebody who keeps the facts that are shown, and nothing else."""
    facts = dict.fromkeys(FACT.findall(asked))
    return "# Facts\n" + "\n".join(f"- {fact}" for fact in facts) if facts else "# Facts\n- Nothing was said."


class Provider(ScriptedModel):
    """By its script, while that lasts; then "Yes." to a question, and `summary` of what it is shown to a summariser.

    `factor` is what it counts for a token of ours, in `window`, output left aside; a refusal `tells` both, or nothing.
    `refused` are the sizes, in its own tokens, of what it found too large.
    """

    def __init__(
        self,
        name: str = "scripted",
        window: int = 200_000,
        factor: float = 1.0,
        summary: Callable[[str], str] = keeping,
        *,
        tells: bool = False,
    ) -> None:
        super().__init__(facts=replace(FACTS, name=name, window=window))
        self.limit = window
        self.refused: list[int] = []
        self._factor = factor
        self._summary = summary
        self._tells = tells

    def size(self, request: WireRequest) -> int:
        """The tokens of a request as it counts them."""
        return int(ApproximateCounter().count("\n".join(shown(request))) * self._factor)

    @property
    def summaries(self) -> list[WireRequest]:
        """The requests for a summary that it has taken."""
        return [request for request in self.requests if is_order(request) and self.size(request) <= self.limit]

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        if self._steps:
            return super()._next(request)
        size = self.size(request)
        if size > self.limit:
            self.refused.append(size)
            error = ProviderContextOverflow("prompt is too long")
            if self._tells:
                error.counted, error.limit = size, self.limit
            return iter([error])
        said = self._summary("\n".join(shown(request))) if is_order(request) else "Yes."
        return iter(saying(said, usage=Usage(input=size, output=int(len(said) / 4 * self._factor))))


def shown(request: WireRequest) -> list[str]:
    """All texts of a request, system prompt and tools as they are written."""
    found = []
    for block in request.blocks:
        value = block.value
        content = value.get("content", value.get("text"))
        found.append(content if isinstance(content, str) else str(value))
    return found


def is_order(request: WireRequest) -> bool:
    """Whether a request asks for a summary."""
    return any(order in shown(request)[-1] for order in ORDERS)


def sentences(number: int, tokens: int) -> str:
    """A text of about so many local tokens with one fact in its midst."""
    half = f"Line {number}: they spoke of ships and harbours, of tides and of winds. " * (tokens // 32)
    return f"{half}FACT-{number} is harbour-{number * 37}. {half}"


def facts(numbers: Sequence[int]) -> list[str]:
    """The facts that those texts hold."""
    return [f"FACT-{number} is harbour-{number * 37}" for number in numbers]
