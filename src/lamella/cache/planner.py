"""The planner's four places, and which of them are worth being written now (PROVIDERS 5.2, 5.3, 5.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella.cache.chain import Chain
from lamella.cache.ledger import Ledger
from lamella.cache.places import (
    MAX_MARKERS,
    Facts,
    Placed,
    deepest_entry,
    first,
    last_markable,
    life,
    lifetime,
    moving,
    out_of_reach,
)
from lamella.cache.returns import Tail, life_worth, worth_a_step
from lamella.core.prompt import Kind, Lifetime, Marker, SegmentNote, Ttl, Zone

STEADY = "the last block before anything that moves"
AGAIN = "the end of the previous request, out of reach of the next marker"
TURN = "the end of this turn, which its next step reads again"
FIXED = "the end of what never changes"
SPARED = "the last block that the next pruning will spare"
SYSTEM = "the end of what a compaction leaves as it is"


def planned(chain: Chain, ledger: Ledger, facts: Facts, sizes: Sequence[int]) -> Placed:
    """The places of PROVIDERS 5.9, by how much hangs on each; what is already cached is marked in any case.

    Where something moves, the end of the turn is marked too: a tool loop reads it again before it has moved.
    """
    moves = moving(chain, facts)
    steady = last_markable(chain, moves)
    tail = _tail(chain, facts, moves)
    ends = [place for place in (steady, tail) if place is not None]
    if not ends:
        return Placed()
    deepest = deepest_entry(chain, ledger, facts.now, max(ends))
    chosen = _life_of(steady if steady is not None else max(ends), deepest, chain, ledger, facts, sizes)
    notes: list[SegmentNote] = []
    places: dict[int, str] = {}
    if chosen is None:
        segment = chain.blocks[max(ends)].segment
        notes.append(SegmentNote(segment, "not written to the cache: the next request is not likely to come in time"))
        chosen = life(facts)
    elif steady is not None:
        places[steady] = STEADY
    written = bool(places)
    if tail is not None and _goes_on(facts, chosen):
        places.setdefault(tail, TURN)
    if deepest is not None and (not places or out_of_reach(deepest, places, facts)):
        if chain.blocks[deepest].markable:
            places.setdefault(deepest, AGAIN)
        else:
            why = "cached, and out of reach: the provider takes no marker on this block"
            notes.append(SegmentNote(chain.blocks[deepest].segment, why))
    for place, why in _free(chain, ledger, facts, deepest, moves).items():
        if (written or place <= (deepest if deepest is not None else -1)) and len(places) < MAX_MARKERS:
            places.setdefault(place, why)
    return Placed(tuple(Marker(index, chosen, why) for index, why in sorted(places.items())), tuple(notes))


def _goes_on(facts: Facts, chosen: Ttl) -> bool:
    rhythm = facts.rhythm
    return rhythm is None or facts.ttl is not None or worth_a_step(rhythm, facts.model, chosen)


def _tail(chain: Chain, facts: Facts, moves: int) -> int | None:
    """The end of the turn, where something that moves stands before it, from the block `moves` on."""
    end = first(chain, facts, lambda s: s.zone is Zone.TRAILING)
    if end <= moves or chain.blocks[0].level != "tools":
        return None
    tail = last_markable(chain, end)
    return tail if tail is not None and lifetime(tail, chain, facts) is not Lifetime.STEP else None


def _life_of(
    end: int, deepest: int | None, chain: Chain, ledger: Ledger, facts: Facts, sizes: Sequence[int]
) -> Ttl | None:
    """The life that a tail up to `end` is written with; None where writing it does not pay.

    One life for all markers of a request: a longer one would have to stand before a shorter one (PROVIDERS 1.1), and
    what is cached is read whatever its marker says. A life that was asked for is what somebody wants to pay.
    """
    if facts.rhythm is None or facts.ttl is not None:
        return life(facts)
    entry = ledger.live(chain.keys[deepest], facts.now) if deepest is not None else None
    cached = min(sizes[deepest], sizes[end]) if deepest is not None else 0
    return life_worth(Tail(sizes[end], cached, entry.ttl if entry else None), facts.rhythm, facts.model)


def _free(chain: Chain, ledger: Ledger, facts: Facts, deepest: int | None, moves: int) -> Mapping[int, str]:
    """Places before the others, the dearest first: what is written up to the last marker costs no more with these."""
    blocks, segments = chain.blocks, facts.segments
    places: dict[int, str] = {}
    fixed = last_markable(chain, first(chain, facts, lambda s: s.zone is not Zone.FIXED))
    spared = _spared(chain, ledger, facts, deepest)
    if fixed is not None and lifetime(fixed, chain, facts) is Lifetime.SESSION:
        places[fixed] = FIXED
    if spared is not None:
        places.setdefault(spared, SPARED)
    summary = next((i for i, b in enumerate(blocks) if segments[b.segment].kind is Kind.SUMMARY), None)
    system = last_markable(chain, min(summary, moves)) if summary else None
    if system is not None:
        places.setdefault(system, SYSTEM)
    return places


def _spared(chain: Chain, ledger: Ledger, facts: Facts, deepest: int | None) -> int | None:
    """The block before the first result that a pruning can still take, where it is written now; else the deepest entry
    before it (PROVIDERS 5.9)."""
    if not any(segment.kind is Kind.STEP for segment in facts.segments.values()):
        return None
    blocks = chain.blocks
    end = next((i for i, b in enumerate(blocks) if "TR" in facts.segments[b.segment].letters), None)
    if not end:
        return None
    place = last_markable(chain, end)
    if place is not None and (deepest is None or place > deepest):
        return place
    entry = deepest_entry(chain, ledger, facts.now, end - 1)
    return entry if entry is not None and blocks[entry].markable else None
