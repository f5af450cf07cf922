"""Two kinds of token figures that never mix: `Usage`, what a provider billed, and `Estimate`, counted here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

FAR_OFF, SMALL = 10, 1_000
"""So many times more than the local count of a window, and these tokens, no provider can bill."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider billed for one request, in tokens; `input` is the whole prompt, cached parts included (SPEC L5).

    `estimated`: the provider did not say it, or not of all of what is added up here, or what it said can't be; never a
    basis for other figures.

    Anthropic reports the uncached rest as input, OpenAI the whole: the adapters put that right.
    """

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    estimated: bool = False

    @property
    def cache_write(self) -> int:
        """Tokens written to the cache, of every life time."""
        return self.cache_write_5m + self.cache_write_1h

    @property
    def fresh(self) -> int:
        """Input that was neither read from the cache nor written to it."""
        return self.input - self.cache_read - self.cache_write

    def can_be(self, estimate: int) -> bool:
        """Whether a provider can have billed this for a window of about so many tokens: some servers count wrongly."""
        return self.fresh >= 0 and (not estimate or self.input <= FAR_OFF * (estimate + SMALL))

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write_5m + other.cache_write_5m,
            self.cache_write_1h + other.cache_write_1h,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.estimated or other.estimated,
        )

    def without(self, other: Usage) -> Usage:
        """What is left of a sum once one of its parts is taken away; nothing is less than none."""
        return Usage(
            max(self.input - other.input, 0),
            max(self.cache_read - other.cache_read, 0),
            max(self.cache_write_5m - other.cache_write_5m, 0),
            max(self.cache_write_1h - other.cache_write_1h, 0),
            max(self.output - other.output, 0),
            max(self.reasoning - other.reasoning, 0),
            self.estimated,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A local count; it only admits what was not sent yet and is always shown as an estimate."""

    tokens: int

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.tokens + other.tokens)

    def scaled(self, factor: float) -> Estimate:
        """The estimate after calibration, rounded up."""
        return Estimate(-int(-self.tokens * factor // 1))


class TokenCounter(Protocol):
    """Counts text with one tokenizer for every model (SPEC O3: model-agnostic)."""

    def count(self, text: str) -> int:
        """The number of tokens of `text`."""
        ...
