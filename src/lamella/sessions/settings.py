"""What a deployment sets of sessions (SPEC L15)."""

from __future__ import annotations

from dataclasses import dataclass, field

from lamella.core.errors import ConfigurationError
from lamella.sessions.pruning import PruneSettings

LEAST_ABSOLUTE = 1_000
"""Tokens of an absolute threshold: a smaller number is a percentage without its sign, and is refused."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A share of the budget, or tokens: the two are never confused."""

    share: float | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, text: str, name: str) -> Threshold:
        """`80%`, or tokens such as `120000`; raises `ConfigurationError` for anything else."""
        value = text.strip().replace("_", "")
        try:
            if value.endswith("%"):
                share = float(value[:-1]) / 100
                if 0 < share <= 1:
                    return cls(share=share)
            elif int(value) >= LEAST_ABSOLUTE:
                return cls(tokens=int(value))
        except ValueError:
            pass
        raise ConfigurationError(
            f"{name} can't be “{text}”.",
            hint=f"Write a share such as 80%, or tokens, at least {LEAST_ABSOLUTE}.",
            param=name,
        )

    def in_tokens(self, budget: int) -> int:
        """The threshold for this budget."""
        if self.share is not None:
            return int(budget * self.share)
        return min(self.tokens or budget, budget)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Sizes in tokens. `huge`: the share of the budget above which even the newest turn is summarised. `look`: after
    how many seconds whoever waits for a compaction looks whether it has ended elsewhere, again and again."""

    keep_recent: int = 4_000
    compaction: Threshold = field(default_factory=lambda: Threshold(share=0.8))
    resume: Threshold = field(default_factory=lambda: Threshold(share=0.7))
    pruning: PruneSettings = field(default_factory=PruneSettings)
    notify: bool = True
    huge: float = 0.25
    look: float = 5.0
