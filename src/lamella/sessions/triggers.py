"""When a compaction is due after a turn, and when one would be in vain: the one place that decides it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamella.cache.weighing import (
    EXPECTED_SUMMARY,
    LEAST_CARRIED,
    LEAST_GAIN,
    CompactWhen,
    Economy,
    NextCompaction,
    floor_of,
    next_compaction,
)
from lamella.core.tokens import Threshold
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SILENT

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
    is not; `earlier` are the earlier summaries, which can be shortened; `summary` is what one is expected to have."""

    fixed: int
    old: int
    kept: int = 0
    earlier: int = 0
    summary: int = EXPECTED_SUMMARY

    @property
    def window(self) -> int:
        """The window now."""
        return self.fixed + self.earlier + self.old + self.kept

    @property
    def freed(self) -> int:
        """About how much shorter the window gets."""
        return self.old - min(self.summary, self.old // 4)

    @property
    def foldable(self) -> int:
        """How much shorter the earlier summaries can be made for it."""
        return int(self.earlier * (1 - LEAST_CARRIED))


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

        By price, a summary that nothing needs is left out without a word, and earlier ones lose nothing for it.
        """
        most = self.threshold.in_tokens(budget)
        needed = gain.window > most
        if needed and gain.fixed > most:
            return FIXED, (
                f"what stands in every window (system prompt, tools, agent, project) has {gain.fixed} tokens, more "
                f"than the threshold of {most}: take some of it out, or raise the threshold"
            )
        freed = gain.freed + gain.foldable if needed else gain.freed
        if freed >= LEAST_GAIN * (most if needed else gain.window):
            return None
        frees = f"a compaction frees about {max(0, freed)} of {gain.window} tokens"
        if self.when != "full" and not needed:
            return SILENT, f"{frees}, less than a quarter"
        return "little", (
            f"{frees}, less than a quarter of the threshold of {most}: {gain.fixed} stand in every window, and "
            f"{gain.kept} are kept as the newest"
        )


def trigger_of(settings: SessionSettings) -> Trigger:
    """What a deployment has chosen."""
    return Trigger(settings.compaction, settings.keep_recent, settings.compact_when, settings.floor)
