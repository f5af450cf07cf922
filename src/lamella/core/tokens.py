"""Two kinds of token figures that never mix: `Usage`, what a provider billed, and `Estimate`, counted here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

FAR_OFF, SMALL = 10, 1_000
"""So many times more than the local count of a window, and these tokens, no provider can bill."""

TOKENIZERS_DIFFER, FEW = 3, 16
"""One tokenizer makes at most so many times the tokens of another, of a text of more than a few."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider billed for one request, in tokens; `input` is the whole prompt, cached parts included (SPEC L5).

    `estimated`: the provider did not say all of it, or what it said can't be. `input_estimated`: that is true of the
    input too, which is then no basis for other figures. A stopped answer of Anthropic has a billed input and an
    estimated output.

    Anthropic reports the uncached rest as input, OpenAI the whole: the adapters put that right.
    """

    input: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    estimated: bool = False
    input_estimated: bool = False

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

    def can_have_said(self, streamed: int) -> bool:
        """Whether the output can be what was billed for an answer of about so many tokens."""
        return streamed <= TOKENIZERS_DIFFER * (self.output + FEW)

    def doubted(self) -> Usage:
        """The same figures, all marked as an estimate."""
        return replace(self, estimated=True, input_estimated=True)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write_5m + other.cache_write_5m,
            self.cache_write_1h + other.cache_write_1h,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.estimated or other.estimated,
            self.input_estimated or other.input_estimated,
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
            self.input_estimated,
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
