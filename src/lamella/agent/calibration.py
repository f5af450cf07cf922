"""How a provider counts: its own count near the limit, its bills, and what its refusals teach.

A provider is asked for its count of a request near the limit, before that is sent. A refusal that gives its own count
corrects the calibration of the line. One that gives a limit, or nothing, teaches a limit: it holds for the model and
the account, and only for `BELIEVED`, since limits are lifted. A limit makes old content give way. It never refuses a
message: what can't give way is sent all the same.

Example: a window of 10,000 local tokens is billed as 12,000. The factor is 1.2, and the next window of 11,000 local
tokens is estimated at 13,200.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from lamella.agent.request import Prepared
from lamella.context.assemble import Assembled
from lamella.context.input import MARGIN
from lamella.core.counting import count_tokens, most_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ProviderContextOverflow, ProviderError
from lamella.core.messages import Text, ToolCall, ToolResult
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Report, Segment, WireRequest, Zone
from lamella.core.records import ProviderLimit

log = structlog.get_logger()

BELIEVED = timedelta(hours=1)
"""How long a learned limit is kept to. After that a larger window is tried again."""

MOST_OFF, LEAST_OFF = 2.5, 0.5
"""How many times a model's usual factor a provider may count for a local token: more is no matter of counting."""

NEXT_TRY, NEXT_UNSURE = 0.75, 1 / MOST_OFF
"""The share of a refused window that is tried next if the provider did not say how much it accepts: for a conversation
with a bill, and for one whose count may be far off.
"""

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
class CalibrationUpdate:
    """The result of a refusal: a new `factor` of the calibration, a `limit` in tokens, or both, and the reason."""

    factor: float | None
    limit: int | None
    why: str

    def decision(self, model: str, window: RefusedWindow, before: float) -> Decision:
        """The decision by which the factor holds until the next bill."""
        numbers = {"local": window.local, "before": before}
        return Decision(DecisionKind.CALIBRATION, model, f"{self.factor:.4f}", "engine", self.why, numbers)


def bounded(factor: float, facts: ModelFacts) -> float:
    """A calibration factor, bounded by how much tokenizers differ from the model's usual factor."""
    return min(max(factor, facts.token_factor * LEAST_OFF), facts.token_factor * MOST_OFF)


def lesson(refusal: ProviderContextOverflow, window: RefusedWindow, facts: ModelFacts) -> CalibrationUpdate:
    """The calibration update for this refusal."""
    counted, limit = refusal.counted, refusal.limit
    why = f"{facts.name} refused a request of about {window.estimate} tokens as too large"
    factor = None
    if counted is not None and window.local:
        exact = counted / window.local
        if exact == bounded(exact, facts):
            factor = exact
            why = f"{facts.name} counts {counted} tokens in a request of about {window.estimate}, which is too large"
    if factor is None and counted is not None and limit is not None and limit < counted:
        return CalibrationUpdate(None, int(window.estimate * limit / counted * SLACK), why)  # its tokens are not ours
    if limit is not None and limit < window.budget and (factor is not None or limit < window.estimate):
        return CalibrationUpdate(factor, limit, why)
    if factor is not None and counted is not None and counted > window.budget:
        return CalibrationUpdate(factor, None, why)
    sure = factor is not None or window.billed
    tokens = counted if factor is not None and counted is not None else window.estimate
    return CalibrationUpdate(factor, int(min(tokens, window.budget) * (NEXT_TRY if sure else NEXT_UNSURE)), why)


def believed(tokens: int, account: str, model: str, now: datetime) -> ProviderLimit:
    """The limit as a stored record."""
    return ProviderLimit(account, model, tokens, now + BELIEVED)


NEAR = 0.9
"""The share of the budget above which the provider is asked to count."""

COUNT_SECONDS = 5.0
"""The most that a request waits for its count."""

DEVIATION = 0.01
"""By how much of the estimate a count may differ without being worth a decision."""

GROWTH = 0.02
"""The relative growth of a window after which it is counted again."""

MOST_FACTOR = 8.0
"""The largest plausible number of provider's tokens per local token; a higher figure is an error."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A provider's count of a window that has `local` tokens here."""

    local: int
    tokens: int

    def factor(self, budget: int) -> float:
        """The provider's tokens per local token. A window that the provider counts as within the budget stays
        unchanged: the margin applies to estimates only.
        """
        exact = self.tokens / self.local
        if self.tokens <= budget:
            exact = min(exact, budget / (1 + MARGIN) / (self.local + 1))
        return math.floor(exact * 10_000) / 10_000

    def corrects(self, estimate: int) -> bool:
        """Whether the estimate was wrong by enough for a decision."""
        return abs(self.tokens - estimate) > estimate * DEVIATION

    def covers(self, local: int) -> bool:
        """Whether a window of `local` tokens is almost the one that was counted."""
        return abs(local - self.local) <= self.local * GROWTH

    def decision(self, model: str, before: float, budget: int) -> Decision:
        """The decision that stores the factor until the next bill."""
        why = f"{model} counts {self.tokens} tokens in a request of {self.local} local tokens"
        numbers = {"local": self.local, "counted": self.tokens, "before": before, "budget": budget}
        return Decision(DecisionKind.CALIBRATION, model, f"{self.factor(budget):.4f}", "engine", why, numbers)


def billed_factor(tokens: int, local: int, facts: ModelFacts) -> float:
    """The provider's tokens per local token, by its bill for `local` tokens. It is bounded by how much tokenizers
    differ, because some servers count wrongly; otherwise one odd bill would make a conversation look too large forever.
    """
    return bounded(tokens / local, facts)


def is_near(report: Report, margin: float = 0.0) -> bool:
    """Whether a window is so near to its budget that the provider is asked to count: always near the limit, and earlier
    if the estimate may be too low by this margin.
    """
    return report.estimate * max(1 + margin, 1 / NEAR) >= report.budget


async def margin_of(assembled: Assembled, billed_local: int) -> float:
    """The share by which the estimate of a window may be too low.

    It depends on the script of the unbilled text: tokenizers agree on English within a quarter, on Chinese or Hindi
    they differ by a factor. Without any bill (`billed_local` 0) the whole window is unbilled, else only the running
    turn.
    """
    report = assembled.report
    if report.estimate * MOST_OFF < report.budget or not report.local:
        return MARGIN  # it fits whatever the provider makes of it
    return await asyncio.to_thread(_margin_by_script, assembled, billed_local)


def _margin_by_script(assembled: Assembled, billed_local: int) -> float:
    report, segments = assembled.report, assembled.prompt.segments
    new = segments if not billed_local else [segment for segment in segments if segment.zone is Zone.TURN]
    texts = [text for segment in new for text in _texts(segment)]
    counted = sum(count_tokens(text) for text in texts)
    if not counted:
        return MARGIN
    most = sum(most_tokens(text) for text in texts) / counted - 1
    share = min(1.0, counted / report.local)
    return min(max(MARGIN, share * most), MOST_OFF - 1)


def _texts(segment: Segment) -> Iterator[str]:
    """The texts of a segment that a tokenizer reads."""
    for message in segment.messages:
        for part in message.parts:
            match part:
                case Text(text=text):
                    yield text
                case ToolResult(content=text) | ToolCall(arguments=text):
                    yield text
                case _:
                    pass


async def count(model: ChatModel, request: WireRequest, local: int, seconds: float = COUNT_SECONDS) -> Counted | None:
    """Ask the provider for its count, once, for `seconds` at most. Returns None on failure, which is logged."""
    name = model.facts.name
    try:
        async with asyncio.timeout(seconds):
            tokens = await model.count(request)
    except TimeoutError:
        log.warning("a request near the limit was not counted", model=name, error=f"no count within {seconds:g} s")
        return None
    except ProviderError as error:
        log.warning("a request near the limit was not counted", model=name, error=error.message)
        return None
    if not max(local, 1) / MOST_FACTOR <= tokens <= local * MOST_FACTOR:
        why = f"{tokens} tokens can't be the count of {local} local tokens"
        log.warning("a request near the limit was not counted", model=name, error=why)
        return None
    return Counted(local, tokens)


def with_count(prepared: Prepared, counted: Counted) -> Prepared:
    """The request with the provider's count instead of the estimate."""
    report = replace(prepared.assembled.report, estimate=counted.tokens)
    return replace(prepared, assembled=replace(prepared.assembled, report=report))
