"""Opaque, time-ordered ids with a prefix (`conv_`, `msg_`, `turn_` …)."""

from __future__ import annotations

import secrets
from typing import Protocol

from lamella.core.clock import Clock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

LENGTHS = 20, 26
"""Characters of an id after its prefix, now and of earlier versions: an id stands some fifty times in the database for
each turn."""

_RANDOM = 52
_RANDOM_OF = dict(zip(LENGTHS, (_RANDOM, 80), strict=True))
"""Random bits of an id by its length: the bits above them are the moment, also of an earlier version's."""
_STEP = 32
"""Random bits between two ids of one millisecond: two processes that follow the same id make different ones."""


class Ids(Protocol):
    """Source of new ids. Ids sort by time."""

    def new(self, prefix: str) -> str:
        """A new id that sorts after every earlier one of this source."""
        ...

    def follow(self, *ids: str) -> None:
        """Make all later ids sort after these, which another process made, even if its clock is ahead of this one."""
        ...


def _base32(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, rest = divmod(number, 32)
        letters.append(_ALPHABET[rest])
    return "".join(reversed(letters))


class RandomIds:
    """48 bits of milliseconds, then 52 random bits that go up within one millisecond, and after an id that it follows.

    Of 100 processes that make an id each in every millisecond, two would make the same one in some ten years.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def new(self, prefix: str) -> str:
        moment = int(self._clock.now().timestamp() * 1000)
        number = (moment << _RANDOM) | secrets.randbits(_RANDOM - 1)
        if number <= self._last:
            number = self._last + 1 + secrets.randbits(_STEP)
        self._last = number
        return f"{prefix}_{_base32(number, LENGTHS[0])}"

    def follow(self, *ids: str) -> None:
        """See `Ids.follow`. Ids of another shape are left out."""
        for id in ids:
            name = id.rpartition("_")[2]
            if len(name) in LENGTHS and not set(name) - set(_ALPHABET):
                number = sum(_ALPHABET.index(c) << 5 * n for n, c in enumerate(reversed(name)))
                moment = number >> _RANDOM_OF[len(name)]
                self._last = max(self._last, ((moment + 1) << _RANDOM) - 1)


class CountingIds:
    """Ids that are the same in every run: for replay and tests."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count:06d}"

    def follow(self, *ids: str) -> None:
        """They are all of one run."""
