"""JSON as this project writes it: UTF-8, compact, keys in the order given, so that equal data has equal bytes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

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


def digest(*pieces: bytes) -> str:
    """A 128-bit fingerprint, in hex, of byte pieces whose borders count."""
    state = blake2b(digest_size=16)
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.hexdigest()
