"""The map of a request: every segment with its tokens, and what of it was read, written or paid in full (X-WHY)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.core.json import Json, decode
from lamella.core.records import RequestRecord, StoredBlock, StoredMarker, StoredSegment

PREVIEW = 280
"""Characters of a segment's text that a map shows."""


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A segment in its place. The four counts are apportioned from the bill where `measured`, else estimated."""

    segment: StoredSegment
    zone: str
    tokens: int
    read: int
    written: int
    fresh: int
    measured: bool
    markers: tuple[StoredMarker, ...]
    preview: str


def map_request(record: RequestRecord, blocks: Sequence[StoredBlock]) -> tuple[MappedSegment, ...]:
    """Split the bill over the segments by their local weight, in window order: first read, then written, then fresh."""
    texts = {block.digest: block.data for block in blocks}
    whole = sum(segment.tokens for segment in record.segments) or 1
    usage = record.usage
    scale = (usage.input if usage and usage.input else record.estimate) / whole
    read_end = usage.cache_read if usage else 0
    written_end = read_end + (usage.cache_write if usage else 0)
    mapped = []
    position, block_index, before = 0.0, 0, 0
    for segment, zone in zip(record.segments, _zones(record), strict=True):
        position += segment.tokens * scale
        after = round(position)
        count = len(segment.blocks)
        read = _overlap(before, after, 0, read_end)
        written = _overlap(before, after, read_end, written_end)
        mapped.append(
            MappedSegment(
                segment=segment,
                zone=zone,
                tokens=after - before,
                read=read,
                written=written,
                fresh=after - before - read - written,
                measured=bool(usage and usage.input),
                markers=tuple(m for m in record.markers if block_index <= m.index < block_index + count),
                preview=_preview([texts[digest] for digest in segment.blocks if digest in texts]),
            )
        )
        before, block_index = after, block_index + count
    return tuple(mapped)


def _zones(record: RequestRecord) -> list[str]:
    return [zone for zone, count in record.zones for _ in range(count)]


def _overlap(start: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(start, low))


def _preview(blocks: Sequence[bytes]) -> str:
    """The first words of a segment, whatever the provider's JSON around them looks like."""
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
