"""The event stream by itself: frames, comments in silence, and a source that is closed however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from lamella.core.ports import Batch
from lamella.server.sse import STILL_THERE, EventStream, frame, frames

pytestmark = pytest.mark.anyio


class Source:
    """Batches, each after a pause; notes that it was closed."""

    def __init__(self, *batches: tuple[float, Batch]) -> None:
        self._batches = batches
        self.closed = False

    async def follow(self) -> AsyncIterator[Batch]:
        try:
            for pause, batch in self._batches:
                await asyncio.sleep(pause)
                yield batch
        finally:
            self.closed = True


def bodies(sent: list[Message]) -> list[bytes]:
    return [message["body"] for message in sent if message["type"] == "http.response.body" and message["body"]]


async def test_a_batch_goes_out_in_one_piece() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    source = Source((0, [(1, b"{}"), (2, b'{"a":1}')]), (0, [(4, b"{}")]))
    await EventStream(frames(source.follow()), silence=60).stream_response(send)
    assert bodies(sent) == [frame(1, b"{}") + frame(2, b'{"a":1}'), frame(4, b"{}")]
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert source.closed


async def test_comments_come_in_silence_only() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    source = Source((0.25, [(1, b"{}")]), *[(0.01, [(n, b"{}")]) for n in range(2, 12)])
    await EventStream(frames(source.follow()), silence=0.1).stream_response(send)
    assert bodies(sent)[:2] == [STILL_THERE, STILL_THERE]
    assert bodies(sent)[-1] == frame(11, b"{}")


@pytest.mark.parametrize("when", ["a packet is sent", "nothing comes"])
async def test_the_source_is_closed_when_the_client_leaves(when: str) -> None:
    source = Source((0, [(1, b"{}")]), (0 if when == "a packet is sent" else 60, [(2, b"{}")]))
    gone = asyncio.Event()

    async def send(message: Message) -> None:
        if message.get("body") == frame(1, b"{}"):
            gone.set()
        if gone.is_set() and when == "a packet is sent":
            raise OSError("the client is gone")

    streaming = asyncio.create_task(EventStream(frames(source.follow()), silence=60).stream_response(send))
    await gone.wait()
    if when == "nothing comes":
        streaming.cancel()
    await asyncio.gather(streaming, return_exceptions=True)
    assert source.closed
    assert [task for task in asyncio.all_tasks() if "_beat" in repr(task) and not task.cancelling()] == []
