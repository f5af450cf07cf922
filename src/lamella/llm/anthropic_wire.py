"""Anthropic Messages as JSON: segments to wire blocks, wire blocks to a body. Pure; the SDK is next door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from lamella.core.json import Json, JsonObject, decode_object
from lamella.core.messages import Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import Level, Segment, WireBlock, WireRequest
from lamella.llm.call_ids import wire_call_id, wire_tool_name

LONGEST_CALL_ID = 64
LONGEST_NAME = 128


def body_of(request: WireRequest) -> dict[str, object]:
    """The body of a request. Neighbours of one role become one message: the blocks stay what they are."""
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
                    messages.append({"role": block.role, "content": []})
                messages[-1]["content"].append(value)
            case _:
                assert_never(block.level)
    body: dict[str, object] = dict(request.head)
    if tools:
        body["tools"] = tools
    if system:
        body["system"] = system
    body["messages"] = messages
    return body


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
        level: Level = "system" if message.role == "system" else "messages"
        role = "user" if message.role == "tool" else message.role
        for part in message.parts:
            markable = not isinstance(part, Reasoning)
            yield WireBlock.of(level, role, _value(part), segment.id, markable=markable)


def _value(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(_, _, redacted) if redacted is not None:
            return {"type": "redacted_thinking", "data": redacted}
        case Reasoning(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
        case ToolCall(id, name, arguments):
            return {
                "type": "tool_use",
                "id": wire_call_id(id, LONGEST_CALL_ID),
                "name": wire_tool_name(name, LONGEST_NAME),
                "input": decode_object(arguments),
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
