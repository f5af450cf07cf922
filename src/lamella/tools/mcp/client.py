"""The one module that speaks MCP: the official SDK, loaded when the first server is connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TextIO

import httpx2
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client._transport import Transport
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from lamella import __version__
from lamella.core.json import Json
from lamella.tools.mcp.config import ServerConfig
from lamella.tools.mcp.connection import OpenServer, ServerGone, ServerRefused

MAX_PAGES = 20
"""Pages of a list of tools that are read."""

CONNECT_SECONDS = 30.0


async def _list_tools(client: Client) -> Sequence[Mapping[str, Json]]:
    """The tools of a server, page after page."""
    found: list[Mapping[str, Json]] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        with _plain_errors():
            page = await client.list_tools(cursor=cursor)
        found += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            break
    return found


async def _call(client: Client, name: str, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
    """The result of a call.

    The request is sent as it is: the SDK's own `call_tool` would check the result against the server's schema in our
    event loop, with patterns that the server wrote.
    """
    request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
    with _plain_errors():
        result = await client.session.send_request(request, types.CallToolResult)
    dumped: Mapping[str, Json] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


class _plain_errors:
    """Converts errors of the SDK to ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MCPError):
            gone = error.error.code == types.CONNECTION_CLOSED
            raise (ServerGone("it ended the connection") if gone else ServerRefused(str(error)[:2_000])) from None
        if isinstance(error, ValidationError):
            raise ServerRefused("it sent something that is no MCP message") from None


@asynccontextmanager
async def open_server(config: ServerConfig, errors: TextIO, changed: Callable[[], None]) -> AsyncIterator[OpenServer]:
    """A connected server. `errors` receives the process's stderr; `changed` is called when its list of tools
    changed.
    """

    async def heard(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    async with AsyncExitStack() as stack:
        client = Client(
            await _transport(config, errors, stack),
            message_handler=heard,
            client_info=types.Implementation(name="lamella", version=__version__),
            read_timeout_seconds=max(config.timeout, CONNECT_SECONDS),
            cache=None,
        )
        with _plain_errors():
            await stack.enter_async_context(client)
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            watching = asyncio.create_task(_watch(client, changed))
            stack.callback(watching.cancel)
        yield OpenServer(partial(_list_tools, client), partial(_call, client))


async def _transport(config: ServerConfig, errors: TextIO, stack: AsyncExitStack) -> Transport:
    if config.command:
        process = StdioServerParameters(
            command=config.command, args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        return stdio_client(process, errlog=errors)
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=max(config.timeout, CONNECT_SECONDS))
    web = httpx2.AsyncClient(headers=dict(config.headers), timeout=timeout)
    await stack.enter_async_context(web)
    return streamable_http_client(config.url, http_client=web)


async def _watch(client: Client, changed: Callable[[], None]) -> None:
    """Servers of the newer protocol only notify clients that subscribe."""
    try:
        async with client.listen(tools_list_changed=True) as subscription:
            async for _ in subscription:
                changed()
    except (MCPError, RuntimeError, TimeoutError):
        pass
    changed()  # it is gone, or tells no more: listing its tools shows which
