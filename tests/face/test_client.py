"""`lamella.client`: a message, its packets, files and refusals; a stream that breaks is read on, and nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from lamella.client import PAUSES, Client, ServerBusy, ServerUnreachable, connect, refusal
from lamella.core.errors import ContextLengthExceeded, InvalidRequest, LamellaError, NotFound, TurnInProgress
from lamella.core.packets import AnyPacket, CommandPacket, TextPacket, TurnFinished
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

WORDS = tuple(f"word{number} " for number in range(40))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Breaking(httpx2.AsyncHTTPTransport):
    """Connections to a server that break: the nth stream of packets after `breaks[n]` events of it."""

    def __init__(self, *breaks: int) -> None:
        super().__init__()
        self.breaks = list(breaks)
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if not request.url.path.endswith(("/turns", "/events")) or not self.breaks:
            return answer
        self.asked.append(f"{request.method} {request.url.query.decode()}".strip())
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=Torn(answer.stream, self.breaks.pop(0))
        )


class Torn(httpx2.AsyncByteStream):
    """The first events of a stream, one at a time, and then the error of a connection that is gone."""

    def __init__(self, whole: httpx2.AsyncByteStream, events: int) -> None:
        self._whole, self._events = whole, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for piece in self._whole:  # a busy server sends several in one piece
            for event in piece.splitlines(keepends=True):
                if count == self._events:
                    raise httpx2.ReadError("gone")
                count += event == b"\n"
                yield event

    async def aclose(self) -> None:
        await self._whole.aclose()


@asynccontextmanager
async def speaking(folder: Path, *breaks: int) -> AsyncIterator[tuple[Client, Breaking, ScriptedModel]]:
    model, transport = ScriptedModel([saying(*WORDS)]), Breaking(*breaks)
    async with (
        served(read_settings(data=folder), models=ScriptedModels(model)) as (_, server),
        httpx2.AsyncClient(base_url=server.http.base_url, transport=transport) as http,
    ):
        yield Client(http), transport, model


async def test_a_message_and_its_packets(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (within, _, _), connect(str(within.http.base_url)) as lamella:
        conversation = await lamella.conversation(title="Tides")
        packets = [packet async for packet in lamella.send(conversation, "Go on")]
        assert said(packets) == "".join(WORDS)
        again = [packet async for packet in lamella.follow(packets[0].turn_id)]
        assert [packet.n for packet in again] == sorted({packet.n for packet in again})
        for _ in range(2):
            [command] = [packet async for packet in lamella.send(conversation, "/status")]
        assert isinstance(command, CommandPacket)
        assert (await lamella.get(f"/conversations/{conversation}"))["title"] == "Tides"
        one = f"/conversations/{conversation}/commands?limit=1"
        assert len((await lamella.get(one))["data"]) == 1
        assert len((await lamella.get(one, limit=2))["data"]) == 2


@pytest.mark.parametrize("breaks", [(3,), (5, 0), (0,), (1, 0, 0)])
async def test_a_stream_that_breaks_is_read_on(tmp_path: Path, breaks: tuple[int, ...]) -> None:
    async with speaking(tmp_path, *breaks) as (lamella, transport, model):
        conversation = await lamella.conversation()
        packets = [packet async for packet in lamella.send(conversation, "Go on")]
        assert said(packets) == "".join(WORDS)
        assert isinstance(packets[-1], TurnFinished)
        numbers = [packet.n for packet in packets if packet.n]
        assert numbers == sorted(set(numbers))
        assert len(model.requests) == 1, "the message was sent once"
        assert len(transport.asked) == len(breaks)
        assert (await lamella.get(f"/conversations/{conversation}/turns"))["data"][0]["id"] == packets[-1].turn_id


class Draining(Breaking):
    """A balancer before replicas that all drain: some requests for a stream get a 503, as `refusals` has it."""

    def __init__(self, *breaks: int, refusals: list[bool]) -> None:
        super().__init__(*breaks)
        self.refusals = refusals
        self.refused = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith(("/turns", "/events")) and self.refusals and self.refusals.pop(0):
            self.refused += 1
            error = {"message": "The server is stopping.", "type": "ServerStopping", "code": "overloaded"}
            return httpx2.Response(503, json={"error": error}, headers={"retry-after": "1"}, request=request)
        return await super().handle_async_request(request)


@pytest.mark.parametrize(
    ("breaks", "refusals"),
    [((3,), [False, True, True]), ((), [True, False]), ((5, 1), [True, False, True, False, True, True])],
    ids=["while it resumes", "while it sends", "both"],
)
async def test_a_server_that_takes_nothing_now_is_asked_again(
    tmp_path: Path, breaks: tuple[int, ...], refusals: list[bool]
) -> None:
    model, transport = ScriptedModel([saying(*WORDS)]), Draining(*breaks, refusals=list(refusals))
    async with (
        served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, server),
        httpx2.AsyncClient(base_url=server.http.base_url, transport=transport) as http,
    ):
        lamella = Client(http, pauses=(0.01,) * 3)
        packets = [packet async for packet in lamella.send(await lamella.conversation(), "Go on")]
        assert said(packets) == "".join(WORDS)
        numbers = [packet.n for packet in packets if packet.n]
        assert numbers == sorted(set(numbers))
        assert (len(model.requests), transport.refused) == (1, sum(refusals))
        transport.refusals = [True] * 4
        with pytest.raises(ServerBusy, match="The server is stopping"):
            [packet async for packet in lamella.follow(packets[-1].turn_id)]


async def test_a_server_that_stays_away_is_an_error(tmp_path: Path) -> None:
    async with speaking(tmp_path, *[0] * (len(PAUSES) + 1)) as (lamella, _, _):
        lamella.pauses = (0.0,) * len(PAUSES)
        conversation = await lamella.conversation()
        with pytest.raises(ServerUnreachable, match="does not answer: gone"):
            [packet async for packet in lamella.send(conversation, "Go on")]
    async with connect("http://127.0.0.1:9") as nobody:
        with pytest.raises(ServerUnreachable):
            await nobody.get("/status")


async def test_refusals_are_the_errors_of_the_server(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (lamella, _, _):
        with pytest.raises(NotFound):
            await lamella.get("/conversations/conv_none")
        with pytest.raises(NotFound):
            [packet async for packet in lamella.send("conv_none", "Hello")]
        with pytest.raises(InvalidRequest, match="can't be read"):
            await lamella.upload(tmp_path / "nothing.txt")
        (tmp_path / "tides.md").write_text("# Tides")
        stored = await lamella.upload(tmp_path / "tides.md")
        assert (stored.name, stored.status, stored.reason) == ("tides.md", "ready", None)


@pytest.mark.parametrize("kind", [ContextLengthExceeded, InvalidRequest, NotFound, TurnInProgress])
def test_a_code_is_raised_as_its_error(kind: type[LamellaError]) -> None:
    raised = refusal(kind("So.", hint="Do.", param="text").as_dict())
    assert type(raised) is kind
    assert (raised.message, raised.hint, raised.param) == ("So.", "Do.", "text")


class Proxy(httpx2.AsyncBaseTransport):
    """What stands in front of a server that is down."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502, text="<h1>Bad Gateway</h1>")


async def test_an_answer_that_is_not_lamella_s_is_an_error_with_its_status() -> None:
    async with httpx2.AsyncClient(base_url="http://127.0.0.1:9", transport=Proxy()) as http:
        lamella = Client(http, pauses=(0.0,) * 3)
        with pytest.raises(
            LamellaError, match=r"/api/v1/status answered 502 Bad Gateway: <h1>Bad Gateway</h1>"
        ) as told:
            await lamella.get("/status")
        assert told.value.hint == "Is it a Lamella server?"
        with pytest.raises(LamellaError, match="answered 502"):
            [packet async for packet in lamella.send("conv_1", "Hello")]


def said(packets: list[AnyPacket]) -> str:
    return "".join(packet.text for packet in packets if isinstance(packet, TextPacket))
