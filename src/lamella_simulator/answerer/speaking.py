"""Chooses the answer to a request: its script, or the answerer's if the script has none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from lamella_simulator.answerer.answer import reply as answer
from lamella_simulator.answerer.conversation import SENT, Conversation, PastMessage
from lamella_simulator.answerer.sentences import split
from lamella_simulator.replies import Reply

LONGEST = 300
MOST = 40
"""Characters of a sentence, and sentences, of a recap."""
FACT = re.compile(r"\bFACT-\w")
INDEX = re.compile(r"<index>(.*?)</index>", re.DOTALL)
INDEXED = re.compile(r"^- \S+(?P<more> and the (?:one|(?P<after>\d+)) after it)?: “.*”$", re.MULTILINE)
"""A line of the index: the id of a message, how many come after it that are not listed, and how its text begins."""
MATERIAL = re.compile(r"<(?:material|conversation)>(.*?)</(?:material|conversation)>", re.DOTALL)
EARLIER = re.compile(r"<conversation-summary>.*?</conversation-summary>", re.DOTALL)


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
    heard = [
        p.text for p in conversation.pieces if isinstance(p, PastMessage) and p.role != "system" and p.text.strip()
    ]
    opened = [sentence.text[:LONGEST] for text in heard[-MOST:] for sentence in split(text)[:1]]
    return "\n".join(opened) or "Nothing was said."


def facts(conversation: Conversation) -> Iterator[str]:
    """Each sentence that holds a word of the form FACT-…, once, in the order of the request.

    If the request asks for a summary, only what it asks to summarise is read: see `to_summarise`.
    """
    seen: set[str] = set()
    for text in to_summarise(conversation):
        if FACT.search(text):
            for sentence in split(text):
                if FACT.search(sentence.text) and sentence.text not in seen:
                    seen.add(sentence.text)
                    yield sentence.text


def to_summarise(conversation: Conversation) -> list[str]:
    """The texts that a request is about; all of them, unless it ends by asking for a summary.

    Such a request ends with an index of the messages that it is for, which come first. Then the summaries of earlier
    sessions are left out, and so is what follows the last of these messages and its answer; of the request's own words
    only the material is read.
    """
    heard = [piece for piece in conversation.pieces if isinstance(piece, PastMessage)]
    last = max((place for place, piece in enumerate(heard) if piece.role == "assistant"), default=-1)
    asking = next((place for place in range(last + 1, len(heard)) if INDEX.search(heard[place].text)), None)
    if asking is None:
        return [piece.text for piece in heard]
    index = "".join(INDEX.findall(heard[asking].text))
    count = sum(_listed(line) for line in INDEXED.finditer(index))
    before = heard[: _end(heard[:asking], count)]
    return [*(_without_earlier(piece) for piece in before), *MATERIAL.findall(heard[asking].text)]


def _listed(line: re.Match[str]) -> int:
    """How many messages a line of the index stands for."""
    return 1 + (int(line["after"] or 1) if line["more"] else 0)


def _end(heard: Sequence[PastMessage], count: int) -> int:
    """The position of the question after so many others. The end if there is none."""
    asked = [place for place, piece in enumerate(heard) if piece.role == "user" and SENT.search(piece.text)]
    return asked[count] if 0 < count < len(asked) else len(heard)


def _without_earlier(piece: PastMessage) -> str:
    return EARLIER.sub("", piece.text) if piece.role != "assistant" else piece.text
