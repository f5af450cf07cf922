"""The least that the input of a conversation can cost under a provider's cache rules (PROVIDERS 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from lamella.core.models import ModelFacts
from lamella.core.records import RequestRecord, StoredSegment
from lamella.core.tokens import Usage

LONGEST_LIFE = 3600
"""Seconds: no entry of any provider at hand lives longer without use."""


@dataclass(frozen=True, slots=True)
class BilledRequest:
    """What the bound is computed from."""

    at: datetime
    segments: tuple[StoredSegment, ...]
    usage: Usage

    def prefixes(self) -> Iterator[tuple[int, float]]:
        """Each prefix of the window: a fingerprint, and its share of the billed input."""
        whole = sum(segment.tokens for segment in self.segments)
        key, tokens = 0, 0
        for segment in self.segments:
            key, tokens = hash((key, segment.blocks)), tokens + segment.tokens
            yield key, self.usage.input * tokens / whole if whole else 0.0


def lower_bound(requests: Sequence[BilledRequest], facts: ModelFacts) -> float:
    """US dollars of input that no placement of markers can go below, for the same windows.

    A token is read where an earlier request had it in the same prefix and not too long ago; else it is written where a
    later request can read it, and plain where none can. Minimum sizes and shorter lives are left out. What two
    requests share is apportioned by local weight: that is the error of the bound, a few percent on short traces.
    """
    billed = [request for request in requests if request.usage.input]
    before, after = _shared(billed), _shared(billed[::-1])[::-1]
    price = facts.price
    write = max(1.0, min(price.write_5m, price.write_1h))
    total = 0.0
    for request, read, read_later in zip(billed, before, after, strict=True):
        tokens = request.usage.input
        written = max(0, read_later - read)
        units = read * price.read + written * write + (tokens - read - written)
        tier = price.tier_factor if price.tier_above and tokens > price.tier_above else 1.0
        total += tier * units * price.input / 1_000_000
    return total


def _shared(requests: Sequence[BilledRequest]) -> list[int]:
    """For each request the tokens of its longest prefix that one before it in this order had, not too far in time."""
    seen: dict[int, tuple[datetime, float]] = {}
    found = []
    for request in requests:
        longest = 0.0
        prefixes = list(request.prefixes())
        for key, _ in prefixes:
            at, tokens = seen.get(key, (None, 0.0))
            if at is not None and abs((request.at - at).total_seconds()) <= LONGEST_LIFE:
                longest = tokens
        seen |= {key: (request.at, tokens) for key, tokens in prefixes}
        found.append(min(round(longest), request.usage.input))
    return found


def bound_of(records: Iterable[RequestRecord], facts_of: Callable[[str], ModelFacts]) -> float:
    """US dollars of input, for the requests of a conversation together: `lower_bound` of each line of them.

    A cache belongs to one model. A summary reads the conversation's prefix, a digest shares nothing with it.
    """

    def line(record: RequestRecord) -> tuple[str, str]:
        return record.model, "chat" if record.purpose == "summary" else record.purpose

    return sum(
        lower_bound([BilledRequest(r.at, r.segments, r.usage or Usage()) for r in of_line], facts_of(model))
        for (model, _), of_line in groupby(sorted(records, key=line), key=line)
    )
