"""When a compaction is due after a turn, and when one would be in vain: the one place that decides it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamella.cache.weighing import (
    EXPECTED_SUMMARY,
    SHRINKS_TO,
    CompactWhen,
    Economy,
    NextCompaction,
    floor_of,
    next_compaction,
)
from lamella.core.amounts import Threshold
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SILENT

LEAST_GAIN = 0.1
"""The share of the threshold that a compaction after a turn frees at least: else the next turn asks again."""

FIXED = "fixed"
"""The code of a compaction that can't help: what stands in every window is past the threshold alone."""


@dataclass(frozen=True, slots=True)
class Due:
    """Why something is done, and what that was reckoned from."""

    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a window is between two turns, in tokens of the provider.

    `window` is what the last answer read, less what was pruned since. `undone`: the user has taken back the last
    compaction. `economy` is None if no price decides.
    """

    window: int
    budget: int
    undone: bool = False
    economy: Economy | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What a compaction would come to: `fixed` stands in the window whatever is summarised, `old` is summarised, `kept`
    is not."""

    fixed: int
    old: int
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Trigger:
    """Past a threshold (SPEC L6); by price too, as `when` says: `balanced` only above the floor (X-ECON).

    What the user has taken back is not made again by itself.
    """

    threshold: Threshold
    keep_recent: int = 4_000
    when: CompactWhen = "full"
    floor: Threshold | None = None

    def next(self, fill: Fill) -> NextCompaction | None:
        """At which size the next compaction is due; None if none is made by itself."""
        if fill.undone:
            return None
        most, floor = self.threshold.in_tokens(fill.budget), floor_of(self.when, fill.budget, self.floor)
        return next_compaction(fill.window, most, floor, fill.economy, self.keep_recent)

    def due(self, fill: Fill) -> Due | None:
        """Why a compaction is due after a turn; None when none is."""
        due = self.next(fill)
        if due is None or fill.window <= due.at:
            return None
        if not due.by_price or fill.economy is None:
            why = f"the window has {fill.window} tokens, more than {due.at} of {fill.budget}"
            return Due(why, {"window": fill.window, "most": due.at})
        economy, numbers = fill.economy, due.numbers
        why = (
            f"the window has {fill.window} tokens, and at reads of {economy.rates.read:g} of the price of input a "
            f"summary pays from {due.at} on, where a call adds {economy.growth:.0f}: it is repaid after "
            f"{numbers['pays_after']:.1f} calls, and {economy.calls} were made"
        )
        return Due(why, numbers)

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """Why a compaction after a turn would be in vain, as a code and a sentence; None when it is not.

        By price, a summary that nothing needs is left out without a word.
        """
        most = self.threshold.in_tokens(budget)
        if self.when != "full":
            if gain.old * (1 - SHRINKS_TO) >= EXPECTED_SUMMARY:
                return None
            if gain.fixed + gain.old + gain.kept <= most:
                return SILENT, f"only {gain.old} tokens are old enough to be summarised"
        if gain.fixed > most:
            return FIXED, (
                f"what stands in every window (system prompt, tools, agent, project, summaries) has {gain.fixed} "
                f"tokens, more than the threshold of {most}: take some of it out, or raise the threshold"
            )
        if gain.old * (1 - SHRINKS_TO) < most * LEAST_GAIN:
            return "little", f"only {gain.old} tokens are old enough to be summarised"
        return None


def trigger_of(settings: SessionSettings) -> Trigger:
    """What a deployment has chosen."""
    return Trigger(settings.compaction, settings.keep_recent, settings.compact_when, settings.floor)
