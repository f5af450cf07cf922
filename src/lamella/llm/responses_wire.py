"""OpenAI Responses as JSON: segments to wire blocks, wire blocks to a body. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import msgspec

from lamella.core.json import Json, JsonObject, decode_object
from lamella.core.messages import Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import Level, PromptMessage, Segment, WireBlock, WireRequest, Zone
from lamella.llm.wire_blocks import wire_call_id, wire_tool_name

LONGEST_CALL_ID = 64
LONGEST_NAME = 64
BETWEEN_SUMMARIES = "\n\n"
"""Separates the parts of a reasoning summary when they are shown as one text."""


class ReasoningSeal(msgspec.Struct, frozen=True):
    """The parts of a reasoning item besides its text, with its encrypted content; stored as the signature of a
    `Reasoning`.

    `parts` are the lengths of the summary's parts in characters, because the item must be sent back unchanged. `model`
    is the only one that can read it; unset if the holder of the seal knows that.
    """

    id: str
    parts: tuple[int, ...] = ()
    model: str | msgspec.UnsetType = msgspec.UNSET

    def text(self) -> str:
        """The seal as stored text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> ReasoningSeal | None:
        """The seal of a stored text; None for the seal of another protocol."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None

    def split(self, text: str) -> tuple[str, ...]:
        """The parts of a summary; one part if the lengths do not match."""
        found = []
        start = 0
        for length in self.parts:
            found.append(text[start : start + length])
            start += length + len(BETWEEN_SUMMARIES)
        if BETWEEN_SUMMARIES.join(found) == text:
            return tuple(found)
        return (text,) if text else ()


def body_of(request: WireRequest) -> dict[str, object]:
    """The body of a request."""
    marked = {marker.index for marker in request.markers}
    tools: list[JsonObject] = []
    items: list[JsonObject] = []
    for index, block in enumerate(request.blocks):
        value = _with_breakpoint(block.value) if index in marked else block.value
        (tools if block.level == "tools" else items).append(value)
    body: dict[str, object] = dict(request.head)
    if tools:
        body["tools"] = tools
    body["input"] = items
    return body


def _with_breakpoint(item: JsonObject) -> JsonObject:
    """An item whose last part ends a reusable prefix. Breakpoints are set on content parts."""
    field = "output" if item["type"] == "function_call_output" else "content"
    content = item[field]
    parts: list[Json] = content if isinstance(content, list) else [{"type": "input_text", "text": content}]
    *before, last = parts
    assert isinstance(last, dict)
    return {**item, field: [*before, {**last, "prompt_cache_breakpoint": {"mode": "explicit"}}]}


def blocks_of(segment: Segment) -> Iterator[WireBlock]:
    """The wire blocks of one segment: an item of the input is a block."""
    for tool in segment.tools:
        value: dict[str, Json] = {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": decode_object(tool.input_schema),
            "strict": False,
        }
        yield WireBlock.of("tools", "tool", value, segment.id, markable=False)
    for message in segment.messages:
        level: Level = "system" if message.role == "system" and segment.zone is Zone.FIXED else "messages"
        for item in _items(message):
            yield WireBlock.of(level, message.role, item, segment.id, markable=message.role != "assistant")


def _items(message: PromptMessage) -> Iterator[JsonObject]:
    match message.role:
        case "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    yield _output(part)
        case "assistant":
            yield from _answer(message)
        case _ if any(isinstance(part, Image) for part in message.parts):
            yield {"type": "message", "role": message.role, "content": [_content(part) for part in message.parts]}
        case _:
            role = "developer" if message.role == "system" else message.role
            for part in message.parts:
                if isinstance(part, Text):
                    yield {"type": "message", "role": role, "content": part.text}


def _content(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image(_, media_type, data=data):
            url = part.url or f"data:{media_type};base64,{b64encode(data).decode()}"
            if part.is_pdf:
                place = {"file_url": url} if part.url else {"filename": "document.pdf", "file_data": url}
                return {"type": "input_file", **place}
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case _:
            raise TypeError(f"a user message can't hold a {type(part).__name__}")


def _output(part: ToolResult) -> JsonObject:
    content = part.content if part.content.strip() else "(empty)"
    return {
        "type": "function_call_output",
        "call_id": wire_call_id(part.call_id, LONGEST_CALL_ID),
        "output": content,
    }


def _answer(message: PromptMessage) -> Iterator[JsonObject]:
    """The items of an answer in order. For newer models each text is marked as intermediate or final."""
    phase = "commentary" if any(isinstance(part, ToolCall) for part in message.parts) else "final_answer"
    for part in message.parts:
        match part:
            case Text(text):
                content: list[Json] = [{"type": "output_text", "text": text}]
                yield {"type": "message", "role": "assistant", "phase": phase, "content": content}
            case Reasoning():
                item = _reasoning(part)
                if item is not None:
                    yield item
            case ToolCall(id, name, arguments):
                yield {
                    "type": "function_call",
                    "call_id": wire_call_id(id, LONGEST_CALL_ID),
                    "name": wire_tool_name(name, LONGEST_NAME),
                    "arguments": arguments,
                }
            case _:
                raise TypeError(f"an answer can't hold a {type(part).__name__}")


def _reasoning(part: Reasoning) -> JsonObject | None:
    """The item of a model's reasoning. Returns None for reasoning of another protocol."""
    seal = ReasoningSeal.read(part.signature) if part.signature is not None else None
    if seal is None or part.redacted is None:
        return None
    summary: list[Json] = [{"type": "summary_text", "text": text} for text in seal.split(part.text)]
    return {"type": "reasoning", "id": seal.id, "summary": summary, "encrypted_content": part.redacted}
