"""How often the planner knew what would be read: the block, and its tokens; set against the simulator's own record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lamella.core.records import RequestRecord
from lamella.core.tokens import Usage
from lamella_lab.replay.report import Replayed

ESTIMATED = 0.02
"""How far off an estimate may be, as a share of what was read."""


@dataclass(slots=True)
class Count:
    """How many of how many were right."""

    right: int = 0
    of: int = 0

    def note(self, right: bool) -> None:
        self.right += right
        self.of += 1

    def __str__(self) -> str:
        return f"{self.right} of {self.of}"


@dataclass(slots=True)
class Predictions:
    """`block`: requests whose read ended where the plan said, or that read nothing as it said. Of those that read
    something, `exact`: those whose tokens were the predicted ones, where an earlier bill had measured the prefix;
    `near`: those within 2 %, where none had.
    """

    block: Count = field(default_factory=Count)
    exact: Count = field(default_factory=Count)
    near: Count = field(default_factory=Count)

    def note(self, requests: Iterable[Replayed]) -> None:
        """The requests of one replay, in their order."""
        measured: set[tuple[str, int]] = set()
        for request in requests:
            record, read, usage = request.record, request.read, request.record.usage or Usage()
            if not usage.input:
                continue
            assert read is not None, "the simulator has no record of it"
            prefixes = _prefixes(record)
            assert read.blocks == len(prefixes), "the simulator splits the prompt in other blocks"
            self.block.note(read.hit == record.predicted_hit)
            if read.hit is not None:
                off = abs(usage.cache_read - record.predicted_read)
                if prefixes[read.hit] in measured:
                    self.exact.note(not off)
                else:
                    self.near.note(off <= ESTIMATED * usage.cache_read)
                measured.add(prefixes[read.hit])
            if record.markers and usage.cache_read + usage.cache_write:
                measured.add(prefixes[record.markers[-1].index])


def _prefixes(record: RequestRecord) -> list[tuple[str, int]]:
    """A fingerprint of the prefix up to each block, with the model, whose count it is."""
    found, key = [], 0
    for segment in record.segments:
        for digest in segment.blocks:
            key = hash((key, digest))
            found.append((record.model, key))
    return found
