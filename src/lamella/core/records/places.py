"""Places in the tree of a conversation's turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A point in the tree of a conversation's turns: behind the answer of the run `run_id` of the turn `turn_id`.

    Without a turn it is the place before the first. The way from a place back to the first turn is a path: each turn
    says which run of which turn it follows, and that never changes.
    """

    turn_id: str | None = None
    run_id: str | None = None
