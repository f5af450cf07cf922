"""What a provider's refusal of a window as too large teaches: how it counts, and how much it takes. Pure.

A refusal that gives its own count corrects the calibration of the line. One that gives a limit, or nothing, teaches a
limit: it holds for the model and the account, and only for `BELIEVED`, since limits are lifted. A limit makes old
content give way. It never refuses a message: what can't give way is sent all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ProviderContextOverflow
from lamella.core.models import ModelFacts
from lamella.core.records import ProviderLimit

BELIEVED = timedelta(hours=1)
"""How long a learned limit is kept to. After that a larger window is tried again."""

MOST_OFF, LEAST_OFF = 2.5, 0.5
"""How many times a model's usual factor a provider may count for a local token: more is no matter of counting."""

NEXT_TRY, NEXT_UNSURE = 0.75, 1 / MOST_OFF
"""The share of a refused window that is tried next if the provider did not say how much it takes: on a line that was
billed, and on one that may be counted quite otherwise."""

SLACK = 0.95
"""How much of a limit is used that follows from a proportion."""


@dataclass(frozen=True, slots=True)
class RefusedWindow:
    """A window that its provider refused: `local` tokens, thought to be `estimate` of the provider's. `billed`: another
    window of its line was billed before, so that the estimate is good."""

    local: int
    estimate: int
    budget: int
    billed: bool = True


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a refusal taught: a new `factor` of the calibration, a `limit` in tokens, or both; and why."""

    factor: float | None
    limit: int | None
    why: str

    def decision(self, model: str, window: RefusedWindow, before: float) -> Decision:
        """The decision by which the factor holds until the next bill."""
        numbers = {"local": window.local, "before": before}
        return Decision(DecisionKind.CALIBRATION, model, f"{self.factor:.4f}", "engine", self.why, numbers)


def bounded(factor: float, facts: ModelFacts) -> float:
    """A factor of a calibration, within what a tokenizer may differ from the model's usual factor."""
    return min(max(factor, facts.token_factor * LEAST_OFF), facts.token_factor * MOST_OFF)


def lesson(refusal: ProviderContextOverflow, window: RefusedWindow, facts: ModelFacts) -> Lesson:
    """What to believe after this refusal."""
    counted, said = refusal.counted, refusal.limit
    why = f"{facts.name} refused a request of about {window.estimate} tokens as too large"
    factor = None
    if counted is not None and window.local:
        exact = counted / window.local
        if exact == bounded(exact, facts):
            factor = exact
            why = f"{facts.name} counts {counted} tokens in a request of about {window.estimate}, which is too large"
    if factor is None and counted is not None and said is not None and said < counted:
        return Lesson(None, int(window.estimate * said / counted * SLACK), why)  # its tokens are not ours
    if said is not None and said < window.budget and (factor is not None or said < window.estimate):
        return Lesson(factor, said, why)
    if factor is not None and counted is not None and counted > window.budget:
        return Lesson(factor, None, why)
    sure = factor is not None or window.billed
    tokens = counted if factor is not None and counted is not None else window.estimate
    return Lesson(factor, int(min(tokens, window.budget) * (NEXT_TRY if sure else NEXT_UNSURE)), why)


def believed(tokens: int, account: str, model: str, now: datetime) -> ProviderLimit:
    """The limit as it is stored."""
    return ProviderLimit(account, model, tokens, now + BELIEVED)
