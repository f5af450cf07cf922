"""Packets of running turns, for any number of readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

Batch = Sequence[tuple[int, bytes]]
"""Packets with their numbers, as JSON."""


class StreamBus(Protocol):
    """Live packets and stop signals of running turns."""

    def open(self, turn_id: str) -> None:
        """A turn begins; a stop sent from now on is not lost."""
        ...

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """Packet `n`, as JSON."""
        ...

    def close(self, turn_id: str) -> None:
        """No packet follows; who follows the turn comes to its end."""
        ...

    def is_live(self, turn_id: str) -> bool:
        """Whether this turn can be followed here."""
        ...

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """Packets behind `after`, from memory and as they come, to the end of the turn; those there are at once."""
        ...

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """Ask the turn to stop, or one of its runs."""
        ...

    def is_stopped(self, turn_id: str) -> bool:
        """Whether the turn was asked to stop already."""
        ...

    async def stop_requested(self, turn_id: str, run_id: str | None = None) -> None:
        """Come back when the turn, or one of its runs, is asked to stop: at once where that was in this process, within
        50 ms where it was in another (SPEC O15).
        """
        ...
