"""Shows a Messages request to the answerer: texts and calls in order, and the tools it may call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamella_simulator.answerer.conversation import Called, Conversation, Heard, Piece
from lamella_simulator.anthropic.prompt import text_of
from lamella_simulator.anthropic.request import MessagesRequest, WireBlock, is_web_search


def conversation(request: MessagesRequest, blocks: Sequence[WireBlock]) -> Conversation:
    choice = (request.tool_choice or {}).get("type")
    names = () if choice == "none" else (str(tool["name"]) for tool in request.tools if not is_web_search(tool))
    return Conversation(tuple(pieces(blocks)), frozenset(names))


def pieces(blocks: Sequence[WireBlock]) -> Iterator[Piece]:
    for block in blocks:
        if block.level == "tools" or block.thinking:
            continue
        if block.kind == "tool_use":
            arguments = block.raw.get("input")
            yield Called(str(block.raw.get("name", "")), arguments if isinstance(arguments, dict) else {})
        elif block.kind == "tool_result":
            yield Heard("tool", text_of(block.bare))
        elif block.kind == "compaction":
            yield Heard("system", text_of(block.bare))
        elif block.kind == "text":
            text = str(block.raw.get("text", ""))
            match block.role:
                case "user":
                    yield Heard("user", text)
                case "assistant":
                    yield Heard("assistant", text)
                case _:
                    yield Heard("system", text)
