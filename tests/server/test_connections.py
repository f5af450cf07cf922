"""The socket before anybody is known: heads, time and places have limits, and who speaks is answered all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lamella.app.app import open_app
from lamella.core.json import decode_object
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.connections import MAX_HEAD_BYTES, MAX_HEADERS, MAX_URL_BYTES, Limits
from lamella.server.testing import Object, serving
from lamella.server.testing import client as connected
from lamella.server.web import create_web
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

FEW = Limits(in_all=8, per_address=6, head_seconds=0.3, body_seconds=0.5)
HELLO = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@dataclass(frozen=True)
class Raw:
    """A connection of which every byte is ours."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send as much as the server takes."""
        self.writer.write(data)
        try:
            await self.writer.drain()
        except OSError:
            return

    async def rest(self) -> bytes:
        """All that the server sends until it closes."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read()
            except OSError:
                return b""

    async def refusal(self) -> tuple[int, Object]:
        """The status and the error of the server's last word."""
        head, _, body = (await self.rest()).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        error: Object = decode_object(body)["error"]  # type: ignore[assignment]
        return int(head.split()[1]), error


@asynccontextmanager
async def raw(address: str) -> AsyncIterator[Raw]:
    """A new connection."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def address(tmp_path: Path, anyio_backend: str) -> AsyncIterator[str]:
    async with (
        open_app(read_settings(data=tmp_path), models=ScriptedModels(ScriptedModel())) as app,
        serving(create_web(app), FEW) as found,
    ):
        yield found


async def is_served(address: str) -> bool:
    """Whether somebody new is answered."""
    async with connected(address) as client:
        return (await client.http.get("/healthz")).status_code == 200


async def test_a_head_without_an_end_is_refused_when_it_is_too_long(address: str) -> None:
    async with raw(address) as one:
        await one.send(HELLO + b"x: ")
        for _ in range(200):
            await one.send(b"a" * 64_000)
        status, error = await one.refusal()
    assert (status, error["code"]) == (431, "payload_too_large")
    assert str(MAX_HEAD_BYTES // 1000) in error["message"]
    assert await is_served(address)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (HELLO + b"".join(b"x-%d: 1\r\n" % n for n in range(MAX_HEADERS)) + b"\r\n", 431),
        (HELLO + b"x: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * MAX_URL_BYTES + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 414),
        (b"this is no request\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ],
)
async def test_a_head_beyond_a_limit_is_refused_with_the_reason(
    address: str, request_bytes: bytes, status: int
) -> None:
    async with raw(address) as one:
        await one.send(request_bytes)
        got, error = await one.refusal()
    assert got == status
    assert error["message"]


async def test_a_head_within_the_limits_is_answered(address: str) -> None:
    fields = {f"x-{n}": "v" * 500 for n in range(MAX_HEADERS - 10)}
    async with connected(address) as client:
        answer = await client.http.get("/healthz?" + "q" * (MAX_URL_BYTES - 100), headers=fields)
    assert answer.status_code == 200


async def test_trailers_and_chunk_extensions_have_the_same_limits(address: str) -> None:
    head = b"POST /api/v1/conversations HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
    for endless in (b"0\r\nx: ", b"5;x="):
        async with raw(address) as one:
            await one.send(head + endless)
            for _ in range(100):
                await one.send(b"a" * 64_000)
            assert (await one.refusal())[0] == 431


async def test_who_does_not_end_a_head_is_let_go(address: str) -> None:
    async with raw(address) as silent, raw(address) as slow:
        await slow.send(HELLO)
        began = time.monotonic()
        status, error = await slow.refusal()
        assert status == 408
        assert "0.3 seconds" in error["message"]
        assert (await silent.rest()).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - began < 5


async def test_one_byte_now_and_then_ends_no_head(address: str) -> None:
    async with raw(address) as one:
        await one.send(HELLO + b"x: ")

        async def drip() -> None:
            while True:
                await one.send(b"a")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        try:
            assert (await one.refusal())[0] == 408
        finally:
            dripping.cancel()


async def test_a_body_that_stops_is_let_go_and_one_that_goes_on_is_read(address: str) -> None:
    head = b"POST /api/v1/conversations HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    async with raw(address) as one:
        await one.send(head + b"content-length: 20\r\n\r\n{")
        assert (await one.refusal())[0] == 408
    async with raw(address) as one:
        await one.send(head + b"connection: close\r\ncontent-length: 8\r\n\r\n")
        for byte in b"{     }\n":
            await one.send(bytes([byte]))
            await asyncio.sleep(0.12)
        assert (await one.rest()).startswith(b"HTTP/1.1 201")


async def test_half_open_requests_keep_nobody_out(address: str) -> None:
    """Many more than there are places, from the address of those who want to be answered too."""
    opened = []
    try:
        for n in range(40):
            place = urlsplit(address)
            opened.append(await asyncio.open_connection(place.hostname, place.port))
            opened[-1][1].write(HELLO)
            if n % 8 == 7:
                assert await is_served(address)
    finally:
        for _, writer in opened:
            writer.close()
    assert await is_served(address)


async def test_answers_under_way_keep_their_places_and_one_too_many_is_told(tmp_path: Path) -> None:
    """Also when they take longer than any limit: time is counted while the client has the word."""
    gates = [Gate() for _ in range(FEW.per_address)]
    model = ScriptedModel([[gate, *saying("At last.")] for gate in gates])
    async with (
        open_app(read_settings(data=tmp_path, titles=False), models=ScriptedModels(model)) as app,
        serving(create_web(app), FEW) as address,
        AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(connected(address)) for _ in gates]
        ids = [await client.conversation() for client in clients]
        turns = [asyncio.create_task(client.send(one, "Tell me.")) for client, one in zip(clients, ids, strict=True)]
        for gate in gates:
            await gate.reached.wait()
        await asyncio.sleep(FEW.head_seconds + FEW.body_seconds)
        async with raw(address) as late:
            status, error = await late.refusal()
            assert (status, error["code"]) == (503, "overloaded")
        for gate in gates:
            gate.opened.set()
        for packets in await asyncio.gather(*turns):
            assert packets[-1]["type"] == "turn.finished"
        assert await is_served(address)
