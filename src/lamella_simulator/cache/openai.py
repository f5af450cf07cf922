"""OpenAI's prompt cache from GPT-5.6 on: message endings and explicit breakpoints, at most 4 writes (PROVIDERS 2)."""

from __future__ import annotations

from lamella_simulator.blocks import Prefix
from lamella_simulator.cache.ledger import Ledger, Outcome, Write
from lamella_simulator.settings import Settings

SHORT = 1_800
LONG = 43_200
MAX_WRITES = 4


def account(prefix: Prefix, *, implicit: bool, seconds: int, ledger: Ledger, now: float, settings: Settings) -> Outcome:
    """What a request reads and writes; `implicit` is the default mode, `seconds` the life of implicit writes."""
    explicit = [position for position, block in enumerate(prefix.blocks) if block.marker is not None]
    candidates = readable(prefix, explicit, implicit, settings)
    hit = find_hit(prefix, candidates, ledger, now, settings)
    read = prefix.sums[hit] if hit is not None else 0
    writes: list[Write] = []
    written = {LONG: 0, SHORT: 0}
    reached = read
    for position in writable(prefix, explicit, implicit, settings):
        tokens = prefix.sums[position]
        if tokens < settings.openai_minimum or (hit is not None and position <= hit):
            continue
        marker = prefix.blocks[position].marker
        life = marker.seconds if marker is not None else seconds
        writes.append(Write(prefix.hashes[position], tokens, life))
        written[LONG if life == LONG else SHORT] += tokens - reached
        reached = tokens
    renews = (prefix.hashes[hit],) if hit is not None else ()
    return Outcome(prefix.total, read, written[SHORT], written[LONG], tuple(writes), renews, hit=hit)


def readable(prefix: Prefix, explicit: list[int], implicit: bool, settings: Settings) -> set[int]:
    """Positions at which this request may match: explicit breakpoints, and endings unless the mode is explicit."""
    first, latest = settings.openai_first_breakpoints, settings.openai_latest_breakpoints
    candidates = set(explicit[:first]) | set(explicit[-latest:] if latest else ())
    if implicit:
        endings = [position for position, block in enumerate(prefix.blocks) if block.ending]
        candidates |= set(endings[-(1 + settings.openai_ending_lookback) :])
    return candidates


def writable(prefix: Prefix, explicit: list[int], implicit: bool, settings: Settings) -> list[int]:
    """Positions this request writes, in order: the implicit one and the latest explicit ones, 4 in all."""
    if not implicit:
        return explicit[-MAX_WRITES:]
    endings = [position for position, block in enumerate(prefix.blocks) if block.ending]
    chosen = set(endings[-1:])
    if settings.openai_implicit_writes_developer:
        chosen |= {p for p in endings if prefix.blocks[p].role in ("system", "developer")}
    return sorted(chosen | set(explicit[-(MAX_WRITES - len(chosen)) :]))


def find_hit(prefix: Prefix, candidates: set[int], ledger: Ledger, now: float, settings: Settings) -> int | None:
    """The longest live entry among the candidates."""
    for position in sorted(candidates, reverse=True):
        if prefix.sums[position] < settings.openai_minimum:
            return None
        if ledger.live(prefix.hashes[position], now) is not None:
            return position
    return None
