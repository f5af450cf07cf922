"""All MCP servers of a deployment: their tools as tools of ours, under names that say whose they are.

Of a call's result a model reads texts as they are, structured content as JSON, and the rest as a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from lamella.core.errors import ToolFailed
from lamella.core.json import Json, encode_text
from lamella.core.prompt import ToolSpec
from lamella.tooling.runner import MAX_KEPT
from lamella.tooling.tool import Invocation, Tool, ToolKind, ToolScope
from lamella.tools.mcp.config import ServerConfig
from lamella.tools.mcp.connection import SEPARATOR, Connection, ListedTool, Opener, ServerState, sdk_opener, unreachable

NOTHING = "The tool gave back nothing."


def text_of(result: Mapping[str, Json]) -> str:
    """The text of a `tools/call` result; raises `ToolFailed` with it when the server calls it an error."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    parts = [part for block in blocks for part in _part(block)]
    structured = result.get("structuredContent")
    if structured is not None and not any(map(_has_text, blocks)):
        parts.append(encode_text(structured))
    text = "\n\n".join(part for part in parts if part)[: MAX_KEPT + 1]
    if result.get("isError"):
        raise ToolFailed(text[:10_000] or "The tool failed and did not say why.")
    return text or NOTHING


def _has_text(block: Mapping[str, Json]) -> bool:
    return block.get("type") == "text" and bool(block.get("text"))


def _part(block: Mapping[str, Json]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            yield str(block.get("text", ""))
        case "image" | "audio" as kind:
            yield _not_shown(str(kind), block.get("mimeType"), block.get("data"))
        case "resource_link":
            about = block.get("description") or block.get("title") or ""
            yield f"[Resource {block.get('name', '')}: {block.get('uri', '')}]{f' {about}' if about else ''}"
        case "resource":
            resource = block.get("resource")
            if isinstance(resource, dict) and isinstance(resource.get("text"), str):
                yield f"[Resource {resource.get('uri', '')}]\n{resource['text']}"
            elif isinstance(resource, dict):
                yield _not_shown(f"resource {resource.get('uri', '')}", resource.get("mimeType"), resource.get("blob"))
        case kind:
            yield f"[A part of the kind “{str(kind)[:40]}” is not shown.]"


def _not_shown(what: str, media_type: Json, data: Json) -> str:
    size = len(data) * 3 // 4 if isinstance(data, str) else 0
    return f"[{what}, {media_type or 'of unknown type'}, about {size} bytes: it can't be shown in a result.]"


SETTLE_SECONDS = 10.0
"""How long a new conversation waits for servers that are connected for the first time."""


class McpTool:
    """A tool of a server."""

    kind = ToolKind.OTHER

    def __init__(self, tool: ListedTool, connection: Connection) -> None:
        self.spec = replace(tool.spec, when_old=connection.config.when_old.get(tool.original, tool.spec.when_old))
        self.timeout = connection.config.timeout
        approval = connection.config.approval
        self.needs_approval = approval if isinstance(approval, bool) else tool.original in approval
        self._original = tool.original
        self._connection = connection

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        """See `Tool.run`."""
        return text_of(await self._connection.call(self._original, call.arguments))


class McpServers:
    """The `ToolSource` of MCP. Its servers are connected inside `open`, each by a task of its own."""

    def __init__(
        self, configs: Sequence[ServerConfig] = (), load: Callable[[], Awaitable[Opener]] = sdk_opener
    ) -> None:
        self._load = load
        self._opener: Opener | None = None
        self._tools: dict[str, McpTool] = {}
        self._connections = {config.name: Connection(config, lambda: self._opener, self._relist) for config in configs}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the servers connected; when the block ends, so do their processes."""
        keeper = asyncio.create_task(self._keep()) if self._connections else None
        try:
            yield
        finally:
            if keeper is not None:
                keeper.cancel()
                with suppress(asyncio.CancelledError):
                    await keeper

    async def _keep(self) -> None:
        with suppress(ImportError):
            self._opener = await self._load()
        async with asyncio.TaskGroup() as tasks:
            for connection in self._connections.values():
                tasks.create_task(connection.run())

    def _relist(self) -> None:
        listed = (
            McpTool(tool, connection)
            for connection in self._connections.values()
            for tool in connection.state().listing.tools
        )
        self._tools = {tool.spec.name: tool for tool in listed}

    async def settled(self) -> None:
        """Returns when every server is connected or down, or its time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                for connection in self._connections.values():
                    await connection.settled()

    def tools(self) -> Sequence[Tool]:
        """See `ToolSource.tools`."""
        return tuple(self._tools.values())

    def may_come(self, name: str) -> bool:
        """See `ToolSource.may_come`."""
        connection = self._connections.get(name.partition(SEPARATOR)[0])
        return SEPARATOR in name and connection is not None and not connection.state().connected

    def find(self, name: str) -> Tool | None:
        """See `ToolSource.find`. A tool that its server no longer lists is found and says so."""
        if name in self._tools:
            return self._tools[name]
        connection = self._connections.get(name.partition(SEPARATOR)[0])
        return _Unlisted(name, connection) if connection is not None and SEPARATOR in name else None

    def states(self) -> dict[str, tuple[ServerConfig, ServerState]]:
        """How each server is, by name."""
        return {name: (connection.config, connection.state()) for name, connection in self._connections.items()}


class _Unlisted:
    """A tool of a conversation's list that its server does not list now."""

    kind = ToolKind.OTHER
    timeout = 5.0

    def __init__(self, name: str, connection: Connection) -> None:
        self.spec = ToolSpec(name, "", '{"type":"object"}')
        self._connection = connection

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        server, state = self._connection.config.name, self._connection.state()
        if state.status == "ready":
            raise ToolFailed(f"The MCP server {server} does not have this tool any more.")
        raise ToolFailed(unreachable(server, state.error))
