"""A real MCP server of the tests: `python toy_server.py` over stdio, with a port over streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent

server = MCPServer("toy")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="with a blank")
def blank() -> str:
    """Has a name that no provider takes."""
    return "called"


@server.tool()
def environment() -> str:
    """The names of all variables."""
    sys.stderr.write("a word on stderr\n")
    sys.stderr.flush()
    return " ".join(sorted(os.environ))


@server.tool()
def mixed() -> CallToolResult:
    """Every kind of content."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="Words."),
            ImageContent(type="image", data="AAAA", mime_type="image/png"),
            ResourceLink(type="resource_link", name="plan", uri="file:///plan.md", description="The plan."),
            EmbeddedResource(
                type="resource", resource=BlobResourceContents(uri="file:///b", blob="AAAA", mime_type="a/b")
            ),
        ]
    )


@server.tool()
def huge() -> str:
    """Three million characters."""
    return "0123456789" * 300_000


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("the disk is full")


@server.tool()
def crash() -> str:
    """Ends the process."""
    os._exit(3)


@server.tool()
async def hang() -> str:
    """Never comes back."""
    await asyncio.sleep(1_000)
    return ""


@server.tool()
async def grow(ctx: Context) -> str:
    """Offers one tool more from now on."""
    server.add_tool(lambda: "I am new.", name="added", description="New.")
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--note":
        with Path(sys.argv[2]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        server.run()
    elif len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
