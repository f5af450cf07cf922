"""When a compaction is due after a turn, and when one pays: the one place that decides it. Pure.

A planner that weighs costs stands in for `ThresholdTrigger`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lamella.core.amounts import Threshold

LEAST_GAIN = 0.1
"""The share of the threshold that a compaction after a turn frees at least: else the next turn asks again."""

FIXED = "fixed"
"""The code of a compaction that can't help: what stands in every window is past the threshold alone."""

SHRINKS_TO = 0.25
"""What is expected to be left of what is summarised."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a window is when a turn has ended, in tokens of the provider.

    `input` is what the last answer read, `freed` what a pruning has taken since. `undone`: the user has taken back the
    last compaction.
    """

    input: int
    budget: int
    freed: int = 0
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Gain:
    """What a compaction would come to: `fixed` stands in the window whatever is summarised, `old` is summarised."""

    fixed: int
    old: int


class Trigger(Protocol):
    """Decides when to compact."""

    def due(self, fill: Fill) -> str | None:
        """Why a compaction is due after a turn; None when none is."""
        ...

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """Why a compaction after a turn would be in vain, as a code and a sentence; None when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class ThresholdTrigger:
    """Past a threshold (SPEC L6), unless it was taken back or would not help."""

    threshold: Threshold

    def due(self, fill: Fill) -> str | None:
        """See `Trigger.due`."""
        most = self.threshold.in_tokens(fill.budget)
        if fill.undone or fill.input - fill.freed <= most:
            return None
        return f"the last answer read {fill.input} tokens, more than {most} of {fill.budget}"

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """See `Trigger.vain`."""
        most = self.threshold.in_tokens(budget)
        if gain.fixed > most:
            return FIXED, (
                f"what stands in every window (system prompt, tools, agent, project, summaries) has {gain.fixed} "
                f"tokens, more than the threshold of {most}: take some of it out, or raise the threshold"
            )
        if gain.old * (1 - SHRINKS_TO) < most * LEAST_GAIN:
            return "little", f"only {gain.old} tokens are old enough to be summarised"
        return None
