"""What was made of knowledge bases that its reader may not read in full any more: nothing of it is given.

A result names the bases whose passages it holds. A step of an answer, and a summary, name those whose passages stood in
the window that they were made from, or something that was made of them: that goes with them from window to window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from msgspec import DecodeError

from lamella.core.agents import Summary
from lamella.core.counting import count_tokens
from lamella.core.json import decode_object, encode_text
from lamella.core.messages import AnswerPart, Step, Text, ToolCall, ToolResult, Turn, UserMessage

WITHHELD = "This result came from a knowledge base that may not be read in full any more. Search again."
WITHHELD_ANSWER = "What was said here was made with a knowledge base that may not be read in full any more."
WITHHELD_SUMMARY = (
    "The summary of this part was made with a knowledge base that may not be read in full any more. Search again, or "
    "search the conversation for what the user said."
)

WITHHELD_DOCUMENT = "Document {number} was brought here with a knowledge base that may not be read in full any more."

_MARK = '"knowledge_base'
DOUBTFUL = "?"
"""Stands for a base that can't be read from a result: nobody has a grant on it."""


def bases_of(result: ToolResult) -> frozenset[str]:
    """The knowledge bases whose passages a result holds, as far as more than a safe summary of them."""
    if _MARK not in result.rich:
        return frozenset()
    try:
        rich = decode_object(result.rich)
    except DecodeError:
        return frozenset({DOUBTFUL})
    documents, quoted = rich.get("documents", []), rich.get("knowledge_bases", [])
    if not isinstance(documents, list) or not isinstance(quoted, list):
        return frozenset({DOUBTFUL})
    named = [document.get("knowledge_base_id") for document in documents if isinstance(document, dict)]
    return frozenset(id if isinstance(id, str) else DOUBTFUL for id in (*named, *quoted) if id is not None)


def quoting(bases: Iterable[str]) -> str:
    """The `rich` of a result that quotes what was made of these bases."""
    named = sorted(set(bases))
    return encode_text({"knowledge_bases": list(named)}) if named else ""


def bases_of_steps(steps: Iterable[Step]) -> frozenset[str]:
    """The bases that these steps, as they are given, hold something of."""
    held: set[str] = set()
    for step in steps:
        held.update(step.made_from, *(bases_of(result) for result in step.results))
    return frozenset(held)


def bases_of_window(turns: Sequence[Turn], summaries: Sequence[Summary] = ()) -> frozenset[str]:
    """The bases that a window of these holds something of."""
    steps = [step for turn in turns for step in turn.steps]
    return bases_of_steps(steps).union(base for summary in summaries for base in summary.made_from)


def held_back(result: ToolResult, closed: Collection[str]) -> ToolResult:
    """The result as it may be given when these bases are closed to its reader."""
    return result if bases_of(result).isdisjoint(closed) else _emptied(result)


def _emptied(result: ToolResult) -> ToolResult:
    return ToolResult(result.call_id, result.name, WITHHELD, result.is_error)


def with_held_back(steps: Iterable[Step], closed: Collection[str]) -> tuple[Step, ...]:
    """The steps without what these bases are in."""
    if not closed:
        return tuple(steps)
    return tuple(_held_back(step, frozenset(closed)) for step in steps)


def user_held_back(user: UserMessage, closed: Collection[str]) -> UserMessage:
    """The message without its dynamic context, where that tells of these bases; the user's own words stay."""
    withheld = tuple(sorted(set(user.made_from).intersection(closed)))
    if not withheld:
        return user
    return replace(user, dynamic="", dynamic_whys=(), made_from=(), withheld=withheld)


def _held_back(step: Step, closed: frozenset[str]) -> Step:
    """Of a step that was made with a closed base its calls stay, by name: what they asked and got may tell of it."""
    withheld = tuple(sorted(bases_of_steps([step]) & closed))
    if closed.isdisjoint(step.made_from):
        results = tuple(held_back(result, closed) for result in step.results)
        return _counted(replace(step, results=results, withheld=withheld)) if withheld else step
    says: tuple[AnswerPart, ...] = (Text(WITHHELD_ANSWER),) if step.text or not step.calls else ()
    calls = tuple(ToolCall(call.id, call.name, "{}") for call in step.calls)
    results = tuple(_emptied(result) for result in step.results)
    return _counted(replace(step, parts=(*says, *calls), results=results, made_from=(), withheld=withheld))


def _counted(step: Step) -> Step:
    """The step with the tokens of what is left: its length would tell how much is missing."""
    texts = [step.text, *(result.content for result in step.results)]
    texts += [f"{call.name}{call.arguments}" for call in step.calls]
    return replace(step, tokens=sum(map(count_tokens, texts)))
