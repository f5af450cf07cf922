"""Sizes as people write them in settings: tokens (`120000`, `120_000`, `120k`), and shares of a budget (`80%`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAST_ABSOLUTE = 1_000
"""Tokens of an absolute threshold: a smaller number may be a percentage without its sign, and is refused."""

_TOKENS = re.compile(r"(?P<count>\d{1,12}|\d{1,3}(_\d{3})+)(?P<thousands>[kK])?")
_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d+)?)\s*%")


def tokens_written(text: str) -> int:
    """The tokens of `4000`, `4_000` or `4k`; raises `ValueError` that says what is accepted."""
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
        """`80%`, or tokens such as `120000` or `120k`; raises `ValueError` for what could be either, and for all else.

        `80` and `0.8` are neither: a share has its sign, and tokens are at least `LEAST_ABSOLUTE`.
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
