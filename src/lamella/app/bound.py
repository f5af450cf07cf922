"""The least that a conversation can cost under a provider's cache rules (PROVIDERS 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.core.models import ModelFacts
from lamella.core.prompt import Zone
from lamella.core.records import StoredSegment
from lamella.core.tokens import Usage

LONGEST_LIFE = 3600
"""Seconds: no entry of any provider at hand lives longer without use."""


@dataclass(frozen=True, slots=True)
class BilledRequest:
    """What the bound is computed from."""

    at: datetime
    segments: tuple[StoredSegment, ...]
    zones: tuple[tuple[str, int], ...]
    usage: Usage


def lower_bound(requests: Sequence[BilledRequest], facts: ModelFacts) -> float:
    """US dollars: every token that stays is written once and read on each later request, the moving tail is plain.

    What the last request adds need not be written; a gap longer than the longest life means writing all again.
    No markers, lives and minimum sizes are considered: no real placement can be cheaper.
    """
    total = 0.0
    price = facts.price
    write = min(price.write_5m, price.write_1h)
    before: BilledRequest | None = None
    for index, request in enumerate(requests):
        tokens = request.usage.input
        steady = round(tokens * _steady_share(request))
        shared = min(_shared(before, request), steady) if before else 0
        cold = before is not None and (request.at - before.at).total_seconds() > LONGEST_LIFE
        rate = 1.0 if index == len(requests) - 1 else write
        grown = steady - shared
        units = shared * (write if cold else price.read) + grown * min(rate, write) + (tokens - steady)
        tier = price.tier_factor if price.tier_above and tokens > price.tier_above else 1.0
        total += tier * (units * price.input + request.usage.output * price.output) / 1_000_000
        before = request
    return total


def _steady_share(request: BilledRequest) -> float:
    """The share of the estimate that stays in the window; trailing segments come last."""
    trailing = sum(count for zone, count in request.zones if zone == Zone.TRAILING.value)
    whole = sum(segment.tokens for segment in request.segments)
    if not trailing or not whole:
        return 1.0
    return 1.0 - sum(segment.tokens for segment in request.segments[-trailing:]) / whole


def _shared(before: BilledRequest, request: BilledRequest) -> int:
    """Tokens of the common prefix, from what was billed for the earlier request."""
    whole = sum(segment.tokens for segment in before.segments)
    same = 0
    for mine, theirs in zip(request.segments, before.segments, strict=False):
        if mine.blocks != theirs.blocks:
            break
        same += theirs.tokens
    return round(before.usage.input * same / whole) if whole else 0
