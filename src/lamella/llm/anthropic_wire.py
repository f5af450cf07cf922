"""Anthropic Messages as JSON: segments to wire blocks, wire blocks to a body. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, assert_never

from lamella.core.json import Json, JsonObject, arguments_or_text, decode_object
from lamella.core.messages import Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import Level, Segment, WireBlock, WireRequest, Zone
from lamella.llm.wire_blocks import wire_call_id, wire_tool_name

LONGEST_CALL_ID = 64
LONGEST_NAME = 128


CLEAR_AT = "system_clear_at"
"""In the head of a request: how long its system messages after the first user message are shown."""


def body_of(request: WireRequest) -> dict[str, object]:
    """The body of a request. Adjacent messages of one role become one message with the same blocks."""
    head: dict[str, object] = dict(request.head)
    clear_at = head.pop(CLEAR_AT, None)
    marked = {marker.index: marker.ttl.value for marker in request.markers}
    tools: list[JsonObject] = []
    system: list[JsonObject] = []
    messages: list[dict[str, Any]] = []
    for index, block in enumerate(request.blocks):
        value = block.value
        if index in marked:
            value = {**value, "cache_control": {"type": "ephemeral", "ttl": marked[index]}}
        match block.level:
            case "tools":
                tools.append(value)
            case "system":
                system.append(value)
            case "messages":
                if not messages or messages[-1]["role"] != block.role:
                    until = {"clear_at": clear_at} if clear_at and block.role == "system" else {}
                    messages.append({"role": block.role, **until, "content": []})
                messages[-1]["content"].append(value)
            case _:
                assert_never(block.level)
    if tools:
        head["tools"] = tools
    if system:
        head["system"] = system
    head["messages"] = messages
    return head


def blocks_of(segment: Segment) -> Iterator[WireBlock]:
    """The wire blocks of one segment."""
    for tool in segment.tools:
        value: dict[str, Json] = {
            "name": tool.name,
            "description": tool.description,
            "input_schema": decode_object(tool.input_schema),
        }
        yield WireBlock.of("tools", "tool", value, segment.id, markable=True)
    for message in segment.messages:
        level: Level = "system" if message.role == "system" and segment.zone is Zone.FIXED else "messages"
        role = "user" if message.role == "tool" else message.role
        for part in message.parts:
            markable = not isinstance(part, Reasoning)
            yield WireBlock.of(level, role, _value(part), segment.id, markable=markable)


def _value(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(_, media_type, data=data, url=url):
            source: JsonObject = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
            kind = "document" if part.is_pdf else "image"
            return {"type": kind, "source": {"type": "url", "url": url} if url else source}
        case Reasoning(_, _, redacted) if redacted is not None:
            return {"type": "redacted_thinking", "data": redacted}
        case Reasoning(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
        case ToolCall(id, name, arguments):
            return {
                "type": "tool_use",
                "id": wire_call_id(id, LONGEST_CALL_ID),
                "name": wire_tool_name(name, LONGEST_NAME),
                "input": arguments_or_text(arguments),
            }
        case ToolResult(call_id, _, content, is_error):
            value: dict[str, Json] = {"type": "tool_result", "tool_use_id": wire_call_id(call_id, LONGEST_CALL_ID)}
            if content.strip():
                value["content"] = content
            if is_error:
                value["is_error"] = True
            return value
        case _:
            assert_never(part)
