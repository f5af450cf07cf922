"""Converts segments to wire blocks: each adapter converts one segment; this combines them and reuses earlier blocks.

Ids and names of tool calls are mapped to the alphabet that a provider accepts, always in the same way: a call stays in
the history when another provider continues, and some servers let a model call tools by any name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b

from lamella.core.json import Json
from lamella.core.prompt import Level, Sampling, Segment, WireBlock, Wired

_ORDER: dict[Level, int] = {"tools": 0, "system": 1, "messages": 2}


def wire_segments(
    segments: tuple[Segment, ...], make: Callable[[Segment], Iterable[WireBlock]], previous: Wired | None
) -> Wired:
    """The blocks of all segments: tools, then system, then messages, as the providers' prefixes go."""
    groups = _prefix(segments, previous) if previous is not None else []
    known = {}
    if previous is not None and len(groups) < len(segments):
        known = {s.id: (s, g) for s, g in zip(previous.segments, previous.groups, strict=True)}
    for segment in segments[len(groups) :]:
        old, group = known.get(segment.id, (None, ()))
        groups.append(group if old is not None and _same(old, segment) else tuple(make(segment)))
    blocks = [block for group in groups for block in group]
    order = [_ORDER[block.level] for block in blocks]
    if order != sorted(order):
        blocks.sort(key=lambda block: _ORDER[block.level])
    return Wired(segments, tuple(groups), tuple(blocks))


def _prefix(segments: tuple[Segment, ...], previous: Wired) -> list[tuple[WireBlock, ...]]:
    """The groups of the segments that the window before began with too: almost all of them."""
    same = 0
    for old, new in zip(previous.segments, segments, strict=False):
        if old is not new and (old.id != new.id or not _same(old, new)):
            break
        same += 1
    return list(previous.groups[:same])


def _same(old: Segment, new: Segment) -> bool:
    """Whether two segments hold the same; the digest leaves thinking out, so it only rules out."""
    if old is new:
        return True
    return old.digest == new.digest and old.messages == new.messages and old.tools == new.tools


_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")


def wire_call_id(id: str, longest: int) -> str:
    """`id` if it is short and in the alphabet, else `call_` and its fingerprint."""
    if _PLAIN.fullmatch(id) and len(id) <= longest:
        return id
    return "call_" + blake2b(id.encode(), digest_size=12).hexdigest()


def wire_tool_name(name: str, longest: int) -> str:
    """`name` if it is short and in the alphabet, else its beginning with `_` for other characters."""
    if _PLAIN.fullmatch(name) and len(name) <= longest:
        return name
    return _OTHERS.sub("_", name)[:longest] or "_"


def randomness(sampling: Sampling) -> dict[str, Json]:
    """The fields of a request that every vendor calls alike; none of them is part of a cache key."""
    asked = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    return {name: value for name, value in asked.items() if value is not None}
