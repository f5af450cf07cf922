"""Facts about models (window, prices, cache and thinking rules), and thinking efforts.

The data is `llm/models.json`. An effort is `off`, a level (`low`, `high`) or a budget in tokens. Each model converts it
to its provider's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log

from lamella.core.caching import Ttl
from lamella.core.errors import InvalidRequest
from lamella.core.tokens import Usage


class Thinking(StrEnum):
    """How a model's thinking is controlled."""

    NONE = "none"
    BUDGET = "budget"
    ADAPTIVE = "adaptive"
    ALWAYS = "always"


class Markers(StrEnum):
    """The kinds of cache marker that a model's provider accepts."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    NONE = "none"


class WireProtocol(StrEnum):
    """The wires that ship; the value is stored with each request, and names the adapter in `llm/`."""

    MESSAGES = "anthropic"
    CHAT = "openai"
    RESPONSES = "responses"


SHIPPED_WIRES = frozenset(wire.value for wire in WireProtocol)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; read and write as multiples of `input`.

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

    `binds_thinking`: returned thinking is refused when anything before it changed.
    `system_messages`: it takes messages of role `system` after the first user message; `clears_system_messages`: such
    a message may ask to be hidden from the next user message on, and thinking after it stays valid.
    `forced_tool_choice`: a request may say that a tool must be called; that none may be called is always allowed.
    `tool_prompt`: what the provider adds to a prompt with tools, in its own tokens.
    `efforts` are the levels of thinking that it takes, where it takes levels; `default_effort` is the one that is the
    same as none given.
    `images` says how pictures are counted; None for a model that sees none.
    `lives` are those that the provider sells for what is marked, the shortest first; of a provider without markers, how
    long it keeps an idle prefix at least.
    `protocol` is the best wire of those that its vendor serves it by, or one that an installed package adds.
    `diagnoses`: its provider says, if asked, why its cache was missed.
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
    protocol: str = WireProtocol.MESSAGES
    lives: tuple[Ttl, ...] = (Ttl.FIVE_MINUTES,)
    diagnoses: bool = False
    known: bool = True

    @property
    def caution(self) -> str | None:
        """A warning about facts that the model table lacks; None if it has them all."""
        if self.known:
            return None
        price = f"${self.price.input:g} for a million tokens" if self.price.input else "no price"
        return (
            f"The model table does not know “{self.name}”: it is taken to have a window of {self.window} tokens and "
            f"{price}. A file named by LAMELLA_MODELS can give its real facts."
        )

    @property
    def write(self) -> float:
        """Price of writing to the cache for the shortest lifetime, as a multiple of the input price."""
        return self.write_price(self.lives[0])

    def write_price(self, ttl: Ttl) -> float:
        """Price of writing to the cache for this lifetime, as a multiple of the input price."""
        return self.price.write_1h if ttl is Ttl.ONE_HOUR else self.price.write_5m

    def cost(self, usage: Usage) -> float:
        """US dollars of one request."""
        return self.input_cost(usage) + self._tier(usage) * usage.output * self.price.output / 1_000_000

    def input_cost(self, usage: Usage) -> float:
        """Input cost of one request in US dollars: tokens read, written and fresh, without output. Never below 0, even
        if a provider reports more tokens read than sent.
        """
        price = self.price
        units = (
            max(0, usage.fresh)
            + usage.cache_read * price.read
            + usage.cache_write_5m * price.write_5m
            + usage.cache_write_1h * price.write_1h
        )
        return self._tier(usage) * units * price.input / 1_000_000

    def _tier(self, usage: Usage) -> float:
        """Factor on all prices for a long prompt."""
        return self.price.tier_factor if self.price.tier_above and usage.input > self.price.tier_above else 1.0


OFF = "off"
EFFORT_LEVELS = {"low": 1_024, "medium": 4_096, "high": 16_384}
"""Tokens of each level."""

LEAST_EFFORT = 1_024
"""Tokens of the smallest budget: providers refuse less."""

MOST_EFFORT = 1_000_000
"""Tokens above which a number is a mistake; a model's own output bounds it long before."""

EFFORT_SUBJECT = "thinking_effort"
"""The subject of a decision about the effort."""

EFFORT_CHOICES = f"off, low, medium, high or a number of tokens from {LEAST_EFFORT} to {MOST_EFFORT}"


def effort_named(text: str | int, param: str = EFFORT_SUBJECT) -> str:
    """The effort in its one spelling: `off`, a level, or the digits of a number; a level's number is the level.

    Raises `InvalidRequest` for anything else.
    """
    name = str(text).strip().lower()
    if name == OFF or name in EFFORT_LEVELS:
        return name
    if name.isascii() and name.isdigit() and len(name) <= len(str(MOST_EFFORT)) and _is_budget(int(name)):
        return effort_of(int(name))
    raise InvalidRequest(f"There is no thinking effort “{name[:40]}”.", hint=f"It is {EFFORT_CHOICES}.", param=param)


def _is_budget(tokens: int) -> bool:
    return tokens == 0 or LEAST_EFFORT <= tokens <= MOST_EFFORT


def effort_of(tokens: int) -> str:
    """The name of an effort of so many tokens."""
    if tokens == 0:
        return OFF
    return next((name for name, size in EFFORT_LEVELS.items() if size == tokens), str(tokens))


def tokens_of(effort: str) -> int:
    """The tokens of an effort in its one spelling; 0 for off."""
    return 0 if effort == OFF else EFFORT_LEVELS.get(effort) or int(effort)


@dataclass(frozen=True, slots=True)
class RequestedThinking:
    """Thinking parameters for a provider: a budget in tokens, a level, disabled, or nothing.

    `note` says how and why this differs from the chosen effort.
    """

    budget: int = 0
    level: str | None = None
    without: bool = False
    note: str = ""


def asked_thinking(facts: ModelFacts, effort: str, max_output: int) -> RequestedThinking:
    """The thinking parameters that `facts` allow for an effort. Thinking counts as output: a quarter of `max_output` is
    kept for the answer.
    """
    wanted = tokens_of(effort)
    room = max_output * 3 // 4
    match facts.thinking:
        case Thinking.NONE:
            note = f"{facts.name} takes no thinking effort" if wanted else ""
            return RequestedThinking(note=note)
        case Thinking.BUDGET:
            return _budget(facts, wanted, room)
        case Thinking.ADAPTIVE | Thinking.ALWAYS if wanted:
            return _level(facts, effort, max(1, min(wanted, room)))
        case Thinking.ADAPTIVE:
            return RequestedThinking(without=True)
        case Thinking.ALWAYS:
            return RequestedThinking(note=f"{facts.name} can't disable thinking: it decides itself how much to think")


def _budget(facts: ModelFacts, wanted: int, room: int) -> RequestedThinking:
    budget = min(wanted, room)
    if budget >= LEAST_EFFORT:
        less = f"{wanted} tokens do not fit its output: {budget} are asked for"
        return RequestedThinking(budget=budget, note=less if budget < wanted else "")
    if not wanted:
        return RequestedThinking()
    return RequestedThinking(note=f"the output of {facts.name} is set too small for the least budget of {LEAST_EFFORT}")


def _level(facts: ModelFacts, effort: str, tokens: int) -> RequestedThinking:
    """The level nearest to so many tokens, by ratio."""
    level = min(facts.efforts, key=lambda name: abs(log(EFFORT_LEVELS[name] / tokens)))
    note = "" if level == effort else f"{facts.name} takes levels and no numbers: {effort} is {level}"
    if effort in EFFORT_LEVELS and level != effort:
        note = f"{effort} does not fit the output of {facts.name}: {level} is asked for"
    return RequestedThinking(level=level, note=note)
