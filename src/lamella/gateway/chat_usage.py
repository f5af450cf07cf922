"""The usage of a Chat stream: asked for if the caller did not, and taken out of what the caller gets.

A Chat stream only has a bill if `stream_options.include_usage` asks for it, in a last chunk without choices. Some
clients fail on a chunk without choices, so it goes to those alone that asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lamella.core.json import Json, decode

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_END = b"\n\n"


def asks_for_usage(fields: Mapping[str, Json]) -> bool:
    """Whether a body has a bill in its answer already: it is no stream, or it asks for one."""
    options = fields.get("stream_options")
    return fields.get("stream") is not True or (isinstance(options, Mapping) and bool(options.get("include_usage")))


def with_usage(body: bytes) -> bytes:
    """The same body, which asks for the usage; everything else keeps its bytes."""
    fields = _fields.decode(body)
    given = bytes(fields.get("stream_options", b"")).strip()
    options = _fields.decode(given) if given.startswith(b"{") else {}
    options["include_usage"] = msgspec.Raw(b"true")
    fields["stream_options"] = msgspec.Raw(msgspec.json.encode(options))
    return msgspec.json.encode(fields)


class UsageFilter:
    """Takes the chunk with the usage out of a stream, and leaves every other byte."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What the caller gets of these bytes, and of those that were held for the end of their event."""
        if not self._rest and data.endswith(_END) and b'"usage"' not in data:
            return data
        *whole, self._rest = (self._rest + data).split(_END)
        return b"".join(event + _END for event in whole if not _is_bill(event))

    def end(self) -> bytes:
        """What is left of a stream that ended within an event."""
        return self._rest


def _is_bill(event: bytes) -> bool:
    """Whether an event is a chunk that has a usage and no choices."""
    if b'"usage"' not in event or not event.lstrip().startswith(b"data:"):
        return False
    try:
        chunk = decode(event.lstrip().removeprefix(b"data:"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(chunk, Mapping) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), Mapping)
