"""Server-sent events with our own framing: `id:` is the packet's number, a comment after 15 s of silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from lamella.core.ports import Batch

EVENT_STREAM = "text/event-stream"
SILENCE_SECONDS = 15.0
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


_LINE_ENDS = {end.encode(): f"\\u{ord(end):04x}".encode() for end in "\x85\u2028\u2029"}
"""What JSON leaves in a string and many clients take for the end of a line."""


def frame(n: int, data: bytes) -> bytes:
    """One event; `data` is JSON."""
    for end, escaped in _LINE_ENDS.items():
        data = data.replace(end, escaped)
    return b"id: %d\ndata: %b\n\n" % (n, data)


async def frames(batches: AsyncIterator[Batch], silence: float) -> AsyncIterator[bytes]:
    """Frames as packets come, and comments in between; the packets' source is closed with this."""
    following: asyncio.Task[Batch | None] | None = None
    try:
        while True:
            following = following or asyncio.create_task(_next(batches))
            await asyncio.wait({following}, timeout=silence)
            if not following.done():
                yield b": still there\n\n"
                continue
            batch = following.result()
            following = None
            if batch is None:
                return
            yield b"".join(frame(n, data) for n, data in batch)
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await batches.aclose()  # type: ignore[attr-defined]  # every source is an async generator


async def _next(batches: AsyncIterator[Batch]) -> Batch | None:
    return await anext(batches, None)


def event_stream(batches: AsyncIterator[Batch], silence: float) -> StreamingResponse:
    """The streaming answer."""
    return StreamingResponse(frames(batches, silence), media_type=EVENT_STREAM, headers=HEADERS)
