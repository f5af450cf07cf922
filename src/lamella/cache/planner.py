"""The planner's four places, and which of them are worth being written now (PROVIDERS 5.2, 5.3, 5.9)."""

from __future__ import annotations

from collections.abc import Mapping

from lamella.cache.ledger import Ledger
from lamella.cache.places import MAX_MARKERS, Facts, Placed, deepest_entry, life, out_of_reach
from lamella.cache.returns import Tail, life_worth, worth_a_step
from lamella.cache.window import Window
from lamella.core.prompt import Kind, Lifetime, Marker, SegmentNote, Ttl, Zone

STEADY = "the last block before anything that moves"
AGAIN = "the end of the previous request, out of reach of the next marker"
TURN = "the end of this turn, which its next step reads again"
FIXED = "the end of what never changes"
SPARED = "the last block that the next pruning will spare"
SYSTEM = "the end of what a compaction leaves as it is"


def planned(window: Window, ledger: Ledger, facts: Facts) -> Placed:
    """The places of PROVIDERS 5.9, by how much hangs on each; what is already cached is marked in any case.

    Where something moves, the end of the turn is marked too: a tool loop reads it again before it has moved.
    """
    blocks = window.chain.blocks
    moves = window.moving()
    steady = window.last_markable(moves)
    tail = _tail(window, moves)
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
    lives = {TURN: life(facts)}  # it stands last, where a shorter life may follow a longer one (PROVIDERS 1.1)
    markers = (Marker(index, lives.get(why, chosen), why) for index, why in sorted(places.items()))
    return Placed(tuple(markers), tuple(notes))


def only_read(placed: Placed, window: Window, ledger: Ledger, facts: Facts) -> Placed:
    """Of these places those that write nothing, and the end of what is cached: of a request that no other follows,
    whatever policy places its markers, nothing would ever be read."""
    deepest = deepest_entry(window.chain, ledger, facts.now, len(window.chain.blocks) - 1)
    if deepest is None:
        return Placed(notes=placed.notes)
    markers = [marker for marker in placed.markers if marker.index <= deepest]
    if out_of_reach(deepest, [marker.index for marker in markers], facts) and window.chain.blocks[deepest].markable:
        markers.append(Marker(deepest, life(facts), AGAIN))
    return Placed(tuple(markers), placed.notes)


def _goes_on(facts: Facts) -> bool:
    rhythm = facts.rhythm
    return rhythm is None or facts.ttl is not None or worth_a_step(rhythm, facts.model, life(facts))


def _tail(window: Window, moves: int) -> int | None:
    """The end of the turn, where something that moves stands before it, from the block `moves` on."""
    trailing, blocks = Zone.TRAILING, window.chain.blocks
    if moves == len(blocks) or blocks[0].level != "tools":
        return None
    end = window.first(segment.zone is trailing for segment in window.segments)
    tail = window.last_markable(end) if end > moves else None
    return tail if tail is not None and window.segment(tail).lifetime is not Lifetime.STEP else None


def _life_of(end: int, deepest: int | None, window: Window, ledger: Ledger, facts: Facts) -> Ttl | None:
    """The life that a tail up to `end` is written with; None where writing it does not pay.

    What is cached is read whatever its marker says. A life that was asked for is what somebody wants to pay.
    """
    if facts.rhythm is None or facts.ttl is not None:
        return life(facts)
    whole, cached, lives = window.tokens(end), 0, None
    if deepest is not None:
        entry = ledger.live(window.chain.keys[deepest], facts.now)
        cached, lives = min(window.tokens(deepest), whole), entry.ttl if entry else None
    return life_worth(Tail(whole, cached, lives), facts.rhythm, facts.model)


def _free(window: Window, ledger: Ledger, facts: Facts, deepest: int | None, moves: int) -> Mapping[int, str]:
    """Places before the others, the dearest first: what is written up to the last marker costs no more with these."""
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


def _spared(window: Window, ledger: Ledger, facts: Facts, deepest: int | None) -> int | None:
    """The block before the first result that a pruning can still take, where it is written now; else the deepest entry
    before it (PROVIDERS 5.9)."""
    end = window.first("TR" in segment.letters for segment in window.segments)
    if not 0 < end < len(window.chain.blocks):
        return None
    place = window.last_markable(end)
    if place is not None and (deepest is None or place > deepest):
        return place
    entry = deepest_entry(window.chain, ledger, facts.now, end - 1)
    return entry if entry is not None and window.chain.blocks[entry].markable else None
