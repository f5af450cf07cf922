"""Finds the first difference between a request and the one before it: the block, the byte, and who changed it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from lamella.cache.hashed import PIECE, common, is_hashed
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import Json, decode, encode
from lamella.core.models import EFFORT_SUBJECT as EFFORT
from lamella.core.records import RequestRecord, StoredDecision, StoredSegment

AROUND = 40
"""Bytes shown before and after the first difference."""

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}|\b\d{10,13}\b|(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b|20\d{2}\b")
"""Matches dates and times."""

_SETTINGS = ("tool_choice", "parallel_tool_calls", "thinking", "reasoning", "output_config", "text", "verbosity")
"""Fields of a request's head that are part of the cache key."""


CLIENT = "client"
"""The owner of the segments of a request that a client wrote, and the layout of such a request."""


class Origin(StrEnum):
    """Who changed a prefix."""

    USER = "user"
    AGENT = "agent"
    TOOLS = "tools"
    GRANT = "grant"
    CLOCK = "clock"
    SETTING = "setting"
    ENGINE = "engine"
    LAYOUT = "layout"
    CLIENT = "client"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first block, counted from 0, that differs from the request before, and the first different byte in it.

    `segment` is the old segment at this place; `now` is the new one, None if the window ends before it. `was` and
    `becomes` are the old and new text around that byte, "" if the bytes are not stored. `reordered`: the same blocks in
    another order. `tool` is the name of the tool that the block describes, or of the first that differs in it, or "".
    `span` is the number of bytes within which the first different one is: 1, or more if only digests are stored.
    """

    segment: StoredSegment
    now: StoredSegment | None
    block: int
    byte: int
    was: str = ""
    becomes: str = ""
    reordered: bool = False
    tool: str = ""
    span: int = 1


def difference(before: RequestRecord, request: RequestRecord, data: Mapping[str, bytes]) -> Difference | None:
    """The first difference between `request` and the one before. Returns None if it begins with all of that.

    `data` has the stored bytes of blocks by digest.
    """
    block = 0
    for index, old in enumerate(before.segments):
        new = request.segments[index] if index < len(request.segments) else None
        if new is not None and old.kind == "tools" != new.kind:
            new = None  # what follows the tools stands at their place, and is not what they became
        if new is None or new.blocks != old.blocks:
            return _inside(old, new, block, data)
        block += len(old.blocks)
    return None


def is_behind(difference: Difference, before: RequestRecord, cached: int) -> bool:
    """Whether a difference is after the cached prefix of the request before, which has `cached` tokens up to its last
    marker.

    Segments that move are after it, so their changes cost nothing. Without markers this is decided by tokens, in local
    weights.
    """
    if before.markers:
        return difference.block > max(marker.index for marker in before.markers)
    ids = [segment.id for segment in before.segments]
    front = sum(segment.tokens for segment in before.segments[: ids.index(difference.segment.id)])
    whole = sum(segment.tokens for segment in before.segments)
    billed = before.usage.input if before.usage is not None else 0
    return bool(whole) and cached <= 1.02 * billed * front / whole


def _inside(old: StoredSegment, new: StoredSegment | None, block: int, data: Mapping[str, bytes]) -> Difference:
    mine = new.blocks if new is not None else ()
    pairs = enumerate(zip(old.blocks, mine, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(old.blocks), len(mine)))
    was = data.get(old.blocks[at], b"") if at < len(old.blocks) else b""
    becomes = data.get(mine[at], b"") if at < len(mine) else b""
    is_rough = is_hashed(was) or is_hashed(becomes)
    byte = common(was, becomes) if is_rough else _common(was, becomes)
    reordered = new is not None and sorted(old.blocks) == sorted(mine)
    added = set(old.blocks) < set(mine)
    if is_rough:
        return Difference(old, new, block + at, byte, reordered=reordered, span=PIECE)
    is_list = old.kind == "tools"
    tool = _tool_of((becomes if added else was) or was or becomes) if is_list else _tool_within(was, becomes)
    return Difference(old, new, block + at, byte, _around(was, byte), _around(becomes, byte), reordered, tool)


def _tool_within(was: bytes, becomes: bytes) -> str:
    """The name of the first tool that differs within a message that brings tools, as Codex sends them; "" without."""
    if b'"tools"' not in was or b'"tools"' not in becomes:
        return ""
    pairs = zip_longest(*(_nested_tools(decode(block)) for block in (was, becomes)))
    one, other = next((pair for pair in pairs if encode(pair[0]) != encode(pair[1])), (None, None))
    return _name_of(one) or _name_of(other)


def _nested_tools(value: Json) -> list[Json]:
    """The tools of a message, those of a namespace one by one."""
    found = value.get("tools") if isinstance(value, Mapping) else None
    tools = [] if found is None or isinstance(found, str) or not isinstance(found, Sequence) else found
    return [inner for tool in tools for inner in (_nested_tools(tool) or [tool])]


def _name_of(tool: Json) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else ""


def _tool_of(block: bytes) -> str:
    """The name of the tool that a block describes, in any provider's form."""
    described = decode(block) if block else None
    inner = described.get("function", described) if isinstance(described, Mapping) else None
    return _name_of(inner)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two blocks begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _around(data: bytes, byte: int) -> str:
    return data[max(0, byte - AROUND) : byte + AROUND].decode("utf-8", "replace")


def settings_changed(before: RequestRecord, request: RequestRecord) -> tuple[str, ...]:
    """Names of the settings outside of the blocks that are part of the cache key and differ."""
    return tuple(name for name in _SETTINGS if before.head.get(name) != request.head.get(name))


def decided(
    decisions: Sequence[StoredDecision], before: RequestRecord, request: RequestRecord, segment: StoredSegment
) -> Decision | None:
    """The newest decision between the two requests that names the segment, else the newest about the window.

    A decision that names a segment before the difference explains another change.
    """
    ids = [one.id for one in before.segments]
    same = set(ids[: ids.index(segment.id)])
    between = [stored.decision for stored in decisions if before.at < stored.at <= request.at]
    named = [one for one in between if one.first_changed == segment.id]
    window = [
        one
        for one in between
        if one.kind in _OF_THE_WINDOW and one.subject not in (EFFORT, "offered tools") and one.first_changed not in same
    ]
    found = named or window
    return found[-1] if found else None


_OF_THE_WINDOW = (
    DecisionKind.SETTING,
    DecisionKind.SESSION,
    DecisionKind.PRUNE,
    DecisionKind.CUT,
    DecisionKind.BRANCH,
    DecisionKind.PREFERRED,
    DecisionKind.REPLACED,
)

SHORTER = (DecisionKind.PRUNE, DecisionKind.SESSION, DecisionKind.CUT, DecisionKind.REPLACED)
"""Decisions that shorten the prefix on purpose."""

_BY_KIND = {
    DecisionKind.BRANCH: Origin.USER,
    DecisionKind.PREFERRED: Origin.USER,
    DecisionKind.PROJECT: Origin.USER,
}
_BY_SUBJECT = {"agent": Origin.AGENT, "tools": Origin.TOOLS, "project": Origin.USER}


def origin_of(decision: Decision) -> Origin:
    """Who made a decision."""
    if decision.kind is not DecisionKind.SETTING:
        return _BY_KIND.get(decision.kind, Origin.ENGINE)
    if "grant" in decision.subject:
        return Origin.GRANT
    return _BY_SUBJECT.get(decision.subject, Origin.SETTING)


def undecided(difference: Difference) -> tuple[Origin, str]:
    """Who changed a prefix without a decision, and a description of the change, derived from the segment."""
    old, new = difference.segment, difference.now
    if old.kind == "tools":
        how = "the tools are in another order" if difference.reordered else _tools_changed(old, new)
        return Origin.TOOLS, f"{how}, as {'the client' if old.owner == CLIENT else 'their server'} gave them"
    if difference.tool:
        return Origin.TOOLS, "the tools in it were changed, as the client gave them"
    if difference.was and difference.becomes and _is_time(difference):
        return Origin.CLOCK, "it has a date or a time, which differs in every request"
    if old.lifetime != "session":
        return Origin.LAYOUT, f"that part lives for a {old.lifetime} only"
    if old.kind in ("user", "files") and new is not None and new.kind in ("user", "files"):
        return Origin.CLIENT if old.owner == CLIENT else Origin.USER, "an earlier message was edited"
    if old.owner == CLIENT:
        return Origin.CLIENT, "the client left it out" if new is None else "the client sent it otherwise"
    return Origin.UNKNOWN, "no decision says why"


def _tools_changed(old: StoredSegment, new: StoredSegment | None) -> str:
    """What happened to a list of tools: only a change in which blocks go and others come may be a description."""
    before, after = set(old.blocks), set(new.blocks if new is not None else ())
    if not after - before:
        return "a tool was left out"
    return "a tool was added" if not before - after else "a tool is described differently"


def _is_time(difference: Difference) -> bool:
    """Whether both texts are the same but for dates and times."""
    one, other = (_TIME.sub("", text) for text in (difference.was, difference.becomes))
    # The windows around the byte are cut at their ends, and times may have other lengths: what is left begins alike.
    return bool(_TIME.search(difference.was) and _TIME.search(difference.becomes)) and _alike(one, other)


def _alike(one: str, other: str) -> bool:
    least = min(len(one), len(other))
    return least > 0 and one[: least - 8] == other[: least - 8] if least > 16 else one[:8] == other[:8]


def places(difference: Difference) -> Iterator[str]:
    """The place in words: the tool, block and byte, counted from 0."""
    if difference.tool:
        yield f"tool {difference.tool}"
    yield f"block {difference.block}"
    if difference.span > 1:
        yield f"bytes {difference.byte} to {difference.byte + difference.span - 1}"
    elif difference.was or difference.becomes:
        yield f"byte {difference.byte}"


class Cause(StrEnum):
    """Why cached tokens were not read."""

    NOT_BILLED = "not_billed"
    FIRST = "first"
    READ = "read"
    NOTHING_CACHED = "nothing_cached"
    MODEL = "model"
    EXPIRED = "expired"
    CLOCK = "clock"
    COUNTERS = "counters"
    EFFORT = "effort"
    SETTINGS = "settings"
    TOOLS = "tools"
    TIME = "time"
    EDITED = "edited"
    SHORTER = "shorter"
    DECIDED = "decided"
    MOVED = "moved"
    MISSED = "missed"
