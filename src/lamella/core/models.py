"""What is known of a model: window, prices, cache rules, thinking rules (the data is `llm/models.json`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from lamella.core.tokens import Usage
from lamella.core.ttl import Ttl


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


class WireProtocol(StrEnum):
    """What a model is spoken to in; the value is stored with each request."""

    MESSAGES = "anthropic"
    CHAT = "openai"
    RESPONSES = "responses"


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
class ImageRule:
    """How a provider counts a picture: by the squares of `patch` pixels that cover it.

    A larger one is scaled down first, to `longest_edge` pixels and to at most `most` squares.
    """

    patch: int
    longest_edge: int
    most: int
    tokens_per_patch: float = 1.0

    def tokens(self, width: int, height: int) -> int:
        """The tokens of a picture of this size in pixels."""
        longest = max(width, height, 1)
        fits, over = 0, min(longest, self.longest_edge) + 1
        while over - fits > 1:
            edge = (fits + over) // 2
            if self._patches(width * edge / longest, height * edge / longest) <= self.most:
                fits = edge
            else:
                over = edge
        return ceil(self._patches(width * fits / longest, height * fits / longest) * self.tokens_per_patch)

    def _patches(self, width: float, height: float) -> int:
        return max(1, ceil(width / self.patch)) * max(1, ceil(height / self.patch))


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One row of the model table. Sizes in tokens.

    `binds_thinking`: returned thinking is refused when anything before it changed (PROVIDERS 1.5).
    `system_messages`: it takes messages of role `system` behind the first user message; `clears_system_messages`: such
    a message may ask to be hidden from the next user message on, and thinking made behind it stays valid.
    `forced_tool_choice`: a request may say that a tool must be called; that none may be called is always allowed.
    `tool_prompt`: what the provider adds to a prompt with tools, in its own tokens.
    `efforts` are the levels of thinking that it takes, where it takes levels; `default_effort` is the one that is the
    same as none given.
    `images` says how pictures are counted; None for a model that sees none.
    `lives` are those that the provider sells for what is marked, the shortest first; of a provider without markers, how
    long it keeps an idle prefix at least.
    `protocol` is the best of those that its vendor serves it by.
    `diagnoses`: its provider says why a cache was missed, where it is asked (PROVIDERS 1.4, 2).
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
    images: ImageRule | None = None
    system_messages: bool = False
    clears_system_messages: bool = False
    forced_tool_choice: bool = True
    tool_prompt: int = 0
    token_factor: float = 1.0
    efforts: tuple[str, ...] = ("low", "medium", "high")
    default_effort: str = "high"
    protocol: WireProtocol = WireProtocol.MESSAGES
    lives: tuple[Ttl, ...] = (Ttl.FIVE_MINUTES,)
    diagnoses: bool = False
    known: bool = True

    @property
    def caution(self) -> str | None:
        """What whoever uses the model should know that the table does not have; None where it has it."""
        if self.known:
            return None
        price = f"${self.price.input:g} for a million tokens" if self.price.input else "no price"
        return (
            f"The model table does not know “{self.name}”: it is taken to have a window of {self.window} tokens and "
            f"{price}. A file that LAMELLA_MODELS names says what it really has."
        )

    @property
    def write(self) -> float:
        """What the shortest life costs to write, as a multiple of the price of input."""
        return self.write_price(self.lives[0])

    def write_price(self, life: Ttl) -> float:
        """What this life costs to write, as a multiple of the price of input."""
        return self.price.write_1h if life is Ttl.ONE_HOUR else self.price.write_5m

    def cost(self, usage: Usage) -> float:
        """US dollars of one request."""
        return self.input_cost(usage) + self._tier(usage) * usage.output * self.price.output / 1_000_000

    def input_cost(self, usage: Usage) -> float:
        """US dollars of what one request read, wrote and brought anew: without its output. Never below 0, also where a
        provider says that more was read than was sent."""
        price = self.price
        units = (
            max(0, usage.fresh)
            + usage.cache_read * price.read
            + usage.cache_write_5m * price.write_5m
            + usage.cache_write_1h * price.write_1h
        )
        return self._tier(usage) * units * price.input / 1_000_000

    def _tier(self, usage: Usage) -> float:
        """What a long prompt makes of every price."""
        return self.price.tier_factor if self.price.tier_above and usage.input > self.price.tier_above else 1.0
