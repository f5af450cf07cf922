"""The map of a request: every segment with its tokens, and how many were read, written or paid in full.

Also here: the body of a stored request, put together again from its blocks as the adapter made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from lamella.app.extensions import registered_wires
from lamella.cache.hashed import is_hashed
from lamella.cache.why import Why
from lamella.core.errors import StoreFailed
from lamella.core.json import Json, decode, decode_object, digest
from lamella.core.knowledge import WITHHELD_REQUEST
from lamella.core.models import SHIPPED_WIRES
from lamella.core.prompt import Marker, Ttl, WireBlock, WireRequest
from lamella.core.records import RequestRecord, StoredBlock, StoredMarker, StoredSegment
from lamella.core.tokens import Usage
from lamella.gateway.observed import PROVIDERS

PREVIEW = 280
"""Characters of a segment's text that a map shows."""


_Regions = dict[str, list[list[float]]]


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A segment in the window. The four counts are apportioned from the bill if `measured`, else expected."""

    segment: StoredSegment
    zone: str
    tokens: int
    read: int
    written: int
    fresh: int
    measured: bool
    markers: tuple[StoredMarker, ...]
    preview: str


@dataclass(frozen=True, slots=True)
class RequestMap:
    """The window of a request, segment by segment with tokens, and why it read what it read."""

    record: RequestRecord
    segments: tuple[MappedSegment, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class _Share:
    """Tokens of one segment, as they were billed."""

    read: float = 0.0
    written: float = 0.0
    fresh: float = 0.0


def map_request(record: RequestRecord, blocks: Sequence[StoredBlock]) -> tuple[MappedSegment, ...]:
    """Distribute the bill over the segments by local weight: tokens read first, then written, then fresh.

    Without a bill the estimate is distributed as the plan expects. If the bill equals the prediction, the borders are
    exact to the block; otherwise they are where the tokens add up.
    """
    texts = {block.digest: block.data for block in blocks}
    mapped, block_index = [], 0
    shares = _rounded(_shares(record))
    for segment, zone, (read, written, fresh) in zip(record.segments, _zones(record), shares, strict=True):
        end = block_index + len(segment.blocks)
        mapped.append(
            MappedSegment(
                segment=segment,
                zone=zone,
                tokens=read + written + fresh,
                read=read,
                written=written,
                fresh=fresh,
                measured=bool(record.usage and record.usage.input and not record.usage.input_estimated),
                markers=tuple(m for m in record.markers if block_index <= m.index < end),
                preview=_preview([texts[digest] for digest in segment.blocks if digest in texts]),
            )
        )
        block_index = end
    return tuple(mapped)


def _shares(record: RequestRecord) -> list[_Share]:
    usage = record.usage
    whole = record.local_tokens or 1
    regions = _regions(record)
    if usage is None or not usage.input:
        return _scaled(record, regions, dict.fromkeys(regions, record.estimate / whole))
    totals = {name: sum(sum(parts) for parts in by_segment) for name, by_segment in regions.items()}
    billed = {"read": usage.cache_read, "written": usage.cache_write, "fresh": usage.fresh}
    if any(bool(totals[name]) != bool(billed[name]) for name in billed) or not _as_predicted(record, usage):
        return _by_position(record, usage, whole)
    return _scaled(record, regions, {name: billed[name] / totals[name] if totals[name] else 0.0 for name in billed})


def _scaled(record: RequestRecord, regions: _Regions, scale: Mapping[str, float]) -> list[_Share]:
    return [
        _Share(*(sum(regions[name][index]) * scale[name] for name in ("read", "written", "fresh")))
        for index in range(len(record.segments))
    ]


def _as_predicted(record: RequestRecord, usage: Usage) -> bool:
    return abs(usage.cache_read - record.predicted_read) <= 0.02 * usage.input


def _regions(record: RequestRecord) -> _Regions:
    """The local weight of each block, by segment, in the region that the plan expected."""
    hit = -1 if record.predicted_hit is None else record.predicted_hit
    last = max((marker.index for marker in record.markers), default=-1)
    regions: _Regions = {"read": [], "written": [], "fresh": []}
    index = 0
    for segment in record.segments:
        for by_segment in regions.values():
            by_segment.append([])
        for _ in segment.blocks:
            name = "read" if index <= hit else "written" if index <= last else "fresh"
            regions[name][-1].append(segment.tokens / len(segment.blocks))
            index += 1
    return regions


def _by_position(record: RequestRecord, usage: Usage, whole: int) -> list[_Share]:
    shares, before = [], 0.0
    for segment in record.segments:
        after = before + segment.tokens * usage.input / whole
        read = _overlap(before, after, 0, usage.cache_read)
        written = _overlap(before, after, usage.cache_read, usage.cache_read + usage.cache_write)
        shares.append(_Share(read, written, after - before - read - written))
        before = after
    return shares


def _rounded(shares: Sequence[_Share]) -> list[tuple[int, int, int]]:
    """Whole tokens whose sums are the rounded sums."""
    rounded = []
    before = (0.0, 0.0, 0.0)
    for share in shares:
        after = (before[0] + share.read, before[1] + share.written, before[2] + share.fresh)
        read, written, fresh = (round(b) - round(a) for a, b in zip(before, after, strict=True))
        rounded.append((read, written, fresh))
        before = after
    return rounded


def _zones(record: RequestRecord) -> list[str]:
    return [zone for zone, count in record.zones for _ in range(count)]


def _overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


def _preview(blocks: Sequence[bytes]) -> str:
    """The first words of a segment, from any provider's JSON."""
    text = ""
    for data in blocks:
        text += _text(decode(data)) + " "
        if len(text) > PREVIEW:
            break
    text = " ".join(text.split())
    return text if len(text) <= PREVIEW else text[:PREVIEW] + "…"


def _text(value: Json) -> str:
    match value:
        case str():
            return value
        case {"type": "image" | "image_url" | "input_image"}:
            return "[picture]"
        case {"content": [*parts]}:
            return " ".join(_text(part) for part in parts)
        case {"text": str(text)} | {"thinking": str(text)} | {"content": str(text)}:
            return text
        case {"name": str(name), "input": arguments}:
            return f"{name} {_text(arguments)}"
        case {"name": str(name), "description": str(description)}:
            return f"{name}: {description}"
        case {"function": function}:
            return _text(function)
        case {"content": None, "tool_calls": calls}:
            return _text(calls)
        case dict():
            return " ".join(f"{key}: {_text(item)}" for key, item in value.items() if isinstance(item, str | dict))
        case list():
            return " ".join(_text(item) for item in value)
        case _:
            return ""


def stored_body(record: RequestRecord, blocks: Sequence[StoredBlock]) -> dict[str, object]:
    """The JSON body that was sent; raises `StoreFailed` for an unknown wire.

    Of a request that may not be read any more, whose body has expired, or of which only digests are stored, it is a
    sentence that says so.
    """
    if record.withheld:
        return {"withheld": WITHHELD_REQUEST}
    if record.expired is not None:
        return {"expired": record.expired.say("The body of this request")}
    if any(is_hashed(block.data) for block in blocks):
        return {"hashed": "Only digests of this request are stored, as the key of its client says."}
    wire = tuple(
        WireBlock(block.level, block.role, decode_object(block.data), block.data, block.digest, "", markable=True)
        for block in blocks
    )
    markers = [Marker(one.index, Ttl(one.ttl), one.why) for one in record.markers if one.why != PROVIDERS]
    # A client's field of the Responses API; the engine writes its system prompt as an item.
    at = next((n for n, block in enumerate(wire) if block.level == "system" and "instructions" in block.value), None)
    if at is None:
        return _body_of(record)(WireRequest(record.head, wire, tuple(markers)))
    moved = tuple(replace(one, index=one.index - (one.index > at)) for one in markers if one.index != at)
    body = _body_of(record)(WireRequest(record.head, (*wire[:at], *wire[at + 1 :]), moved))
    return {"instructions": wire[at].value["instructions"], **body}


def _body_of(record: RequestRecord) -> Callable[[WireRequest], dict[str, object]]:
    """What writes the bodies of a wire: of those that ship, without their adapter."""
    if record.protocol in SHIPPED_WIRES:
        shipped: Callable[[WireRequest], dict[str, object]] = import_module(
            f"lamella.llm.{record.protocol}_wire"
        ).body_of
        return shipped
    own = registered_wires().get(record.protocol)
    if own is None:
        raise StoreFailed(f"Request {record.id} was sent on a wire that is not installed: {record.protocol}.")
    return own.body_of


def sizes_of(record: RequestRecord) -> str:
    """A digest of the tokens of each segment of a request, in order."""
    return digest(*(str(segment.tokens).encode() for segment in record.segments))
