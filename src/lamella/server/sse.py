"""Server-sent events with our own framing: `id:` is the packet's number, a comment after 15 s of silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from lamella.core.json import encode
from lamella.core.ports import Batch

EVENT_STREAM = "text/event-stream"
SILENCE_SECONDS = 15.0
STILL_THERE = b": still there\n\n"
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}
"""Characters that JSON allows in a string and many clients take for the end of a line."""


def frame(n: int, data: bytes) -> bytes:
    """One event with its number; `data` is JSON."""
    return b"id: %d\ndata: %b\n\n" % (n, _in_a_line(data))


def event(value: Mapping[str, Any]) -> bytes:
    """One event without a number."""
    return b"data: %b\n\n" % _in_a_line(encode(value))


def _in_a_line(data: bytes) -> bytes:
    for end, escaped in _LINE_ENDS.items():
        data = data.replace(end, escaped)
    return data


async def frames(batches: AsyncIterator[Batch]) -> AsyncGenerator[bytes, None]:
    """SSE frames of packets, one chunk per batch. Closes the packets' source at the end."""
    try:
        async for batch in batches:
            yield b"".join(frame(n, data) for n, data in batch)
    finally:
        await batches.aclose()  # type: ignore[attr-defined]  # every source is an async generator


class EventStream(StreamingResponse):
    """Events, and a comment after `silence` seconds without one.

    The comments come from one separate task: a task or a timer for each packet would cost more than the packet.
    """

    def __init__(self, written: AsyncGenerator[bytes, None], silence: float, status: int = 200) -> None:
        self._frames = written
        super().__init__(self._frames, status_code=status, media_type=EVENT_STREAM, headers=HEADERS)
        self._silence = silence
        self._sent_at = 0.0

    async def stream_response(self, send: Send) -> None:
        """Send it all; starlette calls this."""
        clock = asyncio.get_running_loop().time

        async def noting(message: Message) -> None:
            self._sent_at = clock()
            await send(message)

        self._sent_at = clock()
        beating = asyncio.create_task(self._beat(noting))
        try:
            await super().stream_response(noting)
        finally:
            beating.cancel()
            await self._frames.aclose()

    async def _beat(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        with suppress(OSError):
            while True:
                quiet = clock() - self._sent_at
                if quiet < self._silence:
                    await asyncio.sleep(self._silence - quiet)
                else:
                    await send({"type": "http.response.body", "body": STILL_THERE, "more_body": True})


def event_stream(batches: AsyncIterator[Batch], silence: float, status: int = 200) -> EventStream:
    """The packets of a turn as a streaming answer."""
    return EventStream(frames(batches), silence, status)
