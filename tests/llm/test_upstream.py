"""Bytes go to a server and come back as they are; a connection ends at once when its reader does; errors are plain."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lamella.core.errors import ProviderError, ProviderStreamBroken, ProviderTimeout, ProviderUnreachable
from lamella.llm.upstream import Upstream, proxy_of

from .raw_server import http, self_signed

pytestmark = pytest.mark.anyio
BOUND = 0.5
"""Seconds until the server sees that its reader is gone."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Answer = Callable[[asyncio.StreamWriter, bytes], Coroutine[Any, Any, None]]
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: a connection is closed by the loop, and `lamella serve` runs on uvloop."""
    return "asyncio", {"use_uvloop": request.param}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Server:
    """Answers each request by `answer`; keeps what it received, and when each connection ended."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.url = ""
        self.received: list[bytes] = []
        self.connections = 0
        self.ended: asyncio.Queue[float] = asyncio.Queue()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
                self.received.append(head + await reader.readexactly(length))
                answering = asyncio.create_task(self._answer(writer, self.received[-1]))
                leaving = asyncio.create_task(left(reader))
                await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    answering.cancel()
                    break
                leaving.cancel()
                await asyncio.wait((leaving,))
                await answering
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.put_nowait(time.monotonic())
            writer.close()


async def left(reader: asyncio.StreamReader) -> None:
    """Waits until the other side closes or resets the connection."""
    with suppress(ConnectionError):
        await reader.read(1)


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls is not None else "http"
    server.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()


@asynccontextmanager
async def upstream(url: str, timeout: float = 5.0) -> AsyncIterator[Upstream]:
    opened = Upstream("Anthropic", url, timeout)
    try:
        yield opened
    finally:
        await opened.close()


def saying(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(data)

    return answer


async def endless(writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(HEAD)
    while True:
        writer.write(chunk(b"data: 1\n\n"))
        await writer.drain()
        await asyncio.sleep(0.01)


async def one_event_and_silence(writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(HEAD + chunk(b"data: 1\n\n"))
    await asyncio.sleep(60)


async def silence(writer: asyncio.StreamWriter, request: bytes) -> None:
    await asyncio.sleep(60)


async def test_a_request_has_what_was_given_and_nothing_else() -> None:
    body = b'{"b": 1,  "a":"\xe6\x9d\xb1"}'
    headers = {"X-Api-Key": "k", "anthropic-version": "1", "content-type": "application/json"}
    async with serving(saying(http(200, b"ok"))) as server, upstream(f"{server.url}/pre%20fix/") as provider:
        async with provider.send("/v1/messages?beta=a%2Fb&x=[1]", body, headers) as reply:
            assert await reply.whole() == b"ok"
        async with provider.send("/v1/models", b"", {}, method="GET") as reply:
            assert reply.status == 200
    host = server.url.removeprefix("http://").encode()
    assert server.received == [
        b"POST /pre%20fix/v1/messages?beta=a%2Fb&x=[1] HTTP/1.1\r\nHost: " + host + b"\r\nX-Api-Key: k\r\n"
        b"anthropic-version: 1\r\ncontent-type: application/json\r\nContent-Length: "
        + str(len(body)).encode()
        + b"\r\n\r\n"
        + body,
        b"GET /pre%20fix/v1/models HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
    ]


async def test_an_answer_comes_as_it_was_sent() -> None:
    packed = gzip.compress(b"data: 1\n\n")
    answer = http(529, packed, "text/x", content_encoding="gzip", retry_after="3", set_cookie="a=1; Path=/")
    answer = answer.replace(b"\r\n\r\n", b"\r\nx-two: a\r\nX-Two: b\r\n\r\n", 1)
    async with serving(saying(answer)) as server, upstream(server.url) as provider:
        for _ in range(2):
            async with provider.send("/", b"{}", {}) as reply:
                assert (reply.status, reply.headers.get("Retry-After")) == (529, "3")
                assert [value for name, value in reply.headers.items() if name.lower() == "x-two"] == ["a", "b"]
                assert await reply.whole() == packed
    assert b"cookie" not in server.received[1].lower()


async def test_pieces_come_at_once() -> None:
    go_on = asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(HEAD + chunk(b"one"))
        await go_on.wait()
        writer.write(chunk(b"two") + b"0\r\n\r\n")

    async with serving(slowly) as server, upstream(server.url) as provider, provider.send("/", b"", {}) as reply:
        found = []
        async for data in reply.chunks:
            found.append(data)
            go_on.set()
    assert found == [b"one", b"two"]


async def test_a_connection_is_used_again_after_a_whole_answer_only() -> None:
    async with serving(saying(HEAD + chunk(b"data: 1\n\n") + b"0\r\n\r\n")) as server, upstream(server.url) as provider:
        for _ in range(3):
            async with provider.send("/", b"{}", {}) as reply:
                await reply.whole()
        assert server.connections == 1
    async with serving(one_event_and_silence) as server, upstream(server.url) as provider:
        for _ in range(2):
            async with provider.send("/", b"{}", {}) as reply:
                assert await anext(reply.chunks) == b"data: 1\n\n"
        assert server.connections == 2


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("answer", [endless, one_event_and_silence])
async def test_a_reader_who_leaves_closes_the_connection_at_once(
    is_tls: bool,
    answer: Answer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls = self_signed(tmp_path) if is_tls else None
    if is_tls:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "provider.pem"))
    async with serving(answer, tls) as server, upstream(server.url) as provider:
        async with provider.send("/", b"{}", {}) as reply:
            await anext(reply.chunks)
            left = time.monotonic()
        ended = await asyncio.wait_for(server.ended.get(), 5)
    assert ended - left < BOUND


@pytest.mark.parametrize("answer", [endless, one_event_and_silence, silence])
async def test_a_cancelled_request_closes_the_connection_at_once(
    answer: Answer,
) -> None:
    async with serving(answer) as server, upstream(server.url) as provider:

        async def read() -> None:
            async with provider.send("/", b"{}", {}) as reply:
                async for _ in reply.chunks:
                    pass

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.2)
        left = time.monotonic()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        ended = await asyncio.wait_for(server.ended.get(), 5)
    assert ended - left < BOUND


async def test_a_cancelled_upload_closes_the_connection_at_once() -> None:
    """The server begins to read when the upload has been cancelled, and does not get the whole body."""
    connected, cancelled, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    received = 0

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        connected.set()
        await cancelled.wait()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                received += len(data)
        ended.set()
        writer.close()

    listening = await asyncio.start_server(late, "127.0.0.1", 0, limit=1024)
    async with upstream(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}") as provider:
        sending = asyncio.create_task(provider.send("/", b"x" * (64 << 20), {}).__aenter__())
        await connected.wait()
        await asyncio.sleep(0.2)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        cancelled.set()
        await asyncio.wait_for(ended.wait(), BOUND)
    listening.close()
    assert received < 32 << 20


@pytest.mark.parametrize(("answer", "began"), [(silence, False), (one_event_and_silence, True)])
async def test_silence_ends_in_time(answer: Answer, began: bool) -> None:
    heard: list[bytes] = []

    async def read() -> None:
        async with upstream(server.url, timeout=0.3) as provider, provider.send("/", b"{}", {}) as reply:
            heard.append(await anext(reply.chunks))
            await anext(reply.chunks)

    async with serving(answer) as server:
        with pytest.raises(ProviderTimeout, match="Anthropic did not answer in time"):
            await read()
    assert heard == ([b"data: 1\n\n"] if began else [])


async def test_a_redirect_is_an_answer_like_others() -> None:
    async with serving(saying(http(200, b"ok"))) as other:
        moved = http(307, b"", location=f"{other.url}/v1")
        async with (
            serving(saying(moved)) as server,
            upstream(server.url) as provider,
            provider.send("/", b"{}", {"authorization": "Bearer k"}) as reply,
        ):
            assert reply.status == 307
        assert other.received == []


async def failing(url: str, headers: dict[str, str] | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        async with upstream(url) as provider, provider.send("/", b"{}", headers or {}) as reply:
            await reply.whole()
    return raised.value


async def test_an_answer_that_breaks_off() -> None:
    async def cut(writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(HEAD + chunk(b"data: 1\n\n"))
        await writer.drain()
        writer.close()

    async with serving(cut) as server:
        error = await failing(server.url)
    assert type(error) is ProviderStreamBroken
    assert "the connection ended before the answer was whole" in error.message


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("http://127.0.0.1:1", "nothing listens at this address"),
        ("ftp://127.0.0.1", "this is no HTTP address"),
        ("provider", "this is no HTTP address"),
    ],
)
async def test_an_address_that_cannot_be_reached(url: str, cause: str) -> None:
    error = await failing(url)
    assert type(error) is ProviderUnreachable
    assert error.message == f"Anthropic can't be reached at {url}: {cause}."


async def test_a_header_that_cannot_be_sent() -> None:
    async with serving(saying(http(200, b"ok"))) as server:
        error = await failing(server.url, {"x-team": "a\r\nx-other: b"})
    assert type(error) is ProviderUnreachable
    assert "a header can't be sent" in error.message
    assert server.received == []


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://api.example", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://api.example", "http://p:1"),
        ({"https_proxy": "p:1"}, "https://api.example", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://api.example", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://api.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "https://api.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "https://api.example", "http://q:2"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "other.example, api.example"}, "https://api.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ".example"}, "https://api.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "example"}, "https://notexample", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://api.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3:8000", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://11.1.2.3:8000", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost:8000", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.0.0.2:8000", None),
        ({"ALL_PROXY": "http://p:1"}, "http://[::1]:8000", None),
    ],
)
def test_the_environment_names_the_proxy(
    environment: dict[str, str], url: str, proxy: str | None, no_proxies: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        no_proxies.setenv(name, value)
    assert proxy_of(url) == proxy


async def test_requests_go_through_a_proxy(no_proxies: pytest.MonkeyPatch) -> None:
    async with serving(saying(http(200, b"ok"))) as proxy:
        no_proxies.setenv("HTTP_PROXY", proxy.url.replace("//", "//user:pass%20word@"))
        headers = {"authorization": "Bearer k"}
        async with upstream("http://api.example/v1") as there, there.send("/messages", b"{}", headers) as reply:
            assert await reply.whole() == b"ok"
    head = proxy.received[0].lower()
    assert head.startswith(b"post http://api.example/v1/messages http/1.1\r\nhost: api.example\r\n")
    assert b"\r\nauthorization: bearer k\r\n" in head
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=\r\n" in proxy.received[0]


async def test_https_goes_through_a_tunnel(no_proxies: pytest.MonkeyPatch) -> None:
    async with serving(saying(http(407, b""))) as proxy:
        no_proxies.setenv("HTTPS_PROXY", proxy.url)
        error = await failing("https://api.example/v1", {"authorization": "Bearer k"})
    assert error.message == "Anthropic can't be reached at https://api.example/v1: the proxy answered 407."
    assert proxy.received[0].startswith(b"CONNECT api.example:443 HTTP/1.1\r\n")
    assert b"Bearer" not in proxy.received[0]


async def test_a_proxy_that_is_not_there(no_proxies: pytest.MonkeyPatch) -> None:
    no_proxies.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    error = await failing("https://api.example")
    assert "the proxy at 127.0.0.1:1 can't be reached" in error.message
