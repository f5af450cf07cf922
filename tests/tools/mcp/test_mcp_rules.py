"""What is decided about a server without one: its configuration, the names of its tools, the text of its results."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.errors import ConfigurationError, ToolFailed
from lamella.core.json import decode
from lamella.tools.mcp.config import ServerConfig, read_servers
from lamella.tools.mcp.connection import (
    MAX_DESCRIPTION,
    MAX_SCHEMA,
    MAX_TOOLS,
    Connection,
    OpenServer,
    ServerRefused,
    listing_of,
    offered_name,
)
from lamella.tools.mcp.servers import NOTHING, text_of

TOY = ServerConfig("toy", command="toy")
EMPTY = {"type": "object"}


def written(folder: Path, content: Any) -> Path:
    path = folder / "servers.json"
    path.write_text(content if isinstance(content, str) else json.dumps({"mcpServers": content}))
    return path


def test_a_file_names_servers_and_takes_values_from_the_environment(tmp_path: Path) -> None:
    servers = {
        "web": {"url": "https://mcp.example/", "headers": {"Authorization": "Bearer ${TOKEN}"}, "timeout": 5},
        "files": {
            "command": "files",
            "args": ["${ROOT}/x", "a"],
            "env": {"KEY": "${TOKEN}"},
            "tools": ["read"],
            "approval": ["read"],
        },
        "off": {"command": "x", "disabled": True},
    }
    files, web = read_servers(written(tmp_path, servers), {"TOKEN": "t-1", "ROOT": "/r"})
    assert (files.name, files.args, files.tools) == ("files", ("/r/x", "a"), frozenset({"read"}))
    assert files.env == {"KEY": "t-1"}
    assert (files.approval, web.approval) == (frozenset({"read"}), False)
    assert (web.transport, web.headers, web.timeout) == ("http", {"Authorization": "Bearer t-1"}, 5)
    assert "t-1" not in repr((web, files))
    assert read_servers(None, {}) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ({"a": {}}, "“a” needs either a command or a url"),
        ({"a": {"command": "x", "url": "https://x"}}, "“a” needs either a command or a url"),
        ({"a": {"url": "ftp://x"}}, "neither http:// nor https://"),
        ({"a__b": {"command": "x"}}, "a name that tools can't begin with"),
        ({"": {"command": "x"}}, "a name that tools can't begin with"),
        ({"a": {"command": "x", "env": {"K": "${NOT_SET}"}}}, "the variable NOT_SET, which is not set"),
        ({"a": {"command": "x", "timeout": 0}}, "a timeout that is not positive"),
        ({"a": {"command": "x", "comand": "y"}}, "comand"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        read_servers(written(tmp_path, content), {})
    assert words in wrong.value.message
    assert wrong.value.param == "LAMELLA_MCP_SERVERS"


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_servers(tmp_path / "nothing.json", {})


@given(st.text(max_size=100))
def test_every_name_is_one_that_providers_take(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", offered_name("server", name))


@given(st.sets(st.text("ab_ é/.", min_size=1, max_size=4), max_size=20), st.randoms())
def test_names_are_told_apart_whatever_the_order(names: set[str], chance: random.Random) -> None:
    found: list[Any] = [{"name": name, "description": name, "inputSchema": EMPTY} for name in sorted(names)]
    listed = listing_of(TOY, found)
    assert {tool.original for tool in listed.tools} == {name for name in names if name.strip()}
    chance.shuffle(found)
    assert listing_of(TOY, found) == listed


def test_a_schema_is_the_same_whatever_the_order_of_its_keys() -> None:
    """Servers in some languages write the keys of an object in another order each time."""
    place, day = {"type": "string", "description": "Where."}, {"description": "When.", "type": "string"}
    one: Any = {"type": "object", "properties": {"place": place, "day": day}, "required": ["place", "day"]}
    other: Any = {"required": ["place", "day"], "properties": {"day": day, "place": dict(reversed(place.items()))}}
    first, second = [listing_of(TOY, [{"name": "tide", "inputSchema": schema}]).tools for schema in (one, other)]
    assert first == second
    assert decode(first[0].spec.input_schema) == one


def test_what_can_not_be_offered_is_left_out_with_a_reason() -> None:
    found: list[Any] = [
        {"name": "good", "description": "x" * 10_000, "inputSchema": {"properties": {}}},
        {"name": "twice", "description": "a", "inputSchema": EMPTY},
        {"name": "twice", "description": "b", "inputSchema": EMPTY},
        {"name": "no schema"},
        {"name": "string", "inputSchema": {"type": "string"}},
        {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/"}}}},
        {"name": "long", "inputSchema": {"type": "object", "description": "x" * MAX_SCHEMA}},
        {"description": "nameless", "inputSchema": EMPTY},
    ]
    listed = listing_of(TOY, found)
    assert [tool.spec.name for tool in listed.tools] == ["toy__good", "toy__twice"]
    assert listed.tools[0].spec.description == "x" * MAX_DESCRIPTION
    assert listed.tools[1].spec.description == "a"
    assert dict(listed.left_out).keys() == {"twice", "no schema", "string", "remote", "long", ""}
    many: list[Any] = [{"name": f"t{number:03}", "inputSchema": EMPTY} for number in range(MAX_TOOLS + 3)]
    assert len(listing_of(TOY, many).tools) == MAX_TOOLS
    only = ServerConfig("toy", command="toy", tools=frozenset({"t001"}))
    assert [tool.original for tool in listing_of(only, many).tools] == ["t001"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\n\nb"),
        ({"content": [{"type": "text", "text": '{"n":1}'}], "structuredContent": {"n": 1}}, '{"n":1}'),
        ({"content": [], "structuredContent": {"n": [1, 2]}}, '{"n":[1,2]}'),
        ({"structuredContent": 0}, "0"),
        ({"content": []}, NOTHING),
        ({"content": "x"}, NOTHING),
        ({}, NOTHING),
        ({"content": [{"type": "hologram"}]}, "[A part of the kind “hologram” is not shown.]"),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "T"}}]}, "[Resource a:b]\nT"),
    ],
)
def test_a_result_is_read_as_text(result: dict[str, Any], text: str) -> None:
    assert text_of(result) == text


def test_an_error_of_a_server_is_an_error_for_the_model() -> None:
    with pytest.raises(ToolFailed, match="full"):
        text_of({"content": [{"type": "text", "text": "the disk is full"}], "isError": True})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "a"]), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["content", "structuredContent", "isError"]), VALUES),
    st.dictionaries(st.sampled_from(["name", "inputSchema", "description"]), VALUES),
)
def test_nothing_that_a_server_says_is_an_error_of_ours(result: dict[str, Any], tool: dict[str, Any]) -> None:
    listing_of(TOY, [tool])
    try:
        assert text_of(result)
    except ToolFailed:
        assert result["isError"]


@pytest.mark.anyio
async def test_why_a_server_is_gone_is_told_to_admins_and_to_no_model() -> None:
    """The reason may name an address with its password."""
    why = "no connection to https://bot:hunter2@mcp.example/"

    @asynccontextmanager
    async def failing(config: ServerConfig, errors: TextIO, stale: Callable[[], None]) -> AsyncIterator[OpenServer]:
        raise ServerRefused(why)
        yield

    connection = Connection(TOY, lambda: failing, lambda: None)
    running = asyncio.create_task(connection.run())
    try:
        with pytest.raises(ToolFailed, match="The MCP server toy can't be reached now") as refused:
            await connection.call("add", {})
        assert "hunter2" not in str(refused.value.as_dict())
        assert connection.state().error == why
    finally:
        running.cancel()
