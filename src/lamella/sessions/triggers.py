"""When a compaction is due after a turn, and when one pays: the one place that decides it. Pure.

`ThresholdTrigger` guards quality and the window; `PriceTrigger` asks before it whether a summary pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lamella.cache.economics import Compaction, Rates, best_length
from lamella.core.amounts import Threshold
from lamella.sessions.settings import SessionSettings

LEAST_GAIN = 0.1
"""The share of the threshold that a compaction after a turn frees at least: else the next turn asks again."""

FIXED = "fixed"
"""The code of a compaction that can't help: what stands in every window is past the threshold alone."""

SHRINKS_TO = 0.25
"""What is expected to be left of what is summarised."""


@dataclass(frozen=True, slots=True)
class Economy:
    """What a summary would cost and save: the model's rates, what stands in every window, what a call adds, and how
    many calls have been made in this session."""

    rates: Rates
    static: int
    growth: float
    calls: int


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a window is when a turn has ended, in tokens of the provider.

    `input` is what the last answer read, `freed` what a pruning has taken since. `undone`: the user has taken back the
    last compaction. `economy` is None where prices are not asked.
    """

    input: int
    budget: int
    freed: int = 0
    undone: bool = False
    economy: Economy | None = None


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


EXPECTED_SUMMARY = 3_000
"""Tokens of a summary, before there is one."""

LEAST_CALLS = 6
"""Calls after which a session shows how it grows; before that nobody knows whether it goes on."""


@dataclass(frozen=True, slots=True)
class PriceTrigger:
    """At the length at which compacting costs least (PROVIDERS 5.7), and past the threshold in any case.

    The optimum expects that a conversation goes on as it did: as many calls must have been made as it takes to pay.
    """

    guard: ThresholdTrigger
    keep_recent: int

    def due(self, fill: Fill) -> str | None:
        """See `Trigger.due`."""
        guarded, economy = self.guard.due(fill), fill.economy
        if guarded is not None or economy is None or fill.undone:
            return guarded
        window = fill.input - fill.freed
        plan = Compaction(economy.static, max(0, window - economy.static), self.keep_recent, EXPECTED_SUMMARY)
        best, calls = best_length(economy.growth, plan, economy.rates), plan.calls(economy.rates)
        if window < best or economy.calls < max(LEAST_CALLS, calls):
            return None
        return (
            f"the window has {window} tokens, and at reads of {economy.rates.read:g} of the price of input a summary "
            f"pays from {best:.0f} on, where a call adds {economy.growth:.0f}: it is repaid after {calls:.1f} "
            f"calls, and {economy.calls} were made"
        )

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """See `Trigger.vain`. What stands in every window is counted in the length at which it pays."""
        if gain.old * (1 - SHRINKS_TO) < EXPECTED_SUMMARY:
            return "little", f"only {gain.old} tokens are old enough to be summarised"
        return None


def trigger_of(settings: SessionSettings) -> Trigger:
    """What a deployment has chosen."""
    guard = ThresholdTrigger(settings.compaction)
    return guard if settings.compact_when == "full" else PriceTrigger(guard, settings.keep_recent)
