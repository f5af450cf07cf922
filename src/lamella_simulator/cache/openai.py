"""OpenAI's prompt caches, of two families.

From GPT-5.6 on, message endings and explicit breakpoints are matched, with at most 4 writes. Older models read any
common prefix of tokens, floored to a step, and write for nothing.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from lamella_simulator.blocks import Prefix, link
from lamella_simulator.cache.ledger import Ledger, Outcome, Write
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import encode_text

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


@dataclass(frozen=True, slots=True)
class StepRules:
    minimum: int
    step: int
    idle_seconds: int


def account_steps(prefix: Prefix, rules: StepRules, ledger: Ledger, now: float) -> Outcome:
    """Reads the longest live run of whole steps from the start; every whole step of the prompt is kept."""
    keys = list(step_keys(prefix, rules.step))
    read_steps = 0
    for index, key in enumerate(keys, start=1):
        if ledger.live(key, now) is None:
            break
        read_steps = index
    read = read_steps * rules.step
    if read < rules.minimum:
        read_steps = read = 0
    writes = tuple(
        Write(key, index * rules.step, rules.idle_seconds)
        for index, key in enumerate(keys, start=1)
        if index > read_steps
    )
    if prefix.total < rules.minimum:
        writes = ()
    return Outcome(prefix.total, read=read, writes=writes, renews=tuple(keys[:read_steps]))


def step_keys(prefix: Prefix, step: int) -> Iterator[bytes]:
    """One hash per whole step of tokens: the chain before the block it falls into, and that block's tokens so far."""
    due = step
    start = 0
    previous = prefix.root
    for block, end, chained in zip(prefix.blocks, prefix.sums, prefix.hashes, strict=True):
        if due <= end:
            tokens = encode_text(block.text)
            # Tokens of a block beyond its text (the overhead of a message) come first and have no content.
            overhead = max(0, (end - start) - len(tokens))
            state = hashlib.blake2b(previous + block.role.encode(), digest_size=16)
            taken = 0
            while due <= end:
                head = max(0, due - start - overhead)
                state.update(array("I", tokens[taken:head]).tobytes())
                taken = head
                yield link(state.digest(), (due - start).to_bytes(8, "big"))
                due += step
        start = end
        previous = chained
