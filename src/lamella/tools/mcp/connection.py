"""The connection of one MCP server: a task connects, lists tools, watches, and reconnects with growing pauses.

Only tools with valid names and schemas and bounded sizes are offered.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Literal, TextIO

import structlog

from lamella.core.errors import ToolFailed
from lamella.core.json import Json, digest, encode_sorted
from lamella.core.prompt import ToolSpec
from lamella.llm.failures import cause_of
from lamella.tooling.arguments import wrong_schema
from lamella.tools.mcp.config import ServerConfig

log = structlog.get_logger()

MAX_TOOLS = 100
"""Tools of one server."""

MAX_DESCRIPTION = 4_000
"""Characters of a description; the rest is left out."""

MAX_SCHEMA = 32_000
"""Characters of a schema; a tool with a longer one is not offered."""

MAX_NAME = 64
SEPARATOR = "__"

_UNUSUAL = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as offered, and its name on its server."""

    spec: ToolSpec
    original: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that are offered, sorted by name, and why others are not, by their names on the server."""

    tools: tuple[ListedTool, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def listing_of(config: ServerConfig, found: Sequence[Mapping[str, Json]]) -> Listing:
    """The offered tools of a `tools/list`, independent of its order and of key order."""
    tools: dict[str, ListedTool] = {}
    left_out: list[tuple[str, str]] = []
    for tool in sorted(found, key=encode_sorted):
        original = str(tool.get("name", ""))
        if config.tools is not None and original not in config.tools:
            continue
        listed = _listed(config.name, original, tool)
        if isinstance(listed, str):
            left_out.append((original[:200], listed))
        elif listed.spec.name in tools:
            left_out.append((original[:200], "the server has another tool of this name"))
        elif len(tools) == MAX_TOOLS:
            left_out.append((original[:200], f"the server has more than {MAX_TOOLS} tools"))
        else:
            tools[listed.spec.name] = listed
    return Listing(tuple(tools[name] for name in sorted(tools)), tuple(left_out[:MAX_TOOLS]))


def _listed(server: str, original: str, tool: Mapping[str, Json]) -> ListedTool | str:
    """The tool as offered, or why it is left out."""
    if not original.strip():
        return "it has no name"
    schema = tool.get("inputSchema")
    text = encode_sorted({"type": "object"} | dict(schema) if isinstance(schema, dict) else schema)
    if len(text) > MAX_SCHEMA:
        return f"its input schema is longer than {MAX_SCHEMA} characters"
    wrong = wrong_schema(text)
    if wrong:
        return wrong
    description = " ".join(str(tool.get("description") or tool.get("title") or "").replace("\0", "").split(" "))
    return ListedTool(ToolSpec(offered_name(server, original), description[:MAX_DESCRIPTION], text), original)


def offered_name(server: str, tool: str) -> str:
    """`server__tool` in the alphabet and length that every provider accepts.

    A name that had to be changed ends in a fingerprint, so that names stay unique.
    """
    plain = f"{server}{SEPARATOR}{tool}"
    name = _UNUSUAL.sub("_", plain)
    if name == plain and len(name) <= MAX_NAME:
        return name
    mark = digest(tool.encode("utf-8", "replace"))[:8]
    return f"{name[: MAX_NAME - len(mark) - 1]}_{mark}"


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
WAIT_SECONDS = 30.0
"""The most that a call waits for the next attempt to connect its server to end."""

START_SECONDS = 40.0
"""Seconds for a server to connect and list its tools."""

MAX_STDERR = 8_000
"""Bytes of the newest stderr that are kept."""

Status = Literal["connecting", "ready", "down"]


class ServerGone(Exception):
    """The connection ended."""


class ServerRefused(Exception):
    """The server answered with an error of the protocol, or not in time."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenServer:
    """A connected server: what lists its tools and what calls one, both as the protocol has them.

    `await server.call("add", {"a": 1})`. Both raise `ServerGone` or `ServerRefused`.
    """

    list_tools: Callable[[], Awaitable[Sequence[Mapping[str, Json]]]]
    call: Callable[[str, Mapping[str, Json]], Awaitable[Mapping[str, Json]]]


Opener = Callable[[ServerConfig, TextIO, Callable[[], None]], AbstractAsyncContextManager[OpenServer]]


async def sdk_opener() -> Opener:
    """Opens servers. The SDK takes a second to load, so it is loaded in a thread when it is first needed."""
    module = await asyncio.to_thread(importlib.import_module, "lamella.tools.mcp.client")
    opener: Opener = module.open_server
    return opener


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server. `error` says why it is down, `stderr` is the end of its error output."""

    status: Status
    listing: Listing
    error: str
    stderr: str
    connected: int


class Connection:
    """One server. Its last list of tools is offered until the next one, also while it is disconnected."""

    def __init__(self, config: ServerConfig, opener: Callable[[], Opener | None], relisted: Callable[[], None]) -> None:
        self.config = config
        self._opener = opener
        self._relisted = relisted
        self._status: Status = "connecting"
        self._listing = Listing()
        self._error = ""
        self._connected = 0
        self._stderr = _Tail()
        self._server: OpenServer | None = None
        self._attempted = asyncio.Event()
        self._settled = asyncio.Event()
        self._stale = asyncio.Event()
        self._wanted = asyncio.Event()

    def state(self) -> ServerState:
        """How it is now."""
        return ServerState(self._status, self._listing, self._error, self._stderr.text, self._connected)

    async def settled(self) -> None:
        """Returns when the first attempt ended, with or without success."""
        await self._settled.wait()

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        """The result of a call. Raises `ToolFailed` with the server's problem."""
        server = await self._connected_server()
        try:
            return await server.call(name, arguments)
        except ServerGone:
            self._lose(server)
            raise ToolFailed(
                f"The MCP server {self.config.name} went away during this call; whether it did its work is not known.",
                hint="It is started again: look before you call it again.",
            ) from None
        except ServerRefused as error:
            raise ToolFailed(f"The MCP server {self.config.name}: {error}.") from None

    async def _connected_server(self) -> OpenServer:
        if self._server is None:
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._attempted.wait()
        if self._server is None:
            raise ToolFailed(unreachable(self.config.name, self._error), hint="Try again later.")
        return self._server

    def _lose(self, server: OpenServer) -> None:
        if self._server is server:
            self._server = None
            self._error = "the connection ended"
            self._status = "down"
            self._stale.set()

    async def run(self) -> None:
        """Keep it connected until this task is cancelled, which ends its process too."""
        pause = FIRST_PAUSE
        while True:
            connected = self._connected
            error = await self._attended()
            if error is not None:
                self._down(_reason(error))
            self._status, self._server = "down", None
            if self._connected == connected:
                self._tell()
            pause = FIRST_PAUSE if self._connected > connected else min(pause * 2, LONGEST_PAUSE)
            await self._rest(pause)

    async def _attended(self) -> BaseException | None:
        """The error that ended a connection. A foreign server's failures stay in one task and become a value."""
        attending = asyncio.create_task(self._attend())
        try:
            await asyncio.wait({attending})
        finally:
            attending.cancel()
            await asyncio.wait({attending})
        return asyncio.CancelledError() if attending.cancelled() else attending.exception()

    def _down(self, reason: str) -> None:
        if reason != self._error:
            log.warning("an MCP server is down", server=self.config.name, error=reason)
        self._error = reason

    async def _rest(self, pause: float) -> None:
        """Wait, but not while a call waits for the server."""
        self._wanted.clear()
        await asyncio.sleep(min(FIRST_PAUSE, pause) / 2)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wanted.wait()

    async def _attend(self) -> None:
        """One connection, from its beginning to its end."""
        opener = self._opener()
        if opener is None:
            raise RuntimeError("the MCP client can't be loaded")
        self._status = "connecting"
        self._stale.clear()
        async with self._stderr.writer() as errors:
            deadline = asyncio.timeout(START_SECONDS)
            async with deadline, opener(self.config, errors, self._stale.set) as server:
                self._list(await server.list_tools())
                deadline.reschedule(None)
                self._server, self._status, self._error = server, "ready", ""
                self._connected += 1
                self._tell()
                await self._watch(server)

    def _tell(self) -> None:
        """An attempt has ended, well or not: those who wait for it go on."""
        self._settled.set()
        self._attempted.set()
        self._attempted = asyncio.Event()

    async def _watch(self, server: OpenServer) -> None:
        """List the tools again after each notification, until the server is gone."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            if self._server is not server:
                return
            self._list(await server.list_tools())

    def _list(self, found: Sequence[Mapping[str, Json]]) -> None:
        listing = listing_of(self.config, found)
        if listing != self._listing:
            self._listing = listing
            log.info("an MCP server lists its tools", server=self.config.name, tools=len(listing.tools))
            self._relisted()


def unreachable(server: str, error: str) -> str:
    """The message about an unreachable server, for models and users. The cause may contain passwords, so only admins
    see it, in the list of servers.
    """
    state = "can't be reached now" if error else "is still starting"
    return f"The MCP server {server} {state}."


class _Tail:
    """The end of a process's stderr."""

    def __init__(self) -> None:
        self._kept = b""

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def writer(self) -> AbstractAsyncContextManager[TextIO]:
        """A file for a process to print on, read until it is closed."""
        return _Pipe(self._take)

    def _take(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-MAX_STDERR:]


class _Pipe(asyncio.Protocol):
    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._file: TextIO | None = None
        self._transport: asyncio.BaseTransport | None = None

    async def __aenter__(self) -> TextIO:
        reading, writing = os.pipe()
        self._file = os.fdopen(writing, "w")
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(reading, "rb"))
        return self._file

    async def __aexit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        await asyncio.sleep(0)
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._take(data)


def _reason(error: BaseException) -> str:
    """The first thing that was wrong, out of the groups that task groups raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it did not connect within {START_SECONDS:g} s"
    if isinstance(error, FileNotFoundError):
        return f"there is no program {error.filename}"
    if isinstance(error, (ServerGone, ServerRefused)):
        return str(error)[:500]
    return cause_of(error, began=False)
