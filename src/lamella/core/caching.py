"""Prefixes in a provider's cache: lifetimes, known entries, and the provider's diagnosis of a miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol


class Ttl(StrEnum):
    """How long a cache entry lives."""

    FIVE_MINUTES = "5m"
    THIRTY_MINUTES = "30m"
    ONE_HOUR = "1h"

    @property
    def seconds(self) -> int:
        """The life time in seconds."""
        return {"5m": 300, "30m": 1800, "1h": 3600}[self.value]


SKEW = timedelta(minutes=1)
"""How far in the future an entry may have been used, because clocks differ a little. Beyond it the clock was set back,
and the rest of the entry's lifetime is unknown.
"""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cached prefix. `key` holds account, model, salts and blocks; `tokens` is exact when the provider billed it,
    else estimated; the life runs from the start of the request that wrote or read it last.
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
    """Stores cache entries, so that a restart does not forget them."""

    async def live(self, now: datetime) -> Sequence[CacheEntry]:
        """Those that have not ended."""
        ...

    async def find(self, keys: Sequence[str]) -> Sequence[CacheEntry]:
        """Those with these keys."""
        ...

    async def keep(self, entries: Sequence[CacheEntry], forgotten: Sequence[str], now: datetime) -> None:
        """Store entries, replacing those with the same keys unless another process stored a later use; remove the
        forgotten and the expired ones.
        """
        ...


ASKED_BY = ("diagnostics", "previous_message_id", "comparison_response_id")
"""The fields of requests that ask for it: a server that does not have it names one in its refusal."""


class CacheVerdict(StrEnum):
    """How a provider's comparison of two prompts came out."""

    SAME = "same"
    """The cached part of the earlier prompt is unchanged."""
    CHANGED = "changed"
    PENDING = "pending"
    """The answer was made before the comparison had ended."""
    NOT_FOUND = "not_found"
    """The provider does not know the answer to compare with: too old, or of another account."""
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The provider's comparison of a prompt with that of an earlier answer, whose id is `against`.

    `reason` is the change in the provider's own word (for example `tools_changed`), or "". `missed` is its estimate of
    the tokens that were therefore not read, None if it gives none.
    """

    against: str
    verdict: CacheVerdict
    reason: str = ""
    missed: int | None = None
