"""What a setting beside the blocks costs when it changes: the part of a prefix that is cached and can't be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.cache.chain import Chain, chain
from lamella.cache.ledger import Entry, Ledger
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level

LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
"""In the order of a prefix: what changes one changes all behind it."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What a change beside the blocks keeps a request from reading: from which level on, and about how many tokens.

    `cost` is what it costs in US dollars to have them written again in place of read.
    """

    level: Level
    tokens: int
    cost: float


def unread(of: Chain, before: Mapping[Level, str], ledger: Ledger, now: datetime, model: ModelFacts) -> Unread | None:
    """What `of` can't read that it could with the salts of `before`; None where they are the same.

    A prefix that is not cached now costs nothing, and neither does one that is cached under both.
    """
    level = next((name for name in LEVELS if before.get(name, "") != of.salts.get(name, "")), None)
    if level is None:
        return None
    there = _deepest(chain(of.blocks, of.root, before).keys, ledger, now)
    still = _deepest(of.keys, ledger, now)
    if there is None:
        return Unread(level, 0, 0.0)
    tokens = max(0, there.tokens - (still.tokens if still is not None else 0))
    price = model.price
    tier = price.tier_factor if price.tier_above and there.tokens > price.tier_above else 1.0
    write = model.write_price(there.ttl)
    return Unread(level, tokens, tier * tokens * (write - price.read) * price.input / 1_000_000)


def _deepest(keys: Sequence[str], ledger: Ledger, now: datetime) -> Entry | None:
    """The deepest prefix that is cached now."""
    return next((entry for key in reversed(keys) if (entry := ledger.live(key, now)) is not None), None)
