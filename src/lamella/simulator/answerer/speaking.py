"""Fills in what a request is answered with: its script, or where the script says nothing, the answerer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from lamella.simulator.answerer.answer import reply as answer
from lamella.simulator.answerer.conversation import Conversation, Heard
from lamella.simulator.answerer.sentences import split
from lamella.simulator.replies import Reply

LONGEST = 300
MOST = 40
"""Characters of a sentence, and sentences, of a recap."""
FACT = re.compile(r"\bFACT-\w")


def speak(script: Reply | None, conversation: Callable[[], Conversation]) -> Reply:
    """The reply to use; the conversation is only read where a rule needs it."""
    if script is None:
        return answer(conversation())
    match script.rule:
        case None:
            return script
        case "answer":
            said = answer(conversation())
            reasoning = script.reasoning if script.reasoning is not None else said.reasoning
            return msgspec.structs.replace(script, text=said.text, tool_calls=said.tool_calls, reasoning=reasoning)
        case "keep_facts":
            return msgspec.structs.replace(script, text="\n".join(facts(conversation())))


def recap(script: Reply | None, conversation: Conversation) -> str:
    """What a compaction by the provider says: its script, the facts, or how each text of the conversation begins."""
    if script is not None and script.summary is not None:
        return script.summary
    kept = list(facts(conversation))
    if kept:
        return "\n".join(kept)
    heard = [p.text for p in conversation.pieces if isinstance(p, Heard) and p.role != "system" and p.text.strip()]
    opened = [sentence.text[:LONGEST] for text in heard[-MOST:] for sentence in split(text)[:1]]
    return "\n".join(opened) or "Nothing was said."


def facts(conversation: Conversation) -> Iterator[str]:
    """Each sentence that holds a word of the form FACT-…, once, in the order of the request."""
    seen: set[str] = set()
    for piece in conversation.pieces:
        if isinstance(piece, Heard) and FACT.search(piece.text):
            for sentence in split(piece.text):
                if FACT.search(sentence.text) and sentence.text not in seen:
                    seen.add(sentence.text)
                    yield sentence.text
