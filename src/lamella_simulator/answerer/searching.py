"""Searches knowledge bases where the request names some, and tells what those with restricted access let out."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lamella_simulator.answerer import wording
from lamella_simulator.answerer.conversation import Called, Conversation, Heard
from lamella_simulator.answerer.question import Question
from lamella_simulator.replies import Reply, ToolCall

TOOL = "knowledge_base_search"
ANNOUNCED = "Knowledge bases that can be searched here:"


def search(conversation: Conversation, question: Question) -> Reply | None:
    """A call of the search, once in a turn, where the tool is offered and bases are announced."""
    if TOOL not in conversation.tools or question.wish != "answer" or has_searched(conversation):
        return None
    if not any(isinstance(piece, Heard) and ANNOUNCED in piece.text for piece in conversation.pieces):
        return None
    return Reply(
        text=wording.SEARCHING,
        reasoning="Nothing that is open answers this; there are knowledge bases to search.",
        tool_calls=(ToolCall(TOOL, arguments={"query": question.text}),),
    )


def has_searched(conversation: Conversation) -> bool:
    """Whether this turn has searched."""
    return any(isinstance(piece, Called) and piece.name == TOOL for piece in conversation.turn)


def restricted(conversation: Conversation) -> str:
    """What the searches of this turn may tell of bases with restricted access; "" where there is none."""
    told = []
    for part in _parts(conversation):
        name = str(part.get("knowledge_base", ""))
        said = part.get("summary") if part.get("decision") == "answer" else part.get("what_to_do")
        told.append(wording.restricted(name, str(said or "")))
    return "\n\n".join(told)


def _parts(conversation: Conversation) -> Iterator[dict[str, object]]:
    for piece in conversation.turn:
        if not isinstance(piece, Heard) or piece.role != "tool" or '"restricted"' not in piece.text:
            continue
        try:
            value = json.loads(piece.text)
        except ValueError:
            continue
        listed = value.get("restricted") if isinstance(value, dict) else None
        yield from (part for part in listed if isinstance(part, dict)) if isinstance(listed, list) else ()
