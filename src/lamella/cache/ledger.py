"""What the provider's cache holds, by its rules and its bills; and what a changed setting makes unreadable.

The ledger maps a prefix's key to its tokens, its life and its last use. A request that begins notes what it writes and
renews what it reads; its bill corrects the sizes. Example: 12,000 tokens written with a life of five minutes at 10:00
can be read until 10:05; a request that reads them at 10:04 makes that 10:09.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lamella.cache.window import Chain, chain
from lamella.core.caching import CacheEntry
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level

Entry = CacheEntry


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a ledger: new and changed entries, and removed keys."""

    entries: tuple[CacheEntry, ...]
    forgotten: tuple[str, ...]


FindEntries = Callable[[Sequence[str]], Awaitable[Sequence[CacheEntry]]]
"""Finds the stored entries of these keys."""


def _unheard() -> None:
    """Default for ledgers that are not stored."""


class Ledger:
    """Cache entries by chain key, shared by all conversations of an account. The key includes account, model and salts.

    It is in memory. `changed` is called after each change, for code that stores it; `take` returns the changes. If
    several processes use an account, `share` says where the entries of the others are: `read` them before each plan.
    """

    def __init__(self, entries: Iterable[CacheEntry] = (), changed: Callable[[], None] = _unheard) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._sweep_at = max(1024, 2 * len(self._entries))
        self._fresh: set[str] = set()
        self._changed = changed
        self._find: FindEntries | None = None
        self._store: Callable[[], Awaitable[None]] | None = None

    def share(self, find: FindEntries, store: Callable[[], Awaitable[None]]) -> None:
        """Other processes note entries too: `find` gives what all stored, `store` stores the changes of this one."""
        self._find, self._store = find, store

    @property
    def is_shared(self) -> bool:
        """Whether other processes note entries too."""
        return self._find is not None

    async def read(self, keys: Sequence[str]) -> None:
        """Learn what other processes noted of these prefixes. What is noted here meanwhile stays. Raises as `find`."""
        if self._find is None:
            return
        await self.settled()
        known = {key: self._entries.get(key) for key in keys}
        stored = {entry.key: entry for entry in await self._find(keys)}
        for key, before in known.items():
            if self._entries.get(key) is not before:
                continue
            if key in stored:
                self._entries[key] = stored[key]
            else:
                self._entries.pop(key, None)

    async def settled(self) -> None:
        """Returns when other processes can read what was noted so far. Raises as `store`."""
        if self._store is not None:
            await self._store()

    def live(self, key: str, now: datetime) -> CacheEntry | None:
        """The entry of this prefix, if it can be read now."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.live(now) else None

    def measured(self, key: str) -> int | None:
        """The billed tokens of this prefix, also after it expired: they don't change."""
        entry = self._entries.get(key)
        return entry.tokens if entry is not None and entry.exact else None

    def write(self, entry: CacheEntry) -> None:
        """Note that a response began which wrote this prefix."""
        self._entries[entry.key] = entry
        self._note(entry.key)
        if len(self._entries) > self._sweep_at:
            self._entries = {key: e for key, e in self._entries.items() if e.live(entry.used_at)}
            self._sweep_at = max(1024, 2 * len(self._entries))

    def renew(self, key: str, now: datetime) -> None:
        """Note that a request which started at `now` read this prefix, which renews its lifetime."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries[key] = replace(entry, used_at=now)
            self._note(key)

    def forget(self, key: str) -> None:
        """Note that this prefix is not cached after all."""
        if self._entries.pop(key, None) is not None:
            self._note(key)

    def take(self) -> Changes:
        """The changes since the last call."""
        fresh, self._fresh = self._fresh, set()
        there = tuple(self._entries[key] for key in sorted(fresh) if key in self._entries)
        return Changes(there, tuple(sorted(key for key in fresh if key not in self._entries)))

    def give_back(self, changes: Changes) -> None:
        """Return changes that could not be stored, so that the next `take` includes them."""
        self._fresh |= {entry.key for entry in changes.entries} | set(changes.forgotten)

    def _note(self, key: str) -> None:
        self._fresh.add(key)
        self._changed()


LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
"""In prefix order: a change of one level changes all later ones."""


@dataclass(frozen=True, slots=True)
class CacheLoss:
    """The cached tokens that a request can't read because a setting outside of its blocks changed: from which level on,
    and about how many.

    `cost` is the extra US dollars for writing them instead of reading them.
    """

    level: Level
    tokens: int
    cost: float


def cache_loss(
    of: Chain, before: Mapping[Level, str], ledger: Ledger, now: datetime, model: ModelFacts
) -> CacheLoss | None:
    """The loss of `of` compared with the salts of `before`. Returns None if the salts are equal.

    Prefixes that are not cached, or cached under both salts, cost nothing.
    """
    level = next((name for name in LEVELS if before.get(name, "") != of.salts.get(name, "")), None)
    if level is None:
        return None
    there = _deepest(chain(of.blocks, of.root, before).keys, ledger, now)
    still = _deepest(of.keys, ledger, now)
    if there is None:
        return CacheLoss(level, 0, 0.0)
    tokens = max(0, there.tokens - (still.tokens if still is not None else 0))
    price = model.price
    tier = price.tier_factor if price.tier_above and there.tokens > price.tier_above else 1.0
    write = model.write_price(there.ttl)
    return CacheLoss(level, tokens, tier * tokens * (write - price.read) * price.input / 1_000_000)


async def read_cache_loss(
    of: Chain, before: Mapping[Level, str], ledger: Ledger, now: datetime, model: ModelFacts
) -> CacheLoss | None:
    """As `cache_loss`, with what other processes noted."""
    await ledger.read((*of.keys, *chain(of.blocks, of.root, before).keys))
    return cache_loss(of, before, ledger, now, model)


def _deepest(keys: Sequence[str], ledger: Ledger, now: datetime) -> Entry | None:
    """The deepest prefix that is cached now."""
    return next((entry for key in reversed(keys) if (entry := ledger.live(key, now)) is not None), None)
