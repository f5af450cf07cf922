"""A request as the planner sees it: its segments, where their blocks begin, what they weigh, and the keys of prefixes.

A prefix is named by a chain of fingerprints: key i stands for all blocks up to and including block i, the account, the
model and the settings that are part of the cache's key. Two requests share a key exactly if a provider would take their
prefixes for the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from lamella.core.json import digest
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Kind, Level, Lifetime, Segment, WireBlock


@dataclass(frozen=True, slots=True)
class Chain:
    """`keys[i]` is equal in two requests exactly if a provider's cache treats their prefixes as equal.

    `root` covers what every prefix depends on (account, model); `salts` change the key from a level on.
    """

    root: str
    salts: Mapping[Level, str]
    blocks: tuple[WireBlock, ...]
    keys: tuple[str, ...]


def chain(blocks: tuple[WireBlock, ...], root: str, salts: Mapping[Level, str], previous: Chain | None = None) -> Chain:
    """The chain of `blocks`; `previous` saves the work for the blocks that are the same objects."""
    keys: list[str] = []
    if previous is not None and previous.root == root and previous.salts == salts:
        pairs = enumerate(zip(blocks, previous.blocks, strict=False))
        other = (index for index, (mine, theirs) in pairs if mine is not theirs)
        keys = list(previous.keys[: next(other, min(len(blocks), len(previous.blocks)))])
    key = keys[-1] if keys else digest(root.encode())
    level = blocks[len(keys) - 1].level if keys else None
    for block in blocks[len(keys) :]:
        if block.level != level:
            level = block.level
            key = digest(key.encode(), salts.get(level, "").encode())
        key = digest(key.encode(), block.digest.encode())
        keys.append(key)
    return Chain(root, salts, blocks, tuple(keys))


ITEM, COUNTED = 4, 8
"""Local tokens of a message in addition to its content, and those included in a segment's own count for all of its
messages. If each block is a message, as at OpenAI, a segment has the first for every block.
"""


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """`segments` are those that have blocks, in their order. `starts[n]` is the first block of the n-th, `sums[n]` the
    local weight of all before it; both have one entry more, for the end. `scale` makes a weight a provider's tokens.
    """

    chain: Chain
    segments: tuple[Segment, ...]
    starts: tuple[int, ...]
    sums: tuple[int, ...]
    scale: float

    def first(self, found: Iterable[bool]) -> int:
        """The first block of the first segment for which `found` is true; the number of blocks if there is none."""
        return self.starts[next((n for n, so in enumerate(found) if so), len(self.segments))]

    def moving(self) -> int:
        """The first block that may be gone or elsewhere in the next request."""
        session = Lifetime.SESSION
        return self.first(segment.lifetime is not session for segment in self.segments)

    def segment(self, index: int) -> Segment:
        """The segment of a block."""
        return self.segments[self._place(index)]

    def tokens(self, index: int) -> int:
        """The estimated tokens up to a block: of its own segment the share that its bytes have."""
        place = self._place(index)
        start, end = self.starts[place : place + 2]
        before, after = self.sums[place : place + 2]
        sizes = [len(block.data) for block in self.chain.blocks[start:end]]
        return round((before + (after - before) * sum(sizes[: index + 1 - start]) / sum(sizes)) * self.scale)

    def last_markable(self, end: int) -> int | None:
        """The last block before `end` that the provider accepts a marker on."""
        blocks = self.chain.blocks
        return next((i for i in range(end - 1, -1, -1) if blocks[i].markable), None)

    def _place(self, index: int) -> int:
        return bisect_right(self.starts, index) - 1


def window_of(chain: Chain, segments: Mapping[str, Segment], model: ModelFacts, calibration: float) -> PlannedWindow:
    """The window of a chain, in which the blocks of a segment are adjacent. `calibration` is the provider's tokens per
    local token for the whole.
    """
    counts = Counter([block.segment for block in chain.blocks])
    there = tuple([segments[name] for name in counts])
    weights = tokens = [segment.tokens for segment in there]
    if model.markers is not Markers.ANTHROPIC:
        tools = Kind.TOOLS
        both = zip(there, counts.values(), strict=True)
        weights = [max(1, one.tokens + ITEM * n - COUNTED) if one.kind is not tools else one.tokens for one, n in both]
    sums = tuple(accumulate(weights, initial=0))
    starts = tuple(accumulate(counts.values(), initial=0))
    return PlannedWindow(chain, there, starts, sums, calibration * sum(tokens) / (sums[-1] or 1))
