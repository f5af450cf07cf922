"""Where the cache markers of a request go, and what the provider will then read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lamella.cache.chain import Chain
from lamella.cache.ledger import Entry, Ledger
from lamella.core.errors import InvalidRequest
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Kind, Lifetime, Marker, SeedMarker, Segment, Ttl, Zone
from lamella.core.tokens import Usage

MAX_MARKERS = 4
LOOKBACK = 20
"""Positions that a marker looks back, itself included (PROVIDERS 1.1)."""


class MarkerPolicy(StrEnum):
    """Who decides where markers go; a setting apart from the layout."""

    PLANNER = "planner"
    SEED = "seed"
    AUTO_TAIL = "auto_tail"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Plan:
    """Markers in block order, and the prediction. `sizes[i]` is the estimate of the tokens up to block i."""

    chain: Chain
    markers: tuple[Marker, ...]
    hit: int | None
    read: int
    written: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a plan is made from, besides the chain and the ledger. `ttl` is asked of providers that sell several."""

    model: ModelFacts
    segments: Mapping[str, Segment]
    calibration: float
    now: datetime
    seed_markers: tuple[SeedMarker, ...] = ()
    ttl: Ttl | None = None


def policy_named(name: str) -> MarkerPolicy:
    """The policy of this name; raises `InvalidRequest` with the names there are."""
    try:
        return MarkerPolicy(name)
    except ValueError:
        raise InvalidRequest(
            f"There is no marker policy “{name}” for this layout.",
            hint="Choose one of " + ", ".join(policy.value for policy in MarkerPolicy) + ".",
            param="marker_policy",
        ) from None


def plan(chain: Chain, ledger: Ledger, facts: Facts, policy: MarkerPolicy) -> Plan:
    """Place the markers and predict the bill."""
    sizes = block_sizes(chain, facts)
    match policy:
        case MarkerPolicy.OFF:
            markers: tuple[Marker, ...] = ()
        case MarkerPolicy.AUTO_TAIL:
            markers = _tail(chain, facts)
        case MarkerPolicy.SEED:
            markers = _seeded(chain, facts)
        case MarkerPolicy.PLANNER:
            markers = _planned(chain, ledger, facts)
    if facts.model.markers is Markers.NONE:
        return _predict(chain, (), ledger, facts, sizes)
    return _predict(chain, markers, ledger, facts, sizes)


def _reach(model: ModelFacts) -> int:
    """Positions that a marker covers, itself included: OpenAI's explicit breakpoints match only where they stand."""
    return LOOKBACK if model.markers is Markers.ANTHROPIC else 1


def _life(facts: Facts) -> Ttl:
    """What was asked for where the provider sells it, else the shortest life that it sells."""
    lives = facts.model.lives
    return facts.ttl if facts.ttl in lives else lives[0]


def _tail(chain: Chain, facts: Facts) -> tuple[Marker, ...]:
    index = _last_markable(chain, len(chain.blocks))
    return () if index is None else (Marker(index, _life(facts), "the end of the request"),)


def _planned(chain: Chain, ledger: Ledger, facts: Facts) -> tuple[Marker, ...]:
    """The places of PROVIDERS 5.9: end of FIXED; last block before what moves; deepest live entry of before.

    Where something moves, the end of the turn is marked too: a tool loop reads it again before it has moved.
    """
    blocks, segments = chain.blocks, facts.segments
    fixed_end = next((i for i, b in enumerate(blocks) if segments[b.segment].zone is not Zone.FIXED), len(blocks))
    fixed = _last_markable(chain, fixed_end)
    moving = _moving(chain, facts)
    steady = _last_markable(chain, moving)
    end = _first(chain, facts, lambda s: s.zone is Zone.TRAILING)
    tail = _last_markable(chain, end) if end > moving and blocks[0].level == "tools" else None
    places: dict[int, str] = {}
    if fixed is not None and _lifetime(fixed, chain, facts) is Lifetime.SESSION:
        places[fixed] = "the end of what never changes"
    if steady is not None:
        places.setdefault(steady, "the last block before anything that moves")
    if tail is not None and _lifetime(tail, chain, facts) is not Lifetime.STEP:
        places.setdefault(tail, "the end of this turn, which its next step reads again")
    deepest = _deepest_entry(chain, ledger, facts.now, max(places)) if places else None
    if deepest is not None and _out_of_reach(deepest, places, facts) and blocks[deepest].markable:
        places.setdefault(deepest, "the end of the previous request, out of reach of the next marker")
    return tuple(Marker(index, _life(facts), why) for index, why in sorted(places.items()))


def _first(chain: Chain, facts: Facts, where: Callable[[Segment], bool]) -> int:
    """The index of the first block whose segment is so; their number when none is. Made for few such segments."""
    such = {id for id, segment in facts.segments.items() if where(segment)}
    if not such:
        return len(chain.blocks)
    return next((i for i, block in enumerate(chain.blocks) if block.segment in such), len(chain.blocks))


def _lifetime(index: int, chain: Chain, facts: Facts) -> Lifetime:
    return facts.segments[chain.blocks[index].segment].lifetime


def _out_of_reach(entry: int, places: Iterable[int], facts: Facts) -> bool:
    return all(not entry <= place < entry + _reach(facts.model) for place in places)


def _seeded(chain: Chain, facts: Facts) -> tuple[Marker, ...]:
    """The places that the layout's seed names; nothing is gained by fewer of them."""
    segments = [facts.segments[block.segment] for block in chain.blocks]
    ends = {
        SeedMarker.SYSTEM: _last(segments, lambda s: s.kind in (Kind.TOOLS, Kind.SYSTEM)),
        SeedMarker.SUMMARY: _last(segments, lambda s: s.kind is Kind.SUMMARY),
        SeedMarker.PRUNE: _last(segments, lambda s: s.letters.endswith("tr")),
        SeedMarker.TAIL: len(segments),
    }
    places: dict[int, str] = {}
    for seed in facts.seed_markers:
        index = _last_markable(chain, ends[seed])
        if ends[seed] and index is not None:
            places.setdefault(index, f"the seed's marker: {seed.value}")
    return tuple(Marker(index, _life(facts), why) for index, why in sorted(places.items()))


def _last(segments: Sequence[Segment], where: Callable[[Segment], bool]) -> int:
    """One more than the index of the last block whose segment is so; 0 when none is."""
    return next((i + 1 for i in range(len(segments) - 1, -1, -1) if where(segments[i])), 0)


def _moving(chain: Chain, facts: Facts) -> int:
    """The first block that may be gone or elsewhere in the next request."""
    return _first(chain, facts, lambda s: s.lifetime is not Lifetime.SESSION)


def _last_markable(chain: Chain, end: int) -> int | None:
    return next((i for i in range(end - 1, -1, -1) if chain.blocks[i].markable), None)


def _deepest_entry(chain: Chain, ledger: Ledger, now: datetime, end: int) -> int | None:
    return next((i for i in range(end, -1, -1) if ledger.live(chain.keys[i], now)), None)


def block_sizes(chain: Chain, facts: Facts) -> tuple[int, ...]:
    """The estimated tokens up to each block: a segment's estimate, split over its blocks by bytes."""
    segments, calibration = facts.segments, facts.calibration
    bytes_of: dict[str, int] = {}
    for block in chain.blocks:
        bytes_of[block.segment] = bytes_of.get(block.segment, 0) + len(block.data)
    total = 0.0
    sizes = []
    for block in chain.blocks:
        name = block.segment
        total += segments[name].tokens * len(block.data) / bytes_of[name]
        sizes.append(round(total * calibration))
    return tuple(sizes)


def _predict(chain: Chain, markers: tuple[Marker, ...], ledger: Ledger, facts: Facts, sizes: tuple[int, ...]) -> Plan:
    hit, entry = lookup(chain, markers, ledger, facts)
    read = entry.tokens if entry else 0
    last = _last_write(chain, markers, facts)
    written = 0
    if last is not None and (hit is None or last > hit):
        grown = sizes[last] - (sizes[hit] if hit is not None else 0)
        written = grown if read + grown >= facts.model.min_cacheable else 0
    return Plan(chain, markers, hit, read, written, sizes)


def _last_write(chain: Chain, markers: Sequence[Marker], facts: Facts) -> int | None:
    if facts.model.markers is Markers.NONE:
        return None
    return markers[-1].index if markers else None


def lookup(chain: Chain, markers: Sequence[Marker], ledger: Ledger, facts: Facts) -> tuple[int | None, Entry | None]:
    """The deepest live entry that the provider will find: from each marker, last first, as far as it looks back.

    Providers that cache without markers are taken to find the deepest prefix.
    """
    reach = _reach(facts.model) if facts.model.markers is not Markers.NONE else len(chain.blocks)
    ends = [marker.index for marker in reversed(markers)]
    if facts.model.markers is Markers.NONE:
        ends = [len(chain.blocks) - 1]
    for end in ends:
        for index in range(end, max(end - reach, -1), -1):
            entry = ledger.live(chain.keys[index], facts.now)
            if entry is not None:
                return index, entry
    return None, None


def note_written(made: Plan, ledger: Ledger, facts: Facts) -> None:
    """The response began: what it wrote can be read from now on, with its life since the request began.

    What is read lives on. Anthropic renews every marked entry, OpenAI only the one that was read (PROVIDERS 1.1, 2).
    """
    for place in _places(made, facts):
        key = made.chain.keys[place.index]
        if made.hit is not None and place.index <= made.hit:
            if facts.model.markers is Markers.ANTHROPIC:
                ledger.renew(key, facts.now)
        elif made.sizes[place.index] >= facts.model.min_cacheable:
            ledger.write(Entry(key, made.sizes[place.index], place.ttl, facts.now, exact=False))
    if made.hit is not None:
        ledger.renew(made.chain.keys[made.hit], facts.now)


def note_billed(made: Plan, usage: Usage, ledger: Ledger, facts: Facts) -> None:
    """The bill came: it corrects the sizes that `note_written` noted, and takes back what was too short to be cached.

    The billed count is exact at the last place; places before it get their share of it. A bill that nobody sent, an
    estimate, and figures that do not add up correct nothing.
    """
    places = _places(made, facts)
    if not places or usage.estimated or not usage.input or usage.fresh < 0:
        return
    last, billed = places[-1].index, usage.cache_read + usage.cache_write
    if facts.model.markers is Markers.NONE:
        last, billed = len(made.sizes) - 1, usage.input
    scale = billed / made.sizes[last] if made.sizes[last] else 0.0
    read = made.hit if made.hit is not None and usage.cache_read else -1
    for place in places:
        key, exact = made.chain.keys[place.index], place.index == last
        known = ledger.live(key, facts.now)
        tokens = round(made.sizes[place.index] * scale)
        if tokens < facts.model.min_cacheable:
            ledger.forget(key)
        elif place.index > read or (known is not None and not known.exact):
            used_at = facts.now if known is None else known.used_at
            ledger.write(Entry(key, tokens, place.ttl, used_at, exact))


def _places(made: Plan, facts: Facts) -> tuple[Marker, ...]:
    """Where a request is written: at its markers. A provider without markers keeps all that comes back: what stays."""
    if facts.model.markers is not Markers.NONE:
        return made.markers
    end = _moving(made.chain, facts)
    return (Marker(end - 1, _life(facts), "the end of what stays"),) if end else ()
