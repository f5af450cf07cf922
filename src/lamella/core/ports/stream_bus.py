"""Packets of running turns, for any number of readers, and stops, from any process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

Batch = Sequence[tuple[int, bytes]]
"""Packets with their numbers, as JSON."""

Stop = tuple[str, str | None]
"""A turn that is to stop, and which of its runs; None: all of it."""


class StreamBus(Protocol):
    """Live packets of running turns, and who asked them to stop; processes may share one."""

    def open(self, turn_id: str) -> None:
        """A turn begins; a stop sent from now on is not lost."""
        ...

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """Packet `n`, as JSON."""
        ...

    def close(self, turn_id: str) -> None:
        """No packet follows; who follows the turn comes to its end. Its stops are forgotten."""
        ...

    def is_live(self, turn_id: str) -> bool:
        """Whether this turn can be followed here."""
        ...

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """Packets behind `after`, from memory and as they come, to the end of the turn; those there are at once."""
        ...

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """Ask a turn to stop, or one of its runs, in whichever process it runs; nothing for one that is not open."""
        ...

    async def stops(self, turn_ids: Collection[str]) -> Collection[Stop]:
        """Which of these turns, or runs of them, were asked to stop since they were opened. One look for all of them:
        whoever runs turns looks every 50 ms at most (SPEC O15).

        Raises a `LamellaError` where the bus can't be reached.
        """
        ...
