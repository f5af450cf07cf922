"""OpenAI Chat Completions as JSON: segments to wire blocks, wire blocks to a body. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from lamella.core.json import Json, JsonObject, decode_object
from lamella.core.messages import Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import Level, PromptMessage, Segment, WireBlock, WireRequest, Zone
from lamella.llm.wire_blocks import wire_call_id, wire_tool_name

LONGEST_CALL_ID = 40
LONGEST_NAME = 64


def body_of(request: WireRequest) -> dict[str, object]:
    """The body of a request."""
    marked = {marker.index: marker.ttl.value for marker in request.markers}
    tools: list[JsonObject] = []
    messages: list[JsonObject] = []
    for index, block in enumerate(request.blocks):
        value = _with_breakpoint(block.value) if index in marked else block.value
        (tools if block.level == "tools" else messages).append(value)
    body: dict[str, object] = dict(request.head)
    if tools:
        body["tools"] = tools
    body["messages"] = messages
    return body


def _with_breakpoint(message: JsonObject) -> JsonObject:
    """A message whose text ends a reusable prefix. Breakpoints are set on content parts."""
    content = message["content"]
    parts: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    *before, last = parts
    assert isinstance(last, dict)
    return {**message, "content": [*before, {**last, "prompt_cache_breakpoint": {"mode": "explicit"}}]}


def blocks_of(segment: Segment) -> Iterator[WireBlock]:
    """The wire blocks of one segment: a message is a block here, since appending to one ends it as a match point."""
    for tool in segment.tools:
        function: dict[str, Json] = {
            "name": tool.name,
            "description": tool.description,
            "parameters": decode_object(tool.input_schema),
        }
        yield WireBlock.of("tools", "tool", {"type": "function", "function": function}, segment.id, markable=False)
    for message in segment.messages:
        level: Level = "system" if message.role == "system" and segment.zone is Zone.FIXED else "messages"
        for value in _values(message):
            yield WireBlock.of(level, message.role, value, segment.id, markable=message.role != "assistant")


def _values(message: PromptMessage) -> Iterator[JsonObject]:
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield _result(part)
    elif message.role == "assistant":
        value = _answer(message)
        if value is not None:
            yield value
    elif any(isinstance(part, Image) for part in message.parts):
        yield {"role": message.role, "content": [_content(part) for part in message.parts]}
    else:
        for part in message.parts:
            if isinstance(part, Text):
                yield {"role": message.role, "content": part.text}


def _content(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(_, media_type, data=data):
            url = part.url or f"data:{media_type};base64,{b64encode(data).decode()}"
            if part.is_pdf:
                return {"type": "file", "file": {"filename": "document.pdf", "file_data": url}}
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            raise TypeError(f"a user message can't hold a {type(part).__name__}")


def _result(part: ToolResult) -> JsonObject:
    content = part.content if part.content.strip() else "(empty)"
    return {"role": "tool", "tool_call_id": wire_call_id(part.call_id, LONGEST_CALL_ID), "content": content}


def _answer(message: PromptMessage) -> JsonObject | None:
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if not text and not calls:
        assert all(isinstance(part, Reasoning) for part in message.parts)
        return None
    value: dict[str, Json] = {"role": "assistant", "content": text or None}
    if calls:
        value["tool_calls"] = calls
    return value


def _call(part: ToolCall) -> JsonObject:
    return {
        "id": wire_call_id(part.id, LONGEST_CALL_ID),
        "type": "function",
        "function": {"name": wire_tool_name(part.name, LONGEST_NAME), "arguments": part.arguments},
    }
