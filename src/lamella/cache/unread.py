"""What a setting beside the blocks costs when it changes: the part of a prefix that is cached and can't be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.cache.chain import Chain, chain
from lamella.cache.ledger import Ledger
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
    there, still = (_deepest(keys, ledger, now) for keys in (chain(of.blocks, of.root, before).keys, of.keys))
    tokens = max(0, there - still)
    price = model.price
    tier = price.tier_factor if price.tier_above and there > price.tier_above else 1.0
    return Unread(level, tokens, tier * tokens * (price.write_5m - price.read) * price.input / 1_000_000)


def _deepest(keys: Sequence[str], ledger: Ledger, now: datetime) -> int:
    """The tokens of the deepest prefix that is cached now."""
    live = (entry for key in reversed(keys) if (entry := ledger.live(key, now)) is not None)
    return next((entry.tokens for entry in live), 0)
