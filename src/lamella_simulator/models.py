"""The simulator's own model table: prices, minimums, windows and rules per model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from lamella_simulator.pictures import PictureRule

Wire = Literal["anthropic", "openai", "embeddings"]
"""What a model answers on; OpenAI lists its chat and its embedding models together."""
CacheRules = Literal["blocks", "tokens"]
Thinking = Literal["always", "on", "off", "none"]
"""always: cannot be disabled; on: unless disabled; off: unless asked for; none: the model has no thinking."""

MILLION = 1_000_000
Dollars: TypeAlias = Annotated[float, Meta(ge=0)]

CLAUDE_PICTURES = PictureRule(patch=28, edge=2_576, most=4_784)
OLD_CLAUDE_PICTURES = PictureRule(patch=28, edge=1_568, most=1_568)
"""Before Opus 4.7."""
GPT_PICTURES = PictureRule(patch=32, edge=6_000, most=10_000, factor=1.2, whole=True)


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens; above `tier_tokens` of prompt every rate is multiplied by `tier_factor`."""

    input: Dollars
    output: Dollars
    read: Dollars
    write_short: Dollars
    write_long: Dollars
    tier_tokens: Annotated[int, Meta(ge=0)] = 0
    tier_factor: Dollars = 1.0

    def cost(self, fresh: int, read: int, write_short: int, write_long: int, output: int) -> float:
        prompt = fresh + read + write_short + write_long
        factor = self.tier_factor if self.tier_tokens and prompt > self.tier_tokens else 1.0
        units = fresh * self.input + read * self.read + output * self.output
        units += write_short * self.write_short + write_long * self.write_long
        return units * factor / MILLION


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    wires: tuple[Wire, ...]
    prices: Prices
    window: int = MILLION
    """The largest prompt in tokens."""
    max_output: int = 128_000
    minimum: int = 1_024
    token_factor: float = 1.4
    thinking: Thinking = "off"
    keeps_thinking: bool = True
    """False: only the thinking of the last turn stays in context."""
    prefix_check: bool = False
    thinking_types: tuple[str, ...] = ("adaptive", "disabled")
    """`enabled` is a 400 on 4.7 and later, `disabled` on models that always think."""
    default_effort: str = "high"
    forced_tool_choice: bool = True
    system_messages: bool = False
    pictures: PictureRule | None = CLAUDE_PICTURES
    """None: it sees no pictures."""
    prefill: bool = False
    tool_prompt: int = 286
    cache_rules: CacheRules = "blocks"
    token_step: int = 128
    idle_seconds: int | None = None
    dimensions: int = 0
    """Of an embedding model's vectors."""


def claude(input_price: float, output: float, read: float, tier_tokens: int = 0, tier_factor: float = 1.0) -> Prices:
    """Claude writes cost 1.25 x (5 minutes) and 2 x (1 hour) the input price on every model."""
    return Prices(input_price, output, read, input_price * 1.25, input_price * 2, tier_tokens, tier_factor)


def gpt(input_price: float, output: float, read: float, *, paid_writes: bool = True) -> Prices:
    """GPT writes cost 1.25 x (30 minutes) and 2.5 x (12 hours) from 5.6 on; older models write for nothing extra."""
    short, long = (1.25, 2.5) if paid_writes else (1.0, 1.0)
    return Prices(input_price, output, read, input_price * short, input_price * long, 272_000, 2.0)


ANTHROPIC: tuple[Wire, ...] = ("anthropic",)
OPENAI: tuple[Wire, ...] = ("openai",)
EMBEDDINGS: tuple[Wire, ...] = ("embeddings",)
GPT_PROMPT = 922_000
ALWAYS = ("adaptive",)
BOTH = ("adaptive", "enabled", "disabled")
BUDGETED = ("enabled", "disabled")
BETWEEN = ("adaptive", "between_tools", "disabled")

MODELS: tuple[Model, ...] = (
    Model("claude-fable-5-1", ANTHROPIC, claude(10, 50, 0.25), minimum=512, thinking="always", thinking_types=ALWAYS,
          prefix_check=True, system_messages=True, tool_prompt=354),
    Model("claude-opus-5-5", ANTHROPIC, claude(4, 20, 0.20), minimum=512, thinking="always", thinking_types=ALWAYS,
          prefix_check=True, default_effort="medium", forced_tool_choice=False, system_messages=True),
    Model("claude-sonnet-5-5", ANTHROPIC, claude(2, 10, 0.10), minimum=512, thinking="on", prefix_check=True,
          thinking_types=BETWEEN,
          forced_tool_choice=False, system_messages=True, tool_prompt=354),
    Model("claude-haiku-5-5", ANTHROPIC, claude(0.10, 0.50, 0.01, 100_000, 5.0), minimum=512, prefix_check=True,
          system_messages=True, tool_prompt=496),
    Model("claude-opus-5", ANTHROPIC, claude(5, 25, 0.50), minimum=512, thinking="on", system_messages=True),
    Model("claude-opus-4-8", ANTHROPIC, claude(5, 25, 0.50), minimum=1_024, system_messages=True),
    Model("claude-opus-4-7", ANTHROPIC, claude(5, 25, 0.50), minimum=2_048),
    Model("claude-opus-4-6", ANTHROPIC, claude(5, 25, 0.50), minimum=4_096, token_factor=1.1,
          pictures=OLD_CLAUDE_PICTURES, thinking_types=BOTH),
    Model("claude-sonnet-5", ANTHROPIC, claude(2, 10, 0.20), tool_prompt=354),
    Model("claude-sonnet-4-6", ANTHROPIC, claude(3, 15, 0.30), token_factor=1.1,
          pictures=OLD_CLAUDE_PICTURES, thinking_types=BOTH,
          tool_prompt=354),
    Model("claude-haiku-4-5", ANTHROPIC, claude(1, 5, 0.10), window=200_000, max_output=64_000, minimum=4_096,
          token_factor=1.1,
          pictures=OLD_CLAUDE_PICTURES, keeps_thinking=False, thinking_types=BUDGETED, prefill=True, tool_prompt=496),
    Model("lamella-demo", ("anthropic", "openai"), claude(2, 10, 0.10), window=200_000, minimum=512,
          system_messages=True, pictures=None, tool_prompt=354),
    Model("gpt-6.1-sol", OPENAI, gpt(2, 10, 0.10), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES),
    Model("gpt-6.1-terra", OPENAI, gpt(1, 5, 0.05), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES),
    Model("gpt-6-luna", OPENAI, gpt(0.10, 0.50, 0.01), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES),
    Model("gpt-6-astra", OPENAI, gpt(10, 50, 1.0), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES),
    Model("gpt-5.6", OPENAI, gpt(4, 20, 0.40), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES),
    Model("gpt-5.5", OPENAI, gpt(5, 30, 0.50, paid_writes=False), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES,
          cache_rules="tokens", minimum=2_048, token_step=2_048, idle_seconds=1_800),
    Model("gpt-5.4", OPENAI, gpt(2.5, 15, 0.25, paid_writes=False), window=GPT_PROMPT, thinking="on", token_factor=1.0,
          pictures=GPT_PICTURES,
          cache_rules="tokens"),
    Model("text-embedding-3-small", EMBEDDINGS, Prices(0.02, 0, 0, 0, 0), window=8_192, token_factor=1.0,
          dimensions=1_536),
    Model("text-embedding-3-large", EMBEDDINGS, Prices(0.13, 0, 0, 0, 0), window=8_192, token_factor=1.0,
          dimensions=3_072),
    Model("lamella-embed", EMBEDDINGS, Prices(0.02, 0, 0, 0, 0), window=8_192, token_factor=1.0, dimensions=256),
)  # fmt: skip

DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d)$")
BY_ID = {model.id: model for model in MODELS}


def find(name: str, wire: Wire) -> Model | None:
    """The row of a model on a wire, by its name with or without a date; a name this table does not know gets careful
    defaults when it looks real.
    """
    if known := BY_ID.get(name) or BY_ID.get(DATE.sub("", name)):
        return known if wire in known.wires else None
    if wire == "anthropic" and name.startswith("claude-"):
        return Model(name, ANTHROPIC, claude(5, 25, 0.50), window=200_000, max_output=64_000, minimum=4_096)
    if wire == "openai" and name.startswith("gpt-"):
        return Model(
            name, OPENAI, gpt(5, 30, 0.50), window=400_000, thinking="on", token_factor=1.0, pictures=GPT_PICTURES
        )
    return None


def exists(name: str) -> bool:
    """Whether a model of this name answers on any wire."""
    return any(find(name, wire) is not None for wire in get_args(Wire))
