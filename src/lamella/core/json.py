"""JSON as this project writes it: UTF-8, compact, keys in the order given, so that equal data has equal bytes."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from json import dumps, loads
from math import isfinite
from typing import NamedTuple, TypeAlias

import msgspec

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]

_encoder = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder()
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def encode(value: object) -> bytes:
    """The compact UTF-8 bytes of a JSON value."""
    return _encoder.encode(value)


def encode_text(value: object) -> str:
    """As `encode`, decoded."""
    return _encoder.encode(value).decode()


def encode_sorted(value: object) -> str:
    """As `encode_text`, with the keys of every object sorted, so that equal values give equal text."""
    return _sorting.encode(value).decode()


def decode(data: bytes | str) -> Json:
    """The value of a JSON text; raises `msgspec.DecodeError` when it is malformed."""
    value: Json = _decoder.decode(data)
    return value


def decode_object(data: bytes | str) -> dict[str, Json]:
    """The value of a JSON text that must be an object; raises `msgspec.DecodeError` otherwise."""
    try:
        value = _decoder.decode(data)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise msgspec.DecodeError(f"expected a JSON object, got {type(value).__name__}")
    return value


def decode_in_pieces(data: bytes) -> dict[str, Json]:
    """As `decode_object`, but the elements of its lists are decoded one at a time.

    Decoding holds the interpreter, so all other threads wait for as long as one piece takes.
    """
    return {
        name: [_decoder.decode(item) for item in _items.decode(value)] if _is_list(value) else _decoder.decode(value)
        for name, value in _fields.decode(data).items()
    }


def fields_but(data: bytes, left_out: Container[str]) -> dict[str, Json]:
    """The fields of an object but those that are left out, whose values are not decoded."""
    return {name: _decoder.decode(value) for name, value in _fields.decode(data).items() if name not in left_out}


def decode_mended(data: bytes) -> dict[str, Json]:
    """As `decode_object`, for what some programs write and some servers take: half of a surrogate pair, bytes that are
    no UTF-8, a byte order mark, numbers out of range. What can't be kept is replaced. Raises `msgspec.DecodeError`.
    """
    try:
        value = loads(data.decode("utf-8-sig", "replace"), parse_float=_finite, parse_constant=lambda _: None)
        text = dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
    return decode_object(text)


_SUSPECT = re.compile(
    rb"\\u(?:0000|[dD][89aAbB]..(?!\\u[dD][c-fC-F]))|(?<!\\u[dD][89aAbB]..)\\u[dD][c-fC-F]", re.DOTALL
)
"""How NUL, and a half of a surrogate pair without the other one, are escaped; also what only looks so."""
_HALF = re.compile("[\ud800-\udfff]")


def unstorable(data: bytes) -> tuple[str, str] | None:
    """The place, such as `messages.0.content`, of the first text that no database can store, and what it holds.

    None if there is none, and for what is no JSON.
    """
    if _SUSPECT.search(data) is None:
        return None
    try:
        waiting: list[tuple[str, object]] = [("", loads(data))]
    except (ValueError, RecursionError):
        return None
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{where}.{name}" if where else name, item) for name, item in reversed(value.items())]
            texts = list(value)
        elif isinstance(value, list):
            waiting += [(f"{where}.{at}", value[at]) for at in reversed(range(len(value)))]
            continue
        else:
            texts = [value] if isinstance(value, str) else []
        for text in texts:
            if (half := _HALF.search(text)) is not None:
                return where, f"half of a surrogate pair (U+{ord(half[0]):04X})"
            if "\0" in text:
                return where, "NUL (U+0000)"
    return None


def _finite(text: str) -> float | None:
    return float(text) if isfinite(float(text)) else None


class Span(NamedTuple):
    """Where a value stands in a text."""

    start: int
    end: int


_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKENS = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_VALUE = re.compile(_STRING + rb"|[^\s,\]}]+", re.DOTALL)
_SPACE = re.compile(rb"\s*")


def members(data: bytes) -> list[tuple[str, Span]]:
    """The fields of an object in order, with the places of their values; a name that comes twice is there twice.

    Raises `msgspec.DecodeError`.
    """
    try:
        sizes = {name: len(memoryview(value)) for name, value in _fields.decode(data).items()}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _members(data, {})
    with suppress(msgspec.DecodeError, UnicodeDecodeError):  # a name that comes twice leads astray
        found = _members(data, sizes)
        if len(found) == len(sizes) and {name for name, _ in found} == sizes.keys():
            return found
    return _members(data, {})


def _members(data: bytes, sizes: Mapping[str, int]) -> list[tuple[str, Span]]:
    """The fields of an object. `sizes` are those of the values of names that come once; others are looked through."""
    found: list[tuple[str, Span]] = []
    at = _opened(data, b"{")
    while data[at : at + 1] != b"}":
        name_end = _end_of(data, at)
        name = str(_decoder.decode(data[at:name_end]))
        start = _after(data, _after(data, name_end) + 1)
        end = start + sizes[name] if name in sizes else _end_of(data, start)
        found.append((name, Span(start, end)))
        at = _after(data, end)
        if data[at : at + 1] not in (b",", b"}"):
            raise msgspec.DecodeError(f"expected , or }} at byte {at}")
        at = _after(data, at + 1) if data[at : at + 1] == b"," else at
    return found


def elements(data: bytes) -> list[Span]:
    """The places of a list's elements. Raises `msgspec.DecodeError`."""
    found: list[Span] = []
    at = _opened(data, b"[")
    try:
        sizes = [len(memoryview(value)) for value in _items.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        sizes = []
    while data[at : at + 1] != b"]":
        end = at + sizes[len(found)] if sizes else _end_of(data, at)
        found.append(Span(at, end))
        at = _after(data, end)
        at = _after(data, at + 1) if data[at : at + 1] == b"," else at
    return found


def _opened(data: bytes, bracket: bytes) -> int:
    """The place after the bracket with which a text begins."""
    at = _after(data, 0)
    if data[at : at + 1] != bracket:
        raise msgspec.DecodeError(f"expected {bracket.decode()} at byte {at}")
    return _after(data, at + 1)


def with_field(data: bytes, name: str, value: bytes) -> bytes:
    """The same object with another value of a field, or with one more at its end. All else keeps its bytes.

    Raises `msgspec.DecodeError`.
    """
    return with_value(data, name, [span for field, span in members(data) if field == name], value)


def with_value(data: bytes, name: str, spans: Sequence[Span], value: bytes) -> bytes:
    """As `with_field`, for a field that stands at these places; none if it is not there."""
    for start, end in reversed(spans):
        data = data[:start] + value + data[end:]
    if spans:
        return data
    end = data.rindex(b"}")
    last = end - 1
    while data[last : last + 1].isspace():
        last -= 1
    comma = b"" if data[last : last + 1] == b"{" else b","
    return b"%b%b%b:%b%b" % (data[:end], comma, encode(name), value, data[end:])


def _after(data: bytes, at: int) -> int:
    """The place of the next byte that is no space."""
    found = _SPACE.match(data, at)
    return found.end() if found else at


def _end_of(data: bytes, at: int) -> int:
    """The end of the value that begins here."""
    depth = 0
    if data[at : at + 1] in (b"[", b"{"):
        for token in _TOKENS.finditer(data, at):
            depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group()[:1], 0)
            if not depth:
                return token.end()
    found = _VALUE.match(data, at)
    if found is None:
        raise msgspec.DecodeError(f"no value at byte {at}")
    return found.end()


def _is_list(value: msgspec.Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b"["


WRAPPINGS = 3
"""How often a call's arguments may be encoded in a string of their own."""


def decode_arguments(text: str) -> dict[str, Json]:
    """The arguments of a call: a JSON object. Some models encode it twice, as a string that holds the object.

    Raises `msgspec.DecodeError` for anything else.
    """
    for _ in range(WRAPPINGS):
        value = decode(text) if text.lstrip().startswith('"') else None
        if not isinstance(value, str):
            break
        text = value
    return decode_object(text)


def arguments_or_text(text: str) -> dict[str, Json]:
    """As `decode_arguments`; what a client sent and is no object becomes the one argument of an object."""
    try:
        return decode_arguments(text)
    except msgspec.DecodeError:
        return {"arguments": text}


def digest(*pieces: bytes) -> str:
    """A 128-bit fingerprint, in hex, of byte pieces whose borders count."""
    state = blake2b(digest_size=16)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()
