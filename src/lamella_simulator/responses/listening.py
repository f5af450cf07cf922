"""Shows a Responses request to the answerer: texts and calls in order, and the tools it may call."""

from __future__ import annotations

from collections.abc import Iterator

from lamella_simulator.answerer.conversation import Called, Conversation, Heard, Piece
from lamella_simulator.blocks import Json
from lamella_simulator.openai.choices import callable_names
from lamella_simulator.openai.listening import arguments_of
from lamella_simulator.responses.prompt import role_of
from lamella_simulator.responses.reasoning import Compacted, opened
from lamella_simulator.responses.request import ResponsesRequest, kind_of, parts_of


def conversation(request: ResponsesRequest, seed: int) -> Conversation:
    names = callable_names(request.tool_choice, request.tools)
    said = [Heard("system", request.instructions)] if request.instructions else []
    return Conversation((*said, *(p for item in request.items for p in pieces(item, seed))), names)


def pieces(item: Json, seed: int) -> Iterator[Piece]:
    if kind_of(item) == "compaction":
        yield Heard("system", opened(item, Compacted, seed).summary)
        return
    if kind_of(item) == "function_call":
        yield Called(str(item.get("name", "")), arguments_of(item.get("arguments")))
        return
    for _, part in parts_of(item):
        if part.get("type") not in ("input_text", "output_text"):
            continue
        text = str(part.get("text", ""))
        match role_of(item):
            case "user":
                yield Heard("user", text)
            case "assistant":
                yield Heard("assistant", text)
            case "result":
                yield Heard("tool", text)
            case _:
                yield Heard("system", text)
