"""A provider as little as one can be: it reads a request and writes a stream of the request's dialect, paced.

    python -m relaying.upstream

Prints its address. `POST /_set` changes the number of chunks and the pause before each; `GET /_left` tells when the
other side last closed a connection before its stream was whole, on the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from uvicorn.loops.auto import auto_loop_factory

WORD = "lamp "
"""Each chunk has it once, with a number: LiteLLM ends a stream in which 100 chunks are the same."""

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


def _event(data: Mapping[str, object], name: str = "") -> bytes:
    said = json.dumps(data, separators=(",", ":")).encode()
    return b"event: %b\ndata: %b\n\n" % (name.encode(), said) if name else b"data: %b\n\n" % said


def _messages(chunks: int, size: int) -> Iterator[bytes]:
    usage = {"input_tokens": size // 4, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block = {"type": "text", "text": ""}
    yield _event({"type": "message_start", "message": message}, "message_start")
    yield _event({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")
    for number in range(chunks):
        delta = {"type": "text_delta", "text": f"{WORD}{number} "}
        yield _event({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
    yield _event({"type": "content_block_stop", "index": 0}, "content_block_stop")
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": chunks}}
    yield _event(ended, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def _chat(chunks: int, size: int, *, bills: bool) -> Iterator[bytes]:
    head: dict[str, object] = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for number in range(chunks):
        delta = {"role": "assistant", "content": f"{WORD}{number} "}
        yield _event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if bills:
        usage = {"prompt_tokens": size // 4, "completion_tokens": chunks, "total_tokens": size // 4 + chunks}
        yield _event(head | {"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _responses(chunks: int, size: int) -> Iterator[bytes]:
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": WORD * chunks, "annotations": []}]  # type: ignore[assignment]
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    usage = {"input_tokens": size // 4, "output_tokens": chunks, "total_tokens": size // 4 + chunks}
    yield _event({"type": "response.created", "response": begun}, "response.created")
    name = "response.output_text.delta"
    for number in range(chunks):
        yield _event({"type": name, "output_index": 0, "content_index": 0, "delta": f"{WORD}{number} "}, name)
    done = "response.output_item.done"
    yield _event({"type": done, "output_index": 0, "item": item}, done)
    ended = begun | {"status": "completed", "output": [item], "usage": usage}
    yield _event({"type": "response.completed", "response": ended}, "response.completed")


@dataclass
class PacedUpstream:
    """`pause` is in seconds; without one the whole stream is written at once."""

    chunks: int = 20
    pause: float = 0.0
    left: float = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ":0")
                body = await reader.readexactly(int(length.partition(":")[2]))
                path = head.split(" ", 2)[1].partition("?")[0]
                if path.startswith("/_"):
                    writer.write(self._told(path, body))
                else:
                    await self._stream(path, body, writer)
        writer.close()

    def _told(self, path: str, body: bytes) -> bytes:
        if path == "/_set":
            changes = json.loads(body)
            self.chunks, self.pause, self.left = changes["chunks"], changes["pause"], 0.0
        answer = json.dumps({"left": self.left}).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            len(answer),
            answer,
        )

    async def _stream(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        if path == PATHS["chat"]:
            events = _chat(self.chunks, len(body), bills=b'"include_usage":true' in body.replace(b" ", b""))
        else:
            events = (_messages if path == PATHS["messages"] else _responses)(self.chunks, len(body))
        for event in events:
            if self.pause:
                await asyncio.sleep(self.pause)
            if writer.transport.is_closing():
                self.left = time.monotonic()
                raise ConnectionError
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _main() -> None:
    server = await asyncio.start_server(PacedUpstream().serve, "127.0.0.1", 0, limit=2**26)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_main())
