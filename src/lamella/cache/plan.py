"""Where the cache markers of a request go, and what the provider will then read and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from lamella.cache.chain import Chain
from lamella.cache.ledger import Entry, Ledger
from lamella.cache.places import LOOKBACK as LOOKBACK
from lamella.cache.places import MAX_MARKERS as MAX_MARKERS
from lamella.cache.places import Facts as Facts
from lamella.cache.places import Placed, last_markable, life, moving, reach
from lamella.cache.planner import planned
from lamella.core.errors import InvalidRequest
from lamella.core.models import Markers
from lamella.core.prompt import Kind, Marker, SeedMarker, Segment, SegmentNote
from lamella.core.tokens import Usage

NEAR = 0.05
"""How far an estimated size may be off, as a share: a read that is further off was of another block."""


class MarkerPolicy(StrEnum):
    """Who decides where markers go; a setting apart from the layout."""

    PLANNER = "planner"
    SEED = "seed"
    AUTO_TAIL = "auto_tail"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Plan:
    """Markers in block order, and the prediction. `sizes[i]` is the estimate of the tokens up to block i.

    `notes` say which markers are missing, and why.
    """

    chain: Chain
    markers: tuple[Marker, ...]
    hit: int | None
    read: int
    written: int
    sizes: tuple[int, ...]
    notes: tuple[SegmentNote, ...] = ()


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
    placed = Placed()
    if facts.model.markers is not Markers.NONE:
        match policy:
            case MarkerPolicy.OFF:
                pass
            case MarkerPolicy.AUTO_TAIL:
                placed = Placed(_tail(chain, facts))
            case MarkerPolicy.SEED:
                placed = Placed(_seeded(chain, facts))
            case MarkerPolicy.PLANNER:
                placed = planned(chain, ledger, facts, sizes)
    free = max(0, MAX_MARKERS - facts.taken)
    notes = placed.notes
    if len(placed.markers) > free:
        left_out = placed.markers[: len(placed.markers) - free]
        why = f"a request takes {MAX_MARKERS} markers, and {facts.taken} of them were placed by the caller"
        notes += tuple(SegmentNote(chain.blocks[one.index].segment, f"not marked: {why}") for one in left_out)
    markers = placed.markers[len(placed.markers) - min(free, len(placed.markers)) :]
    return replace(_predict(chain, markers, ledger, facts, sizes), notes=notes)


def _tail(chain: Chain, facts: Facts) -> tuple[Marker, ...]:
    index = last_markable(chain, len(chain.blocks))
    return () if index is None else (Marker(index, life(facts), "the end of the request"),)


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
        index = last_markable(chain, ends[seed])
        if ends[seed] and index is not None:
            places.setdefault(index, f"the seed's marker: {seed.value}")
    return tuple(Marker(index, life(facts), why) for index, why in sorted(places.items()))


def _last(segments: Sequence[Segment], where: Callable[[Segment], bool]) -> int:
    """One more than the index of the last block whose segment is so; 0 when none is."""
    return next((i + 1 for i in range(len(segments) - 1, -1, -1) if where(segments[i])), 0)


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
    positions = reach(facts.model) if facts.model.markers is not Markers.NONE else len(chain.blocks)
    ends = [marker.index for marker in reversed(markers)]
    if facts.model.markers is Markers.NONE:
        ends = [len(chain.blocks) - 1]
    for end in ends:
        for index in range(end, max(end - positions, -1), -1):
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
        else:
            measured = ledger.measured(key)
            tokens = made.sizes[place.index] if measured is None else measured
            if tokens >= facts.model.min_cacheable:
                ledger.write(Entry(key, tokens, place.ttl, facts.now, exact=measured is not None))
    if made.hit is not None:
        ledger.renew(made.chain.keys[made.hit], facts.now)


def note_billed(made: Plan, usage: Usage, ledger: Ledger, facts: Facts) -> None:
    """The bill came: it corrects the sizes that `note_written` noted, and takes back what was too short to be cached.

    The billed count is exact at the last place, and what was read at the hit; places between get their share. A bill
    that nobody sent, an estimate, and figures that do not add up correct nothing.
    """
    places = _places(made, facts)
    if not places or usage.estimated or not usage.input or usage.fresh < 0:
        return
    ends = _measured_by(made, places[-1].index, usage, facts)
    read = made.hit if made.hit is not None and usage.cache_read else -1
    for place in places:
        if place.index <= read:
            continue
        key = made.chain.keys[place.index]
        tokens, exact = _tokens_at(place.index, made.sizes, ends)
        if not exact and (measured := ledger.measured(key)) is not None:
            tokens, exact = measured, True
        known = ledger.live(key, facts.now)
        if tokens < facts.model.min_cacheable:
            ledger.forget(key)
        else:
            used_at = facts.now if known is None else known.used_at
            ledger.write(Entry(key, tokens, place.ttl if known is None else known.ttl, used_at, exact))
    hit = ledger.live(made.chain.keys[read], facts.now) if len(ends) > 2 else None
    if hit is not None and not hit.exact:
        ledger.write(replace(hit, tokens=usage.cache_read, exact=True))


def _measured_by(made: Plan, last: int, usage: Usage, facts: Facts) -> list[tuple[int, int]]:
    """The blocks up to which a bill counts, the first before all, and their tokens.

    What was read counts where it is about what was predicted: then the predicted block was hit.
    """
    if facts.model.markers is Markers.NONE:
        return [(-1, 0), (len(made.sizes) - 1, usage.input)]
    ends = [(-1, 0), (last, usage.cache_read + usage.cache_write)]
    if made.hit is not None and made.hit <= last and abs(usage.cache_read - made.read) <= NEAR * made.read:
        ends.insert(1, (made.hit, usage.cache_read))
    return ends


def _tokens_at(index: int, sizes: Sequence[int], ends: Sequence[tuple[int, int]]) -> tuple[int, bool]:
    """The tokens up to a block, and whether they were measured: else its share between the measured ends around it."""
    (before, low), (after, high) = next(pair for pair in pairwise(ends) if index <= pair[1][0])
    if index == after:
        return high, True
    start = sizes[before] if before >= 0 else 0
    return low + round((high - low) * (sizes[index] - start) / (sizes[after] - start or 1)), False


def _places(made: Plan, facts: Facts) -> tuple[Marker, ...]:
    """Where a request is written: at its markers. A provider without markers keeps all that comes back: what stays."""
    if facts.model.markers is not Markers.NONE:
        return made.markers
    end = moving(made.chain, facts)
    return (Marker(end - 1, life(facts), "the end of what stays"),) if end else ()
