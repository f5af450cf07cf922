"""Faults of real connections on every wire: each is told by its cause, and nothing that a library wrote is shown."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lamella.core.errors import ProviderError, ProviderRefusedRequest, ProviderStreamBroken, ProviderUnreachable
from lamella.llm.embeddings import OpenAIEmbeddings

from .provider import VENDORS, Heard, connected, context, listen, request_of
from .raw_server import http, self_signed

pytestmark = pytest.mark.anyio

FOREIGN = re.compile(
    r"aiohttp|httpx|httpcore|h11|anyio|asyncio|sqlalchemy|pydantic|[A-Z]\w+(?:Error|Exception|Timeout)\b|Errno|ssl:"
    r"|Error code|NoneType|codec|has no attribute|not subscriptable|Expecting|bytearray|Connect call|payload|chunk"
    r"|decompress|<[a-z!]|\{|Connection error|Server disconnected",
    re.IGNORECASE,
)
"""Words of libraries, of Python, and of web pages."""

EVENT = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
CHUNK = f"{len(EVENT):x}\r\n".encode() + EVENT + b"\r\n"
PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx/1.25.3</body></html>"

WHOLE = "the connection ended before the answer was whole"
VALID = "the connection ended without a valid answer"
READ = "its answer can't be read"
UNPACKED = "its answer can't be unpacked"
NO_ANSWER = "it did not send a model's answer"
DID_NOT_SAY = "and did not say why"
WEB_PAGE = "with a web page"

CUT: dict[str, tuple[bytes, str]] = {
    "a chunk that is cut off": (CHUNKED + CHUNK + b"100\r\ndata:", WHOLE),
    "chunks without an end": (CHUNKED + CHUNK, WHOLE),
    "fewer bytes than were said": (HEAD + b"content-length: 5000\r\n\r\n" + EVENT, WHOLE),
    "nothing at all": (b"", VALID),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-ty", VALID),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", VALID),
    "a status that is none": (b"HTTP/1.1 abc\r\n\r\n", VALID),
    "a head without an end": (b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 200_000 + b"\r\n\r\n", VALID),
    "what is no gzip": (HEAD + b"content-encoding: gzip\r\ncontent-length: 40\r\n\r\n" + b"x" * 40, UNPACKED),
    "a failure that is no gzip": (
        b"HTTP/1.1 500 X\r\ncontent-encoding: gzip\r\ncontent-length: 40\r\n\r\n" + b"x" * 40,
        UNPACKED,
    ),
    "gzip that is cut off": (HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(EVENT)[:30], NO_ANSWER),
    "a text": (http(200, b"It works!", "text/plain"), NO_ANSWER),
    "JSON": (http(200, b'{"ok":true}'), NO_ANSWER),
    "a page": (http(200, PAGE, "text/html"), NO_ANSWER),
    "no content": (b"HTTP/1.1 204 X\r\n\r\n", NO_ANSWER),
    "half of a character": (http(200, b'event: message_start\ndata: {"type":"\xff"}\n\n', "text/event-stream"), READ),
    "no JSON in an event": (http(200, b"event: message_start\ndata: {no\n\n", "text/event-stream"), READ),
    "a page for a failure": (http(502, PAGE, "text/html"), WEB_PAGE),
    "a page that is not there": (http(404, b"  <html>no</html>", "text/html"), WEB_PAGE),
    "XML": (http(403, b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "text/xml"), WEB_PAGE),
    "a failure without a word": (http(500, b""), DID_NOT_SAY),
    "a failure with a list": (http(400, b"[1]"), DID_NOT_SAY),
    "a failure that is another object": (http(400, b'{"status":"bad","errors":[{"loc":["x"]}]}'), DID_NOT_SAY),
    "a redirect": (b"HTTP/1.1 302 X\r\nlocation: http://other.invalid/\r\ncontent-length: 0\r\n\r\n", DID_NOT_SAY),
    "a failure in words": (http(503, b"no healthy upstream", "text/plain"), "no healthy upstream"),
    "a failure with a detail": (http(400, b'{"detail":"no such model here"}'), "no such model here"),
    "a failure with a message": (
        http(400, b'{"error":{"message":"bad thing","code":null}}'),
        "answered 400: bad thing",
    ),
}


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(answer: bytes, *, reset: bool = False, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers with these bytes and closes, or resets, the connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            await reader.readexactly(next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        writer.write(answer)
        await asyncio.sleep(0.05)
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        scheme = "https" if tls is not None else "http"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def heard(vendor: str, url: str) -> Heard:
    model = connected(vendor, url, timeout=3.0)
    try:
        return await listen(model, request_of(model, context(model)))
    finally:
        await model.close()


def expect_plain(error: ProviderError | None, said: str) -> ProviderError:
    """An error of ours that says this, and nothing foreign, in a message and a hint."""
    assert error is not None
    assert said in error.message
    text = re.sub(r"https?://[\w.:/-]+", "", f"{error.message} {error.hint}")
    found = FOREIGN.search(text)
    assert found is None, f"“{found and found[0]}” in: {error.message}"
    return error


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("answer", "said"), CUT.values(), ids=CUT)
async def test_a_connection_that_fails_is_told_by_its_cause(vendor: str, answer: bytes, said: str) -> None:
    async with serving(answer) as url:
        error = expect_plain((await heard(vendor, url)).error, said)
    if said in (WHOLE, READ, UNPACKED, NO_ANSWER):
        assert type(error) is ProviderStreamBroken
    if said == VALID:
        assert type(error) is ProviderUnreachable


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("answer", "said"), [(b"", VALID), (b"HTTP/1.1 200", VALID), (CHUNKED + CHUNK, WHOLE)])
async def test_a_connection_that_is_reset(vendor: str, answer: bytes, said: str) -> None:
    async with serving(answer, reset=True) as url:
        expect_plain((await heard(vendor, url)).error, said)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_name_that_nobody_has_and_a_port_where_nobody_listens(vendor: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    for url, said in (
        ("http://no-such-host.invalid", "there is no host of this name"),
        ("https://no-such-host.invalid", "there is no host of this name"),
        (f"http://127.0.0.1:{port}", "nothing listens at this address"),
    ):
        error = expect_plain((await heard(vendor, url)).error, said)
        assert type(error) is ProviderUnreachable


@pytest.mark.parametrize("vendor", VENDORS)
async def test_tls_that_is_not_trusted_or_not_spoken(vendor: str, tmp_path: Path) -> None:
    async with serving(http(200, b""), tls=self_signed(tmp_path)) as url:
        expect_plain((await heard(vendor, url)).error, "its TLS certificate is not trusted here")

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    expect_plain((await heard(vendor, url)).error, "no TLS connection could be made with it")
    server.close()


@pytest.mark.parametrize("vendor", ["anthropic", "responses"])
@pytest.mark.parametrize("case", ["what is no gzip", "a text", "JSON", "a page", "half a head", "a page for a failure"])
async def test_a_count_fails_as_plainly(vendor: str, case: str) -> None:
    async with serving(CUT[case][0]) as url:
        model = connected(vendor, url, timeout=3.0)
        with pytest.raises(ProviderError) as raised:
            await model.count(request_of(model, context(model)))
        await model.close()
    expect_plain(raised.value, "")


@pytest.mark.parametrize(("answer", "said"), CUT.values(), ids=CUT)
async def test_embeddings_fail_as_plainly(answer: bytes, said: str) -> None:
    async with serving(answer) as url:
        server = OpenAIEmbeddings(base_url=f"{url}/v1", model="m", key="k", timeout=3.0, retries=0)
        with pytest.raises(ProviderError) as raised:
            await server.embed(["a"])
        await server.close()
    error = expect_plain(raised.value, said if said in (UNPACKED, WEB_PAGE, DID_NOT_SAY) else "")
    assert type(error) is not ProviderRefusedRequest or "embeddings server" in error.message
