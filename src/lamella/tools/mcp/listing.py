"""What of a server's list of tools is offered: names that providers take, schemas that hold, sizes that are bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamella.core.json import Json, digest, encode_sorted
from lamella.core.prompt import ToolSpec
from lamella.tooling.arguments import wrong_schema
from lamella.tools.mcp.config import ServerConfig

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
    """A tool as it is offered, and its name on its server."""

    spec: ToolSpec
    original: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that are offered, sorted by name, and why others are not, by their names on the server."""

    tools: tuple[ListedTool, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def listing_of(config: ServerConfig, found: Sequence[Mapping[str, Json]]) -> Listing:
    """What is offered of a `tools/list`, the same whatever its order and that of the keys in it."""
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
    """The tool as it is offered, or why it is not."""
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
    """`server__tool` in the letters and the length that every provider takes.

    A name that had to be changed ends in a fingerprint of itself, so that no two become one.
    """
    plain = f"{server}{SEPARATOR}{tool}"
    name = _UNUSUAL.sub("_", plain)
    if name == plain and len(name) <= MAX_NAME:
        return name
    mark = digest(tool.encode("utf-8", "replace"))[:8]
    return f"{name[: MAX_NAME - len(mark) - 1]}_{mark}"
