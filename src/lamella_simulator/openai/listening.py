"""Shows a Chat Completions request to the answerer: texts and calls in order, and the tools it may call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from lamella_simulator.answerer.conversation import Called, Conversation, Heard, Piece
from lamella_simulator.openai.choices import callable_names
from lamella_simulator.openai.request import ChatMessage, ChatRequest, parts_of


def conversation(request: ChatRequest) -> Conversation:
    names = callable_names(request.tool_choice, request.tools)
    return Conversation(tuple(p for m in request.messages for p in pieces(m)), names)


def pieces(message: ChatMessage) -> Iterator[Piece]:
    for _, part in parts_of(message):
        if part.get("type") == "function":
            function = part.get("function", {})
            yield Called(str(function.get("name", "")), arguments_of(function.get("arguments")))
        elif part.get("type") == "text":
            text = str(part.get("text", ""))
            match message.role:
                case "user":
                    yield Heard("user", text)
                case "assistant":
                    yield Heard("assistant", text)
                case "tool":
                    yield Heard("tool", text)
                case _:
                    yield Heard("system", text)


def arguments_of(text: Any) -> dict[str, Any]:
    """The arguments of an earlier call; a broken one has none."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
