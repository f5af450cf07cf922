"""Single columns: JSON, moments, words of a fixed list, and how they are read back.

The stored form of parts has its own structs, so that renaming a field in `core` never changes what lies in a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar, assert_never

import msgspec

from lamella.core.caching import Diagnosis
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject
from lamella.core.messages import Reasoning, StoredPart, Text, ToolCall, ToolResult
from lamella.core.prompt import ToolSpec
from lamella.core.records import Pinned, Said, StoredMarker, StoredSegment
from lamella.core.sessions import Carried
from lamella.core.tokens import Usage
from lamella.storage.failures import damaged, unicode_only

DataT = TypeVar("DataT")
WordT = TypeVar("WordT", bound=StrEnum)


class _TextJson(msgspec.Struct, tag="text", omit_defaults=True):
    text: str


class _ReasoningJson(msgspec.Struct, tag="reasoning", omit_defaults=True):
    text: str
    signature: str | None = None
    redacted: str | None = None


class _CallJson(msgspec.Struct, tag="tool_call", omit_defaults=True):
    id: str
    name: str
    arguments: str


class _ResultJson(msgspec.Struct, tag="tool_result", omit_defaults=True):
    call_id: str
    name: str
    content: str
    is_error: bool = False
    queries: tuple[str, ...] = ()
    digest: str = ""
    rich: str = ""


_PartJson = _TextJson | _ReasoningJson | _CallJson | _ResultJson

_encoder = msgspec.json.Encoder()
_parts_decoder = msgspec.json.Decoder(list[_PartJson])

TOOLS = msgspec.json.Decoder(tuple[ToolSpec, ...])
SEGMENTS = msgspec.json.Decoder(tuple[StoredSegment, ...])
ZONES = msgspec.json.Decoder(tuple[tuple[str, int], ...])
MARKERS = msgspec.json.Decoder(tuple[StoredMarker, ...])
NOTES = msgspec.json.Decoder(tuple[tuple[str, str], ...])
ABSENT = NOTES
DIAGNOSIS = msgspec.json.Decoder(Diagnosis)
PINNED = msgspec.json.Decoder(Pinned)
SAID = msgspec.json.Decoder(Said)
CARRIED = msgspec.json.Decoder(tuple[Carried, ...])
NAMES = msgspec.json.Decoder(tuple[str, ...])
HEAD: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(dict[str, Any])
NUMBERS: msgspec.json.Decoder[Mapping[str, float]] = msgspec.json.Decoder(dict[str, float])
SPENT: msgspec.json.Decoder[Mapping[str, Usage]] = msgspec.json.Decoder(dict[str, Usage])
ERROR: msgspec.json.Decoder[Mapping[str, str | None]] = msgspec.json.Decoder(dict[str, str | None])


def json_text(value: object) -> str:
    """The column of a JSON value; raises `InvalidRequest` for text that is not Unicode."""
    with unicode_only():
        return _encoder.encode(value).decode()


def json_of(decoder: msgspec.json.Decoder[DataT], value: str, what: str) -> DataT:
    """The value of a JSON column; raises `StoreFailed` naming `what` when it is damaged."""
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(what, error) from error


def word_of(kind: type[WordT], value: str, what: str) -> WordT:
    """The word of a column; raises `StoreFailed` naming `what` when it is none of `kind`."""
    try:
        return kind(value)
    except ValueError as error:
        raise damaged(what, error) from error


def _part_json(part: StoredPart) -> _PartJson:
    match part:
        case Text(text):
            return _TextJson(text)
        case Reasoning(text, signature, redacted):
            return _ReasoningJson(text, signature, redacted)
        case ToolCall(call_id, name, arguments):
            return _CallJson(call_id, name, arguments)
        case ToolResult(call_id, name, content, is_error, queries, digest, rich):
            return _ResultJson(call_id, name, content, is_error, queries, digest, rich)
        case _:
            assert_never(part)


def _part_of(part: _PartJson) -> StoredPart:
    match part:
        case _TextJson():
            return Text(part.text)
        case _ReasoningJson():
            return Reasoning(part.text, part.signature, part.redacted)
        case _CallJson():
            return ToolCall(part.id, part.name, part.arguments)
        case _ResultJson():
            queries, digest, rich = part.queries, part.digest, part.rich
            return ToolResult(part.call_id, part.name, part.content, part.is_error, queries, digest, rich)
        case _:
            assert_never(part)


def parts_text(parts: Sequence[StoredPart]) -> str:
    """The column of a list of parts; raises `InvalidRequest` for text that is not Unicode."""
    return json_text([_part_json(part) for part in parts])


def parts_of(value: str, what: str) -> tuple[StoredPart, ...]:
    """The parts of a column; raises `StoreFailed` naming `what` when it is damaged."""
    found = json_of(_parts_decoder, value, what)
    return tuple(map(_part_of, found))


def moment_text(value: datetime) -> str:
    """The column of a moment: in UTC, of fixed width."""
    return _aware(value).astimezone(UTC).isoformat(timespec="microseconds")


def local_moment_text(value: datetime) -> str:
    """The column of a moment that keeps the offset it was given in."""
    return _aware(value).isoformat()


def fixed_offset(value: datetime) -> datetime:
    """The moment as it comes back from a database: with its offset, without the name of its zone."""
    return datetime.fromisoformat(local_moment_text(value))


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise InvalidRequest("A moment without a time zone cannot be stored.")
    return value
