"""Types of columns: each turns a Python value into what the database holds, and back.

A column of type `UtcMoment` takes and gives an aware `datetime`, `OneOf(JobStatus)` an enum, `Json(...)` a value that
msgspec decodes, `Parts` the parts of a message. A row then has the values of the core's records, and `storage.rows`
needs only their names. A stored value that can't be read raises `StoreFailed`, which names the column.

Parts have structs of their own, so that renaming a field in `core` never changes what lies in a database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from sqlalchemy import Dialect, LargeBinary, String, Table
from sqlalchemy import Text as LongString
from sqlalchemy.types import TypeDecorator, TypeEngine

from lamella.core.errors import InvalidRequest
from lamella.core.messages import Reasoning, StoredPart, Text, ToolCall, ToolResult
from lamella.storage.failures import damaged, unicode_only
from lamella.storage.packing import EARLIER, NEWEST, packed, unpacked

POSTGRESQL = "postgresql"
_encoder = msgspec.json.Encoder()


class ColumnType(TypeDecorator[Any]):
    """A type that names its column when a stored value makes no sense."""

    impl: type[String] = LongString
    cache_ok = True
    place = "a value"

    @property
    def reader(self) -> Callable[[Any], Any]:
        """What makes the Python value of a stored one; raises `ValueError` or `KeyError` when it makes no sense."""
        raise NotImplementedError

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLAlchemy's hook: what the database calls this type, with texts in the order of their characters."""
        held = self.impl_instance
        assert isinstance(held, String)
        return dialect.type_descriptor(in_order(held, dialect.name))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """SQLAlchemy's hook: null is None in every column. One call for each value, since rows have many."""
        read, place = self.reader, self.place

        def processed(value: Any) -> Any:
            if value is None:
                return None
            try:
                return read(value)
            except (ValueError, KeyError) as error:
                raise damaged(place, error) from error

        return processed


class PlainText(TypeDecorator[str]):
    """A text as it is. Raises `InvalidRequest` for one with a NUL, which PostgreSQL can't hold."""

    impl = LongString
    cache_ok = True

    def __init__(self, held: type[String]) -> None:
        super().__init__()
        self.held = held

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLAlchemy's hook: what the database calls this type."""
        return dialect.type_descriptor(in_order(self.held(), dialect.name))

    @property
    def python_type(self) -> type[str]:
        """SQLAlchemy's hook."""
        return str

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """SQLAlchemy's hook."""
        return None if value is None else without_nul(value)


def without_nul(text: str) -> str:
    """The text; raises `InvalidRequest` for one with a NUL."""
    if "\0" in text:
        raise InvalidRequest("The text holds NUL (U+0000), which is no character to store.", hint="Leave it out.")
    return text


def in_order(held: String, dialect: str) -> String:
    """A type of text whose values are sorted by their characters, whatever language a database was made for."""
    return type(held)(collation="C") if dialect == POSTGRESQL else held


def name_columns(table: Table) -> None:
    """The types of a table's columns, by their positions."""
    for column in table.c:
        if isinstance(column.type, ColumnType):
            column.type.place = f"{table.name}.{column.name}"
        elif isinstance(column.type, String):
            column.type = PlainText(type(column.type))


class UtcMoment(ColumnType):
    """A moment in UTC, as text of fixed width that sorts by time: `2026-03-01T12:00:00.000000+00:00`."""

    impl = String
    cache_ok = True

    @property
    def reader(self) -> Callable[[str], datetime]:
        """Of a text the moment."""
        return datetime.fromisoformat

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """SQLAlchemy's hook; raises `InvalidRequest` for a moment without a zone."""
        return None if value is None else moment_text(value)


class LocalMoment(UtcMoment):
    """A moment that keeps the offset it was given in: `2026-03-01T13:00:00+01:00`."""

    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """As that of `UtcMoment`."""
        return None if value is None else local_moment_text(value)


class OneOf(ColumnType):
    """A word of a fixed list."""

    cache_ok = True

    def __init__(self, kind: type[StrEnum], held: type[String] = String) -> None:
        super().__init__()
        self.kind, self.held = kind, held

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLAlchemy's hook: what the database calls this type."""
        return dialect.type_descriptor(in_order(self.held(), dialect.name))

    @property
    def reader(self) -> Callable[[str], StrEnum]:
        """Of a text the word."""
        return {word.value: word for word in self.kind}.__getitem__

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """SQLAlchemy's hook."""
        return None if value is None else str(value)


class Json(ColumnType):
    """A value as JSON, decoded as a type that msgspec knows: `Json(tuple[ToolSpec, ...])`."""

    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    @property
    def reader(self) -> Callable[[str], Any]:
        """Of a JSON text the value."""
        return msgspec.json.Decoder(self.kind).decode

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        """SQLAlchemy's hook; raises `InvalidRequest` for text that is not Unicode."""
        return None if value is None else json_text(value)


def _form(dialect: Dialect) -> bytes:
    """How values are packed: processes of an earlier version, which PostgreSQL may have too, can't read the newest."""
    return EARLIER if dialect.name == POSTGRESQL else NEWEST


class PackedBytes(ColumnType):
    """Bytes, deflated (`storage.packing`)."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLAlchemy's hook: what the database calls this type."""
        return dialect.type_descriptor(LargeBinary())

    @property
    def reader(self) -> Callable[[Any], Any]:
        """Of stored bytes those that they stand for."""
        return unpacked

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """SQLAlchemy's hook."""
        return None if value is None else packed(value, _form(dialect))


class PackedJson(PackedBytes):
    """As `Json`, deflated."""

    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    @property
    def reader(self) -> Callable[[Any], Any]:
        """Of stored bytes the value."""
        decode = msgspec.json.Decoder(self.kind).decode
        return lambda stored: decode(unpacked(stored))

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """SQLAlchemy's hook; raises `InvalidRequest` for text that is not Unicode."""
        return None if value is None else packed(json_text(value).encode(), _form(dialect))


class PackedText(PackedBytes):
    """A text, deflated. Raises `InvalidRequest` for one with a NUL, as `PlainText` does."""

    cache_ok = True

    @property
    def reader(self) -> Callable[[Any], Any]:
        """Of stored bytes the text."""
        return lambda stored: unpacked(stored).decode()

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """SQLAlchemy's hook; raises `InvalidRequest` for text that is not Unicode."""
        if value is None:
            return None
        with unicode_only():
            return packed(without_nul(value).encode(), _form(dialect))


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


class Parts(ColumnType):
    """What a model or a user said: a JSON list of objects with a `type`."""

    cache_ok = True
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[_TextJson | _ReasoningJson | _CallJson])

    @property
    def reader(self) -> Callable[[str], tuple[StoredPart, ...]]:
        """Of a JSON text the parts."""
        decode = self.decoder.decode
        return lambda value: () if value == "[]" else tuple(map(_part_of, decode(value)))

    def process_bind_param(self, value: Sequence[StoredPart] | None, dialect: Dialect) -> str | None:
        """SQLAlchemy's hook; raises `InvalidRequest` for text that is not Unicode."""
        return None if value is None else json_text(list(map(_part_json, value)))


class Results(Parts):
    """What tools gave back: as `Parts`, of results alone."""

    cache_ok = True
    decoder = msgspec.json.Decoder(list[_ResultJson])


_PartJson = _TextJson | _ReasoningJson | _CallJson | _ResultJson


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


def json_text(value: object) -> str:
    """A value as JSON; raises `InvalidRequest` for text that is not Unicode."""
    with unicode_only():
        return _encoder.encode(value).decode()


def moment_text(value: datetime) -> str:
    """A moment in UTC, of fixed width."""
    return _aware(value).astimezone(UTC).isoformat(timespec="microseconds")


def local_moment_text(value: datetime) -> str:
    """A moment with the offset it was given in."""
    return _aware(value).isoformat()


def fixed_offset(value: datetime) -> datetime:
    """The moment as it comes back from a database: with its offset, without the name of its zone."""
    return datetime.fromisoformat(local_moment_text(value))


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise InvalidRequest("A moment without a time zone cannot be stored.")
    return value
