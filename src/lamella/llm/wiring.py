"""Segments to wire blocks: each adapter says how one segment looks; this puts them together and reuses what it can."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from lamella.core.prompt import Level, Segment, WireBlock, Wired

_ORDER: dict[Level, int] = {"tools": 0, "system": 1, "messages": 2}


def wire_segments(
    segments: tuple[Segment, ...], make: Callable[[Segment], Iterable[WireBlock]], previous: Wired | None
) -> Wired:
    """The blocks of all segments: tools, then system, then messages, as the providers' prefixes go."""
    known = {}
    if previous is not None:
        known = {old.id: (old, group) for old, group in zip(previous.segments, previous.groups, strict=True)}
    groups = []
    for segment in segments:
        old, group = known.get(segment.id, (None, ()))
        if old is not segment and (old is None or not _same(old, segment)):
            group = tuple(make(segment))
        groups.append(group)
    blocks = [block for group in groups for block in group]
    if any(_ORDER[a.level] > _ORDER[b.level] for a, b in pairwise(blocks)):
        blocks.sort(key=lambda block: _ORDER[block.level])
    return Wired(segments, tuple(groups), tuple(blocks))


def _same(old: Segment, new: Segment) -> bool:
    """Whether two segments hold the same; the digest leaves thinking out, so it only rules out."""
    return old.digest == new.digest and old.messages == new.messages and old.tools == new.tools
