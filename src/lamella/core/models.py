"""What is known of a model: window, prices, cache rules, thinking rules (the data is `llm/models.json`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lamella.core.tokens import Usage


class Thinking(StrEnum):
    """How a model is asked to think."""

    NONE = "none"
    BUDGET = "budget"
    ADAPTIVE = "adaptive"
    ALWAYS = "always"


class Markers(StrEnum):
    """Which cache markers a model's provider takes."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; read and write as multiples of `input` (PROVIDERS 1.3, 2).

    Above `tier_above` prompt tokens every rate of the request is multiplied by `tier_factor`.
    """

    input: float
    output: float
    read: float
    write_5m: float
    write_1h: float
    tier_above: int | None = None
    tier_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One row of the model table. Sizes in tokens.

    `binds_thinking`: returned thinking is refused when anything before it changed (PROVIDERS 1.5).
    `known` is False for a name that the table does not have: its facts are cautious defaults.
    """

    name: str
    provider: str
    window: int
    max_output: int
    min_cacheable: int
    price: Price
    markers: Markers
    thinking: Thinking = Thinking.NONE
    binds_thinking: bool = False
    vision: bool = False
    token_factor: float = 1.0
    known: bool = True

    def cost(self, usage: Usage) -> float:
        """US dollars of one request."""
        price = self.price
        tier = price.tier_factor if price.tier_above and usage.input > price.tier_above else 1.0
        units = (
            usage.fresh
            + usage.cache_read * price.read
            + usage.cache_write_5m * price.write_5m
            + usage.cache_write_1h * price.write_1h
        )
        return tier * (units * price.input + usage.output * price.output) / 1_000_000
