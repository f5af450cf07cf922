"""What a provider has cached of a prefix, as far as is known here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lamella.core.ttl import Ttl

SKEW = timedelta(minutes=1)
"""How far in the future an entry may have been used: clocks differ a little. Beyond it the clock has been set back, and
nobody knows how long the entry still lives."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cached prefix. `key` holds account, model, salts and blocks; `tokens` is exact when the provider billed it,
    else estimated; the life runs from the start of the request that wrote or read it last (PROVIDERS 1.1).
    """

    key: str
    tokens: int
    ttl: Ttl
    used_at: datetime
    exact: bool

    @property
    def ends_at(self) -> datetime:
        """From when on it can't be read."""
        return self.used_at + timedelta(seconds=self.ttl.seconds)

    def live(self, now: datetime) -> bool:
        """Whether a request that starts at `now` can read it."""
        return self.used_at - SKEW <= now < self.ends_at


class CacheEntries(Protocol):
    """Where entries are kept, so that a restart forgets none."""

    async def live(self, now: datetime) -> Sequence[CacheEntry]:
        """Those that have not ended."""
        ...

    async def keep(self, entries: Sequence[CacheEntry], forgotten: Sequence[str], now: datetime) -> None:
        """Store entries in the place of those with the same keys, and remove the forgotten and the ended."""
        ...
