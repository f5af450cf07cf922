"""When a compaction is due after a turn, and when one pays: the one place that decides it. Pure.

`ThresholdTrigger` guards quality and the window; `PriceTrigger` asks before it whether a summary pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lamella.cache.economics import (
    Compaction,
    Elsewhere,
    Prospect,
    Rates,
    best_length,
    expected_calls,
    until_next_pruning,
)
from lamella.core.amounts import Threshold
from lamella.sessions.settings import SessionSettings
from lamella.sessions.sizes import ShownWindow
from lamella.sessions.summariser import SILENT

LEAST_GAIN = 0.1
"""The share of the threshold that a compaction after a turn frees at least: else the next turn asks again."""

FIXED = "fixed"
"""The code of a compaction that can't help: what stands in every window is past the threshold alone."""

SHRINKS_TO = 0.25
"""What is expected to be left of what is summarised."""


EXPECTED_SUMMARY = 3_000
"""Tokens of a summary, before there is one."""

INSTRUCTION = 300
"""Tokens of the instruction to summarise."""

LEAST_CALLS = 6
"""Calls after which a session shows how it grows; before that nobody knows whether it goes on."""


@dataclass(frozen=True, slots=True)
class Economy:
    """What a summary would cost and save: the model's rates, what stands in every window, what a call adds, how many
    calls have been made in this session, and how long a summary is expected to be. `question` is what is asked of a
    summariser: with pruned results, which it reads whole. Another model may make it `elsewhere`.
    """

    rates: Rates
    static: int
    growth: float
    calls: int
    summary: int = EXPECTED_SUMMARY
    question: int = INSTRUCTION
    elsewhere: Elsewhere | None = None

    def compaction(self, window: int, keep: int) -> Compaction:
        """What compacting a window of so many tokens would come to."""
        history = max(0, window - self.static)
        return Compaction(self.static, history, keep, self.summary, self.question, self.elsewhere)

    def best(self, window: int, keep: int) -> float:
        """The length of window at which compacting costs least."""
        return best_length(self.growth, self.compaction(window, keep), self.rates)

    def prospect(self, window: int, keep: int, shown: ShownWindow, *, cold: bool = False) -> Prospect:
        """What is ahead of a window of so many tokens."""
        room = self.best(window, keep) - window
        calls = min(expected_calls(self.calls, self.growth, room), until_next_pruning(shown.since_pruning))
        return Prospect(self.rates, calls, cold, shown.read_again)


@dataclass(frozen=True, slots=True)
class Due:
    """Why something is done, and what that was reckoned from."""

    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


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
    """What a compaction would come to: `fixed` stands in the window whatever is summarised, `old` is summarised, `kept`
    is not."""

    fixed: int
    old: int
    kept: int = 0


class Trigger(Protocol):
    """Decides when to compact."""

    def due(self, fill: Fill) -> Due | None:
        """Why a compaction is due after a turn; None when none is."""
        ...

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """Why a compaction after a turn would be in vain, as a code and a sentence; None when it is not."""
        ...


@dataclass(frozen=True, slots=True)
class ThresholdTrigger:
    """Past a threshold (SPEC L6), unless it was taken back or would not help."""

    threshold: Threshold

    def due(self, fill: Fill) -> Due | None:
        """See `Trigger.due`."""
        most = self.threshold.in_tokens(fill.budget)
        if fill.undone or fill.input - fill.freed <= most:
            return None
        why = f"the last answer read {fill.input} tokens, more than {most} of {fill.budget}"
        return Due(why, {"read": fill.input, "most": most})

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


@dataclass(frozen=True, slots=True)
class PriceTrigger:
    """At the length at which compacting costs least (PROVIDERS 5.7), and past the threshold in any case.

    The optimum expects that a conversation goes on as it did: as many calls must have been made as it takes to pay.
    """

    guard: ThresholdTrigger
    keep_recent: int

    def due(self, fill: Fill) -> Due | None:
        """See `Trigger.due`."""
        guarded, economy = self.guard.due(fill), fill.economy
        if guarded is not None or economy is None or fill.undone:
            return guarded
        window = fill.input - fill.freed
        best, calls = economy.best(window, self.keep_recent), self._calls(window, economy)
        if window < best or economy.calls < max(LEAST_CALLS, calls):
            return None
        why = (
            f"the window has {window} tokens, and at reads of {economy.rates.read:g} of the price of input a summary "
            f"pays from {best:.0f} on, where a call adds {economy.growth:.0f}: it is repaid after {calls:.1f} "
            f"calls, and {economy.calls} were made"
        )
        return Due(why, {"best": best, "growth": economy.growth, "pays_after": calls, "expected": economy.calls})

    def _calls(self, window: int, economy: Economy) -> float:
        return economy.compaction(window, self.keep_recent).calls(economy.rates)

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """See `Trigger.vain`. What stands in every window is counted in the length at which it pays.

        A summary that nothing needs is left out without a word.
        """
        if gain.old * (1 - SHRINKS_TO) >= EXPECTED_SUMMARY:
            return None
        most = self.guard.threshold.in_tokens(budget)
        if gain.fixed + gain.old + gain.kept > most:
            return self.guard.vain(gain, budget)
        return SILENT, f"only {gain.old} tokens are old enough to be summarised"


def trigger_of(settings: SessionSettings) -> Trigger:
    """What a deployment has chosen."""
    guard = ThresholdTrigger(settings.compaction)
    return guard if settings.compact_when == "full" else PriceTrigger(guard, settings.keep_recent)
