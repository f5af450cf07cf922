"""Token-step caching of OpenAI models before GPT-5.6: any common token prefix, floored to a step, writes free."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from lamella_simulator.blocks import Prefix, link
from lamella_simulator.cache.ledger import Ledger, Outcome, Write
from lamella_simulator.tokens import encode_text


@dataclass(frozen=True, slots=True)
class StepRules:
    minimum: int
    step: int
    idle_seconds: int


def account(prefix: Prefix, rules: StepRules, ledger: Ledger, now: float) -> Outcome:
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
