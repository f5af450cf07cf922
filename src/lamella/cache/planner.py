"""Places the markers of a request, and predicts what the provider will read from its cache and write to it.

A marker ends a prefix that the provider writes, and that a later request may read. Anthropic takes four, and looks back
20 blocks from each; OpenAI's explicit breakpoints match only where they stand; other providers cache without any. A
token costs 1 at the plain price, about 1.25 when it is written (2 for an hour) and 0.1 when it is read. So the planner
spends markers by how much hangs on each:

1. the last block before anything that moves (`STEADY`), or the end of the turn that its next step reads again (`TURN`);
2. the end of the previous request, if the next marker does not reach back to it (`AGAIN`);
3. the end of what never changes (`FIXED`), the last block that the next pruning spares (`SPARED`), and the end of what
   a compaction leaves (`SYSTEM`): they cost nothing more, and are read when what follows them has changed.

What is new is written only if it is likely to be read before it expires (`forecast.life_worth`). Example: 20,000 new
tokens, and a next request within five minutes with a chance of 0.85. Writing costs 5,000 more than not writing; reading
saves 18,000, so it pays from a chance of about 5,000 / 18,000 = 0.28 on. Of the last request of a conversation nothing
is written.

The prediction comes from the ledger: the deepest known prefix within reach of a marker is read, the rest up to the last
marker is written, what follows is paid in full. `note_written` tells the ledger when an answer begins, `note_billed`
corrects it by the bill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from lamella.cache.forecast import RequestForecast, Tail, life_worth, worth_a_step
from lamella.cache.ledger import Entry, Ledger
from lamella.cache.window import Chain, PlannedWindow, window_of
from lamella.core.errors import InvalidRequest
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Kind, Lifetime, Marker, SeedMarker, Segment, SegmentNote, Ttl, Zone
from lamella.core.tokens import Usage

MAX_MARKERS = 4
LOOKBACK = 20
"""Positions that a marker looks back, itself included."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a plan, in addition to the chain and the ledger. `ttl` is the requested lifetime, for providers that
    sell several.

    `forecast` is the conversation's; without one every marker is assumed to be read in time. `taken` is the number of
    markers that are already placed in the request.
    """

    model: ModelFacts
    segments: Mapping[str, Segment]
    calibration: float
    now: datetime
    seed_markers: tuple[SeedMarker, ...] = ()
    ttl: Ttl | None = None
    forecast: RequestForecast | None = None
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Markers in block order, and why others are missing."""

    markers: tuple[Marker, ...] = ()
    notes: tuple[SegmentNote, ...] = ()


def reach(model: ModelFacts) -> int:
    """The number of positions that a marker covers, including its own. OpenAI's explicit breakpoints cover only their
    own.
    """
    return LOOKBACK if model.markers is Markers.ANTHROPIC else 1


def life(facts: Facts) -> Ttl:
    """The requested lifetime if the provider sells it, else the shortest."""
    lives = facts.model.lives
    return facts.ttl if facts.ttl in lives else lives[0]


def out_of_reach(entry: int, places: Iterable[int], facts: Facts) -> bool:
    """Whether no marker at `places` finds the entry."""
    return all(not entry <= place < entry + reach(facts.model) for place in places)


def deepest_entry(chain: Chain, ledger: Ledger, now: datetime, end: int) -> int | None:
    """The last block up to `end` whose prefix can be read now."""
    return next((i for i in range(end, -1, -1) if ledger.live(chain.keys[i], now)), None)


STEADY = "the last block before anything that moves"
AGAIN = "the end of the previous request, out of reach of the next marker"
TURN = "the end of this turn, which its next step reads again"
FIXED = "the end of what never changes"
SPARED = "the last block that the next pruning will spare"
SYSTEM = "the end of what a compaction leaves as it is"


def planned(window: PlannedWindow, ledger: Ledger, facts: Facts) -> Placed:
    """The places for markers, most valuable first. Cached prefixes are marked in any case.

    If a segment moves, the end of the turn is marked too: a tool loop reads it again before it moves.
    """
    blocks = window.chain.blocks
    moves = window.moving()
    steady = window.last_markable(moves)
    tail = _turn_end(window, moves)
    ends = [place for place in (steady, tail) if place is not None]
    if not ends:
        return Placed()
    deepest = deepest_entry(window.chain, ledger, facts.now, max(ends))
    chosen = _life_of(steady if steady is not None else max(ends), deepest, window, ledger, facts)
    notes: list[SegmentNote] = []
    places: dict[int, str] = {}
    if chosen is None:
        why = "not written to the cache: the next request is not likely to come in time"
        notes.append(SegmentNote(blocks[max(ends)].segment, why))
        chosen = life(facts)
    elif steady is not None:
        places[steady] = STEADY
    written = bool(places)
    if tail is not None and _goes_on(facts):
        places.setdefault(tail, TURN)
    if deepest is not None and (not places or out_of_reach(deepest, places, facts)):
        if blocks[deepest].markable:
            places.setdefault(deepest, AGAIN)
        else:
            why = "cached, and out of reach: the provider takes no marker on this block"
            notes.append(SegmentNote(blocks[deepest].segment, why))
    for place, why in _free(window, ledger, facts, deepest, moves).items():
        if (written or place <= (deepest if deepest is not None else -1)) and len(places) < MAX_MARKERS:
            places.setdefault(place, why)
    lives = {TURN: life(facts)}  # it stands last, where a shorter life may follow a longer one
    markers = (Marker(index, lives.get(why, chosen), why) for index, why in sorted(places.items()))
    return Placed(tuple(markers), tuple(notes))


def only_read(placed: Placed, window: PlannedWindow, ledger: Ledger, facts: Facts) -> Placed:
    """Only the places that write nothing, and the end of the cached prefix. Used for a request that no other continues
    from, since its writes would never be read.
    """
    deepest = deepest_entry(window.chain, ledger, facts.now, len(window.chain.blocks) - 1)
    if deepest is None:
        return Placed(notes=placed.notes)
    markers = [marker for marker in placed.markers if marker.index <= deepest]
    if out_of_reach(deepest, [marker.index for marker in markers], facts) and window.chain.blocks[deepest].markable:
        markers.append(Marker(deepest, life(facts), AGAIN))
    return Placed(tuple(markers), placed.notes)


def _goes_on(facts: Facts) -> bool:
    forecast = facts.forecast
    return forecast is None or facts.ttl is not None or worth_a_step(forecast, facts.model, life(facts))


def _turn_end(window: PlannedWindow, moves: int) -> int | None:
    """The end of the turn, if a segment before it moves, from block `moves` on."""
    trailing, blocks = Zone.TRAILING, window.chain.blocks
    if moves == len(blocks) or blocks[0].level != "tools":
        return None
    end = window.first(segment.zone is trailing for segment in window.segments)
    tail = window.last_markable(end) if end > moves else None
    return tail if tail is not None and window.segment(tail).lifetime is not Lifetime.STEP else None


def _life_of(end: int, deepest: int | None, window: PlannedWindow, ledger: Ledger, facts: Facts) -> Ttl | None:
    """The lifetime for a prefix up to `end`. Returns None if writing it does not pay.

    A cached prefix is read whatever the marker says. A requested lifetime is always used.
    """
    if facts.forecast is None or facts.ttl is not None:
        return life(facts)
    whole, cached, lives = window.tokens(end), 0, None
    if deepest is not None:
        entry = ledger.live(window.chain.keys[deepest], facts.now)
        cached, lives = min(window.tokens(deepest), whole), entry.ttl if entry else None
    return life_worth(Tail(whole, cached, lives), facts.forecast, facts.model)


def _free(window: PlannedWindow, ledger: Ledger, facts: Facts, deepest: int | None, moves: int) -> Mapping[int, str]:
    """Places before the others, most expensive first: they cost nothing more, because the blocks up to the last marker
    are written anyway.
    """
    segments = window.segments
    places: dict[int, str] = {}
    fixed = window.last_markable(window.first(segment.zone is not Zone.FIXED for segment in segments))
    spared = _spared(window, ledger, facts, deepest)
    if fixed is not None and window.segment(fixed).lifetime is Lifetime.SESSION:
        places[fixed] = FIXED
    if spared is not None:
        places.setdefault(spared, SPARED)
    kinds = [segment.kind for segment in segments]
    if Kind.SUMMARY in kinds:
        system = window.last_markable(min(window.starts[kinds.index(Kind.SUMMARY)], moves))
        if system is not None:
            places.setdefault(system, SYSTEM)
    return places


def _spared(window: PlannedWindow, ledger: Ledger, facts: Facts, deepest: int | None) -> int | None:
    """The block before the first result that a pruning may take, if it is written now; else the deepest entry before
    it.
    """
    end = window.first("TR" in segment.letters for segment in window.segments)
    if not 0 < end < len(window.chain.blocks):
        return None
    place = window.last_markable(end)
    if place is not None and (deepest is None or place > deepest):
        return place
    entry = deepest_entry(window.chain, ledger, facts.now, end - 1)
    return entry if entry is not None and window.chain.blocks[entry].markable else None


class MarkerPolicy(StrEnum):
    """How markers are placed; a setting independent of the layout."""

    PLANNER = "planner"
    SEED = "seed"
    AUTO_TAIL = "auto_tail"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Plan:
    """Markers in block order, and the prediction. `notes` say which markers are missing, and why."""

    window: PlannedWindow
    markers: tuple[Marker, ...]
    hit: int | None
    read: int
    written: int
    notes: tuple[SegmentNote, ...] = ()

    @property
    def chain(self) -> Chain:
        """The keys of the prefixes."""
        return self.window.chain


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
    window = window_of(chain, facts.segments, facts.model, facts.calibration)
    placed = Placed()
    if facts.model.markers is not Markers.NONE:
        match policy:
            case MarkerPolicy.OFF:
                pass
            case MarkerPolicy.AUTO_TAIL:
                placed = Placed(_tail(window, facts))
            case MarkerPolicy.SEED:
                placed = Placed(_seeded(window, facts))
            case MarkerPolicy.PLANNER:
                placed = planned(window, ledger, facts)
        if facts.forecast is not None and facts.forecast.is_over and policy is not MarkerPolicy.OFF:
            placed = only_read(placed, window, ledger, facts)
    free = max(0, MAX_MARKERS - facts.taken)
    notes = placed.notes
    if len(placed.markers) > free:
        left_out = placed.markers[: len(placed.markers) - free]
        why = f"a request takes {MAX_MARKERS} markers, and {facts.taken} of them were placed by the caller"
        notes += tuple(SegmentNote(chain.blocks[one.index].segment, f"not marked: {why}") for one in left_out)
    markers = placed.markers[len(placed.markers) - min(free, len(placed.markers)) :]
    return predicted(window, markers, notes, ledger, facts)


def _tail(window: PlannedWindow, facts: Facts) -> tuple[Marker, ...]:
    index = window.last_markable(len(window.chain.blocks))
    return () if index is None else (Marker(index, life(facts), "the end of the request"),)


def _seeded(window: PlannedWindow, facts: Facts) -> tuple[Marker, ...]:
    """The places that the layout's seed names; nothing is gained by fewer of them."""
    ends = {
        SeedMarker.SYSTEM: _end(window, lambda s: s.kind in (Kind.TOOLS, Kind.SYSTEM)),
        SeedMarker.SUMMARY: _end(window, lambda s: s.kind is Kind.SUMMARY),
        SeedMarker.PRUNE: _end(window, lambda s: s.letters.endswith("tr")),
        SeedMarker.TAIL: len(window.chain.blocks),
    }
    places: dict[int, str] = {}
    for seed in facts.seed_markers:
        index = window.last_markable(ends[seed])
        if index is not None:
            places.setdefault(index, f"the seed's marker: {seed.value}")
    return tuple(Marker(index, life(facts), why) for index, why in sorted(places.items()))


def _end(window: PlannedWindow, where: Callable[[Segment], bool]) -> int:
    """The end of the last segment for which `where` is true; 0 if there is none."""
    segments = window.segments
    return window.starts[next((n for n in range(len(segments), 0, -1) if where(segments[n - 1])), 0)]


def predicted(
    window: PlannedWindow, markers: tuple[Marker, ...], notes: tuple[SegmentNote, ...], ledger: Ledger, facts: Facts
) -> Plan:
    """The plan with these markers: what will be read and written."""
    hit, entry = lookup(window.chain, markers, ledger, facts)
    read = entry.tokens if entry else 0
    last = _last_write(markers, facts)
    written = 0
    if last is not None and (hit is None or last > hit):
        grown = window.tokens(last) - (window.tokens(hit) if hit is not None else 0)
        written = grown if read + grown >= facts.model.min_cacheable else 0
    return Plan(window, markers, hit, read, written, notes)


def _last_write(markers: Sequence[Marker], facts: Facts) -> int | None:
    if facts.model.markers is Markers.NONE:
        return None
    return markers[-1].index if markers else None


def lookup(chain: Chain, markers: Sequence[Marker], ledger: Ledger, facts: Facts) -> tuple[int | None, Entry | None]:
    """The deepest live entry that the provider will find, looking back from each marker, last first.

    Providers that cache without markers are assumed to find the deepest prefix.
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


def note_written(plan: Plan, ledger: Ledger, facts: Facts) -> None:
    """Note that the response began: what it wrote can be read, with a lifetime counted from the start of the request.

    Reads renew entries: Anthropic renews every marked entry, OpenAI only the one that was read.
    """
    for place in _places(plan, facts):
        key = plan.chain.keys[place.index]
        if plan.hit is not None and place.index <= plan.hit:
            if facts.model.markers is Markers.ANTHROPIC:
                ledger.renew(key, facts.now)
        else:
            measured = ledger.measured(key)
            tokens = plan.window.tokens(place.index) if measured is None else measured
            if tokens >= facts.model.min_cacheable:
                ledger.write(Entry(key, tokens, place.ttl, facts.now, exact=measured is not None))
    if plan.hit is not None:
        ledger.renew(plan.chain.keys[plan.hit], facts.now)


def note_billed(plan: Plan, usage: Usage, ledger: Ledger, facts: Facts) -> None:
    """Note the bill: it corrects the sizes that `note_written` noted, and removes entries that were too short to be
    cached.

    The billed count is exact at the last place, the tokens read at the hit; sizes in between are interpolated.
    Estimated or inconsistent bills correct nothing.
    """
    places = _places(plan, facts)
    if not places or usage.input_estimated or not usage.input or usage.fresh < 0:
        return
    ends = _measured_by(plan, places[-1].index, usage, ledger, facts)
    read = plan.hit if plan.hit is not None and usage.cache_read else -1
    for place in places:
        if place.index <= read:
            continue
        key = plan.chain.keys[place.index]
        tokens, exact = _tokens_at(place.index, plan.window, ends)
        if tokens and not exact and (measured := ledger.measured(key)) is not None:
            tokens, exact = measured, True
        known = ledger.live(key, facts.now)
        if tokens < facts.model.min_cacheable:
            ledger.forget(key)
        else:
            used_at = facts.now if known is None else known.used_at
            ledger.write(Entry(key, tokens, place.ttl if known is None else known.ttl, used_at, exact))
    hit = ledger.live(plan.chain.keys[read], facts.now) if len(ends) > 2 else None
    if hit is not None and not hit.exact:
        ledger.write(replace(hit, tokens=usage.cache_read, exact=True))


def _measured_by(plan: Plan, last: int, usage: Usage, ledger: Ledger, facts: Facts) -> list[tuple[int, int]]:
    """The blocks up to which a bill counts, the first before all, and their tokens."""
    if facts.model.markers is Markers.NONE:
        return [(-1, 0), (len(plan.chain.blocks) - 1, usage.input)]
    ends = [(-1, 0), (last, usage.cache_read + usage.cache_write)]
    if plan.hit is not None and _was_hit(plan, plan.hit, usage.cache_read, ledger, facts):
        ends.insert(1, (plan.hit, usage.cache_read))
    return ends


def _was_hit(plan: Plan, hit: int, read: int, ledger: Ledger, facts: Facts) -> bool:
    """Whether the predicted prefix was read: by its measured tokens, or because the figure is nearer to its estimate
    than to the entry before it, which a provider reads if it lost this one.
    """
    if ledger.measured(plan.chain.keys[hit]) is not None:
        return read == plan.read
    before = deepest_entry(plan.chain, ledger, facts.now, hit - 1)
    entry = ledger.live(plan.chain.keys[before], facts.now) if before is not None else None
    return abs(read - plan.read) < abs(read - (entry.tokens if entry is not None else 0))


def _tokens_at(index: int, window: PlannedWindow, ends: Sequence[tuple[int, int]]) -> tuple[int, bool]:
    """The tokens up to a block, and whether they were measured: else its share between the measured ends around it."""
    (before, low), (after, high) = next(pair for pair in pairwise(ends) if index <= pair[1][0])
    if index == after:
        return high, True
    start = window.tokens(before) if before >= 0 else 0
    share = (window.tokens(index) - start) / (window.tokens(after) - start or 1)
    return low + round((high - low) * share), False


def _places(plan: Plan, facts: Facts) -> tuple[Marker, ...]:
    """The places that a request writes: its markers. A provider without markers keeps everything that stays in the
    window.
    """
    if facts.model.markers is not Markers.NONE:
        return plan.markers
    end = plan.window.moving()
    return (Marker(end - 1, life(facts), "the end of what stays"),) if end else ()
