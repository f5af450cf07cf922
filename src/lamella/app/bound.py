"""The least that a conversation can cost under a provider's cache rules (PROVIDERS 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from lamella.core.models import ModelFacts
from lamella.core.records import StoredSegment
from lamella.core.tokens import Usage

LONGEST_LIFE = 3600
"""Seconds: no entry of any provider at hand lives longer without use."""


@dataclass(frozen=True, slots=True)
class BilledRequest:
    """What the bound is computed from."""

    at: datetime
    segments: tuple[StoredSegment, ...]
    usage: Usage


def lower_bound(requests: Sequence[BilledRequest], facts: ModelFacts) -> float:
    """US dollars that no placement of markers can go below, for the same windows.

    A token is read where the request before had it in the same prefix and not too long ago; else it is written where
    the next request can read it, and plain where none can. Minimum sizes and shorter lives are left out. What two
    requests share is apportioned by local weight: that is the error of the bound, a few percent on short traces.
    """
    billed = [request for request in requests if request.usage.input]
    shared = [0, *(_shared(a, b) for a, b in pairwise(billed)), 0]
    price = facts.price
    write = max(1.0, min(price.write_5m, price.write_1h))
    total = 0.0
    for index, request in enumerate(billed):
        tokens, read, read_next = request.usage.input, shared[index], shared[index + 1]
        written = max(0, read_next - read)
        units = read * price.read + written * write + (tokens - read - written)
        tier = price.tier_factor if price.tier_above and tokens > price.tier_above else 1.0
        total += tier * (units * price.input + request.usage.output * price.output) / 1_000_000
    return total


def _shared(before: BilledRequest, request: BilledRequest) -> int:
    """Tokens of the common prefix that can be read, from what was billed for the earlier request."""
    if (request.at - before.at).total_seconds() > LONGEST_LIFE:
        return 0
    whole = sum(segment.tokens for segment in before.segments)
    same = 0
    for mine, theirs in zip(request.segments, before.segments, strict=False):
        if mine.blocks != theirs.blocks:
            break
        same += theirs.tokens
    return min(round(before.usage.input * same / whole), request.usage.input) if whole else 0
