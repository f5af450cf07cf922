"""Anthropic's prompt cache: markers, a backward look of 20 positions, two lives, billed by A, B and C.

Rules: after the vendor's pages "Prompt caching" and "Tool use with prompt caching".
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella_simulator.blocks import Block, Prefix
from lamella_simulator.cache.ledger import Ledger, Outcome, Write
from lamella_simulator.settings import Settings

LONG = 3_600
SHORT = 300


def account(prefix: Prefix, minimum: int, ledger: Ledger, now: float, settings: Settings) -> Outcome:
    """What a request with these blocks and markers reads and writes; the markers are already validated."""
    markers = [
        position
        for position, block in enumerate(prefix.blocks)
        if block.marker is not None and prefix.sums[position] >= minimum
    ]
    if not markers:
        return Outcome(prefix.total)
    hit = find_hit(prefix, markers, ledger, now, settings)
    read = prefix.sums[hit] if hit is not None else 0
    beyond = [position for position in markers if hit is None or position > hit]
    long = [prefix.sums[position] for position in beyond if life(prefix.blocks[position]) == LONG]
    boundary = max(long, default=read)
    last = max(read, prefix.sums[markers[-1]])
    return Outcome(
        total=prefix.total,
        read=read,
        written_long=boundary - read,
        written_short=last - boundary,
        writes=tuple(
            Write(prefix.hashes[position], prefix.sums[position], life(prefix.blocks[position]))
            for position in beyond
            if not evicted(prefix.hashes[position], settings)
        ),
        renews=renewed(prefix, markers, hit, ledger, now, settings),
        upgrades=upgraded(prefix, hit, ledger, now, settings),
        hit=hit,
    )


def find_hit(prefix: Prefix, markers: Sequence[int], ledger: Ledger, now: float, settings: Settings) -> int | None:
    """From the last marker back: its own position and those before it, 20 in all; then the next earlier marker."""
    for marker in reversed(markers):
        left = settings.lookback_positions
        position = marker
        while position >= 0 and left > 0:
            if ledger.live(prefix.hashes[position], now) is not None:
                return position
            if settings.lookback_counts_thinking or not prefix.blocks[position].thinking:
                left -= 1
            position -= 1
    return None


def renewed(
    prefix: Prefix, markers: Sequence[int], hit: int | None, ledger: Ledger, now: float, settings: Settings
) -> tuple[bytes, ...]:
    """The entry that was hit, those re-marked exactly, and by option every live one before them."""
    if hit is None:
        return ()
    positions = range(hit + 1) if settings.renew_ancestors else [p for p in markers if p < hit] + [hit]
    return tuple(prefix.hashes[p] for p in positions if ledger.live(prefix.hashes[p], now) is not None)


def upgraded(prefix: Prefix, hit: int | None, ledger: Ledger, now: float, settings: Settings) -> tuple[bytes, ...]:
    if hit is None or not settings.upgrade_to_1h or life(prefix.blocks[hit]) != LONG:
        return ()
    entry = ledger.live(prefix.hashes[hit], now)
    return (entry.key,) if entry is not None and entry.seconds == SHORT else ()


def life(block: Block) -> int:
    return block.marker.seconds if block.marker is not None else 0


def evicted(key: bytes, settings: Settings) -> bool:
    """Whether this entry is lost at birth: decided by its hash, so that a rerun loses the same ones."""
    if not settings.eviction_rate:
        return False
    draw = int.from_bytes(key[:4], "big") ^ (settings.seed * 2_654_435_761 & 0xFFFFFFFF)
    return draw / 2**32 < settings.eviction_rate
