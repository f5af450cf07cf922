"""Token figures: a provider's bill (`Usage`), thresholds in settings, and sizes as people read them.

A bill comes from the provider, an estimate is counted here; they are never mixed. A setting is a share of the budget
(`80%`) or tokens (`120000`, `120_000`, `120k`). People read `9.1k` for 9,100 tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol

FAR_OFF, SMALL = 10, 1_000
"""A bill is implausible if it exceeds the local count by this factor and by this many tokens."""

TOKENIZERS_DIFFER, FEW = 3, 16
"""Two tokenizers differ by at most this factor, for texts of more than a few tokens."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The bill of one request, in tokens. `input` is the whole prompt, including cached parts.

    `estimated`: the provider reported only a part, or impossible figures. `input_estimated`: the input is estimated
    too, so no other figure may rest on it. For example, a stopped answer of Anthropic has a billed input and an
    estimated output.

    Anthropic reports the uncached rest as input, OpenAI the whole prompt; the adapters convert.
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

    @property
    def is_measured(self) -> bool:
        """Whether the provider counted the input: other figures may rest on it."""
        return self.input > 0 and not self.input_estimated

    def can_be(self, estimate: int) -> bool:
        """Whether a bill is plausible for a window of about `estimate` tokens. Some servers count wrongly."""
        return self.fresh >= 0 and (not estimate or self.input <= FAR_OFF * (estimate + SMALL))

    def can_have_said(self, streamed: int) -> bool:
        """Whether the billed output is plausible for an answer of about `streamed` tokens."""
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
        """The difference of two usages; no figure is below zero."""
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
    """A local token count. It decides what fits before a request is sent, and is always shown as an estimate."""

    tokens: int

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.tokens + other.tokens)

    def scaled(self, factor: float) -> Estimate:
        """The estimate after calibration, rounded up."""
        return Estimate(-int(-self.tokens * factor // 1))


class TokenCounter(Protocol):
    """Counts text with one tokenizer, for every model."""

    def count(self, text: str) -> int:
        """The number of tokens of `text`."""
        ...


LEAST_ABSOLUTE = 1_000
"""Tokens of an absolute threshold: a smaller number may be a percentage without its sign, and is refused."""

_TOKENS = re.compile(r"(?P<count>\d{1,12}|\d{1,3}(_\d{3})+)(?P<thousands>[kK])?")
_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d+)?)\s*%")


def tokens_written(text: str) -> int:
    """The tokens of `4000`, `4_000` or `4k`. Raises `ValueError` with the accepted forms."""
    found = _TOKENS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"“{text[:40]}” is no number of tokens such as 120000, 120_000 or 120k")
    return int(found["count"].replace("_", "")) * (1_000 if found["thousands"] else 1)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A share of the budget, or tokens: the two are never confused."""

    share: float | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, text: str) -> Threshold:
        """A share such as `80%`, or tokens such as `120000` or `120k`. Raises `ValueError` for anything else.

        `80` and `0.8` are ambiguous and refused: a share needs its sign, and tokens are at least `LEAST_ABSOLUTE`.
        """
        value = text.strip()
        if found := _SHARE.fullmatch(value):
            share = float(found["percent"]) / 100
            if 0 < share <= 1:
                return cls(share=share)
            raise ValueError(f"“{value[:40]}” is no share of the budget: write more than 0% and at most 100%")
        if re.fullmatch(r"\d*\.\d+", value) or (value.isdecimal() and len(value) <= 3):
            raise ValueError(f"“{value[:40]}” could be a share or tokens: write 80% or, from {LEAST_ABSOLUTE} on, 120k")
        try:
            tokens = tokens_written(value)
        except ValueError:
            raise ValueError(
                f"“{value[:40]}” is neither a share such as 80% nor tokens such as 120000 or 120k"
            ) from None
        if tokens < LEAST_ABSOLUTE:
            raise ValueError(f"“{value[:40]}” is less than {LEAST_ABSOLUTE} tokens")
        return cls(tokens=tokens)

    def __str__(self) -> str:
        return f"{self.share * 100:g}%" if self.share is not None else str(self.tokens)

    def in_tokens(self, budget: int) -> int:
        """The threshold for this budget."""
        if self.share is not None:
            return int(budget * self.share)
        return min(self.tokens or budget, budget)


def short(tokens: float) -> str:
    """`300`, `9.1k`, `157k`, `1.2M`: three digits at most."""
    count = round(tokens)
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size or (letter == "k" and count >= 1_000):
            value = count / size
            text = f"{value:.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
            return "1M" if text == "1000" and letter == "k" else f"{text}{letter}"
    return str(count)


def percent(part: float, whole: float) -> str:
    """`12%`; of nothing it is `0%`."""
    return f"{round(100 * part / whole)}%" if whole else "0%"
