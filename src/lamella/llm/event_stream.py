"""Server-sent events as the HTML standard defines them: bytes in, events out, in chunks of any size.

    decoder = EventDecoder()
    decoder.feed(b"event: ping\\nda")        # []
    decoder.feed(b"ta: {}\\n\\n")             # [StreamEvent("ping", b"{}")]

Lines end with LF, CR or CR LF. Several `data` lines of one event are joined by LF. Comments and other fields, such as
`id` and `retry`, are ignored. An event without an empty line after it is not complete and is never given.
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import codecs
from typing import NamedTuple


class StreamEvent(NamedTuple):
    """One event. `name` is "" if the server gave none; `data` is UTF-8, usually JSON."""

    name: str
    data: bytes


class EventDecoder:
    """Decodes one stream. It works on bytes, so a chunk may end inside a character."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The pieces of a line whose end has not come."""
        self._starts = True
        self._skips_lf = False
        """Whether the last chunk ended with CR: an LF that follows belongs to it."""
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that this chunk completes."""
        if self._skips_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skips_lf = False
        if b"\n" not in chunk and b"\r" not in chunk:
            self._rest.append(chunk)
            return []
        lines = (b"".join(self._rest) + chunk).splitlines()
        self._skips_lf = chunk.endswith(b"\r")
        self._rest = [] if chunk.endswith((b"\n", b"\r")) else [lines.pop()]
        if self._starts:
            self._starts = False
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> StreamEvent | None:
        """Read one line; an empty one completes an event that has data."""
        if not line:
            event = StreamEvent(self._name.decode(errors="replace"), b"\n".join(self._data)) if self._data else None
            self._name, self._data = b"", []
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        return None
