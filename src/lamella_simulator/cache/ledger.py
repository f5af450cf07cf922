"""What is in the cache: one entry per written prefix, with its life and the moment it becomes readable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Entry:
    key: bytes
    tokens: int
    seconds: int
    available_at: float
    expires: float

    def live(self, now: float) -> bool:
        return self.available_at <= now < self.expires


@dataclass(frozen=True, slots=True)
class Write:
    key: bytes
    tokens: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request reads, writes and pays, in prompt tokens; `writes` and `renews` await the first token.

    `hit` is the position of the last block that was read; caches of tokens have none.
    """

    total: int
    read: int = 0
    written_short: int = 0
    written_long: int = 0
    writes: tuple[Write, ...] = ()
    renews: tuple[bytes, ...] = ()
    upgrades: tuple[bytes, ...] = ()
    hit: int | None = None

    @property
    def written(self) -> int:
        return self.written_short + self.written_long

    @property
    def fresh(self) -> int:
        return self.total - self.read - self.written


class Ledger:
    """Entries by prefix hash, those used last at the end. Time is an argument: requests come with any virtual time."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def live(self, key: bytes, now: float) -> Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.live(now) else None

    def commit(self, outcome: Outcome, start: float, available_at: float) -> None:
        """Record a request whose answer has begun: lives count from `start`, new entries are readable later."""
        for key in outcome.renews:
            self._renew(key, start)
        for write in outcome.writes:
            self._write(write, start, available_at)
        for key in outcome.upgrades:
            self._put(replace(self._entries[key], seconds=3_600, expires=start + 3_600))

    def keep(self, most: int) -> None:
        """Forget all but the entries that were written or read last: requests may come with any time, so that none
        is ever known to be dead."""
        while len(self._entries) > most:
            self._entries.popitem(last=False)

    def _put(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._entries.move_to_end(entry.key)

    def _renew(self, key: bytes, start: float) -> None:
        entry = self._entries[key]
        self._put(replace(entry, expires=max(entry.expires, start + entry.seconds)))

    def _write(self, write: Write, start: float, available_at: float) -> None:
        expires = start + write.seconds
        earlier = self._entries.get(write.key)
        if earlier is not None and earlier.available_at < expires and start < earlier.expires:
            # A parallel request wrote the same prefix: it is readable as soon as the first of the two is.
            available_at = min(available_at, earlier.available_at)
            expires = max(expires, earlier.expires)
        self._put(Entry(write.key, write.tokens, write.seconds, available_at, expires))

    def entries(self) -> Iterable[Entry]:
        return tuple(self._entries.values())

    def clear(self) -> None:
        self._entries.clear()
