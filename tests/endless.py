"""A provider that streams some events and then says nothing more, so that an answer can be stopped at a known place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

CHUNK = "The tide turns twice a day, and the harbour with it. "


def claude(count: int) -> Iterator[Any]:
    usage = {"input_tokens": 300, "output_tokens": 1}
    yield {"type": "message_start", "message": {"id": "m", "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for _ in range(count):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": CHUNK}}


@asynccontextmanager
async def never_ending(bodies: Iterator[Any]) -> AsyncIterator[str]:
    """The address of a provider that streams these events and then says nothing more."""
    lines = "".join(
        (f"event: {body['type']}\n" if "type" in body else "") + f"data: {json.dumps(body)}\n\n" for body in bodies
    )
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n" + lines.encode())
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        ended.set()
        server.close()
