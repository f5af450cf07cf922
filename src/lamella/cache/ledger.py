"""What was written to a provider's cache, as far as its rules and its bills say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lamella.core.prompt import Ttl


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached prefix. `tokens` is exact when the provider billed it, else estimated; the life runs from the start
    of the request that wrote or read it last (PROVIDERS 1.1)."""

    key: str
    tokens: int
    ttl: Ttl
    used_at: datetime
    exact: bool

    def live(self, now: datetime) -> bool:
        """Whether a request that starts at `now` can read it."""
        return now < self.used_at + timedelta(seconds=self.ttl.seconds)


class Ledger:
    """Entries by chain key. Shared by all conversations of an account; the key holds account, model and salts."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._sweep_at = 1024

    def live(self, key: str, now: datetime) -> Entry | None:
        """The entry of this prefix, if it can be read now."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.live(now) else None

    def write(self, entry: Entry) -> None:
        """Note that a response began which wrote this prefix."""
        self._entries[entry.key] = entry
        if len(self._entries) > self._sweep_at:
            self._entries = {key: e for key, e in self._entries.items() if e.live(entry.used_at)}
            self._sweep_at = max(1024, 2 * len(self._entries))

    def renew(self, key: str, now: datetime) -> None:
        """Note that a request which started at `now` read this prefix: its life starts anew."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries[key] = replace(entry, used_at=now)

    def forget(self, key: str) -> None:
        """Note that this prefix is not cached after all."""
        self._entries.pop(key, None)
