"""The places of a request where a marker can stand, and what is known of them; `plan.py` and `planner.py` choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lamella.cache.chain import Chain
from lamella.cache.ledger import Ledger
from lamella.cache.returns import Rhythm
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Marker, SeedMarker, Segment, SegmentNote, Ttl

MAX_MARKERS = 4
LOOKBACK = 20
"""Positions that a marker looks back, itself included (PROVIDERS 1.1)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a plan is made from, besides the chain and the ledger. `ttl` is asked of providers that sell several.

    `rhythm` is that of the conversation; without one every marker is taken to be read in time. `taken` are markers that
    somebody else has placed in the same request.
    """

    model: ModelFacts
    segments: Mapping[str, Segment]
    calibration: float
    now: datetime
    seed_markers: tuple[SeedMarker, ...] = ()
    ttl: Ttl | None = None
    rhythm: Rhythm | None = None
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Markers in block order, and why others are missing."""

    markers: tuple[Marker, ...] = ()
    notes: tuple[SegmentNote, ...] = ()


def reach(model: ModelFacts) -> int:
    """Positions that a marker covers, itself included: OpenAI's explicit breakpoints match only where they stand."""
    return LOOKBACK if model.markers is Markers.ANTHROPIC else 1


def life(facts: Facts) -> Ttl:
    """What was asked for where the provider sells it, else the shortest life that it sells."""
    lives = facts.model.lives
    return facts.ttl if facts.ttl in lives else lives[0]


def out_of_reach(entry: int, places: Iterable[int], facts: Facts) -> bool:
    """Whether no marker at `places` finds the entry."""
    return all(not entry <= place < entry + reach(facts.model) for place in places)


def deepest_entry(chain: Chain, ledger: Ledger, now: datetime, end: int) -> int | None:
    """The last block up to `end` whose prefix can be read now."""
    return next((i for i in range(end, -1, -1) if ledger.live(chain.keys[i], now)), None)
