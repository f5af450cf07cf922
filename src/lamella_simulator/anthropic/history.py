"""Histories that the Messages API refuses: roles, empty text, and tool calls without their results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from lamella_simulator.anthropic.request import (
    Message,
    MessagesRequest,
    WireBlock,
)
from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model

MOST_MESSAGES = 100_000
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
KINDS = {
    "user": ("text", "image", "document", "tool_result", "search_result", "compaction"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use", "compaction"),
    "system": ("text",),
}


@dataclass(slots=True)
class MergedTurn:
    """Neighbours of one role, merged: the API sees them as one message."""

    role: str
    first: int
    blocks: list[tuple[str, Json]] = field(default_factory=list)


def check_history(
    request: MessagesRequest, blocks: Sequence[WireBlock], model: Model, *, assistant_may_begin: bool = False
) -> None:
    """Raises 400 for the first thing that the API would refuse."""
    if not request.messages:
        raise invalid("messages: at least one message is required")
    if len(request.messages) > MOST_MESSAGES:
        raise invalid(f"messages: at most {MOST_MESSAGES} messages are allowed")
    first = request.messages[0]
    begins = first.role == "user" or (first.role == "assistant" and assistant_may_begin) or opens_with_summary(first)
    if not begins:
        raise invalid('messages: first message must use the "user" role')
    check_system_messages(request.messages, model)
    for index, message in enumerate(request.messages):
        check_message(index, message)
    for block in blocks:
        check_block(block)
    turns = merged(request.messages)
    check_pairs(turns)
    last = next(message for message in reversed(request.messages) if message.role != "system")
    if last.role == "assistant" and not model.prefill:
        raise invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def opens_with_summary(message: Message) -> bool:
    """A summary replaces the messages before it, whatever the role of the first one."""
    blocks = message.blocks
    return bool(blocks) and blocks[0].get("type") == "compaction"


def check_system_messages(messages: Sequence[Message], model: Model) -> None:
    """A system message stands right after a user message, and before an assistant message or at the end."""
    for index, message in enumerate(messages):
        if message.role != "system":
            if message.clear_at is not None or message.output_config is not None:
                raise invalid(f"messages.{index}: clear_at and output_config are only permitted on role 'system'")
            continue
        if not model.system_messages:
            raise invalid(f"messages.{index}.role: role 'system' is not supported by {model.id}")
        before = messages[index - 1].role
        after = messages[index + 1].role if index + 1 < len(messages) else "assistant"
        if before != "user" or after != "assistant":
            raise invalid(
                f"messages.{index}: a system message must follow a user message and come before an assistant "
                "message or at the end"
            )


def check_message(index: int, message: Message) -> None:
    blocks = message.blocks
    if not blocks and not message.output_config:
        raise invalid(f"messages.{index}: all messages must have non-empty content")
    allowed = KINDS[message.role]
    for position, block in enumerate(blocks):
        if block.get("type") not in allowed:
            raise invalid(
                f"messages.{index}.content.{position}.type: {block.get('type')!r} is not allowed in a message of role "
                f"{message.role!r}; of the API's blocks the simulator knows {', '.join(allowed)} there"
            )


def check_block(block: WireBlock) -> None:
    """What a single block must hold, wherever it stands."""
    raw = block.raw
    if block.level != "tools" and block.kind == "text":
        text = raw.get("text")
        if not isinstance(text, str):
            raise invalid(f"{block.path}.text: Field required")
        if not text:
            raise invalid(f"{block.level}: text content blocks must be non-empty ({block.path})")
        if not text.strip():
            raise invalid(f"{block.level}: text content blocks must contain non-whitespace text ({block.path})")
    elif block.level == "system" and block.role == "system":
        raise invalid(f"{block.path}.type: Input should be 'text'")
    elif block.kind == "tool_use":
        check_call(block.path, raw)
    elif block.kind == "tool_result":
        check_result(block.path, raw)
    elif block.kind in ("image", "document") and not isinstance(raw.get("source"), dict):
        raise invalid(f"{block.path}.{block.kind}.source: Field required")


def check_result(path: str, raw: Json) -> None:
    """The content of a result is absent, a text, or blocks."""
    if not isinstance(raw.get("tool_use_id"), str):
        raise invalid(f"{path}.tool_result.tool_use_id: Field required")
    content = raw.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid(f"{path}.tool_result.content: Input should be a string or a list of blocks")
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in ("text", "image", "document", "search_result"):
            raise invalid(f"{path}.tool_result.content.{index}.type: {kind!r} is not allowed in a tool result")
        if kind == "text" and not isinstance(part.get("text"), str):
            raise invalid(f"{path}.tool_result.content.{index}.text: Field required")
        if kind == "text" and not part["text"]:
            raise invalid(f"messages: text content blocks must be non-empty ({path}.content.{index})")


def check_call(path: str, raw: Json) -> None:
    identifier = raw.get("id")
    if not isinstance(identifier, str) or not CALL_ID.fullmatch(identifier):
        raise invalid(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(raw.get("name"), str):
        raise invalid(f"{path}.tool_use.name: Field required")
    if not isinstance(raw.get("input"), dict):
        raise invalid(f"{path}.tool_use.input: Input should be a valid dictionary")


def merged(messages: Sequence[Message]) -> list[MergedTurn]:
    """Turns with their blocks by path. System messages stand outside: calls and results pair around them."""
    turns: list[MergedTurn] = []
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        if not turns or turns[-1].role != message.role:
            turns.append(MergedTurn(message.role, index))
        turns[-1].blocks += [
            (f"messages.{index}.content.{position}", block) for position, block in enumerate(message.blocks)
        ]
    return turns


def check_pairs(turns: Sequence[MergedTurn]) -> None:
    """Every call has exactly its result, first in the next user message; every result has its call before it."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for turn in turns:
        if turn.role == "user":
            check_results(turn, open_calls)
            open_calls = []
            continue
        open_calls = [str(block["id"]) for _, block in turn.blocks if block.get("type") == "tool_use"]
        for call in open_calls:
            if call in seen:
                raise invalid(f"messages.{turn.first}: `tool_use` ids must be unique ({call})")
            seen.add(call)
    if open_calls:
        raise invalid(missing(turns[-1].first, open_calls))


def check_results(turn: MergedTurn, open_calls: Sequence[str]) -> None:
    results: list[str] = []
    others = False
    for path, block in turn.blocks:
        if block.get("type") != "tool_result":
            others = True
            continue
        call = str(block["tool_use_id"])
        if call not in open_calls:
            raise invalid(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if call in results:
            raise invalid(
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call}"
            )
        if others:
            raise invalid(f"{path}: `tool_result` blocks must come before any other content of the message")
        results.append(call)
    if absent := [call for call in open_calls if call not in results]:
        raise invalid(missing(turn.first - 1, absent))


def missing(index: int, calls: Sequence[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )
