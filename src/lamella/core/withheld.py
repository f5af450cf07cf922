"""Results of searches in knowledge bases that their reader may not read in full any more: nothing of them is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from msgspec import DecodeError

from lamella.core.json import decode_object
from lamella.core.messages import Step, ToolResult

WITHHELD = "This result came from a knowledge base that may not be read in full any more. Search again."

_MARK = '"knowledge_base_id":'
_DOUBTFUL = "?"
"""Stands for a base that can't be read from a result: nobody has a grant on it."""


def bases_of(result: ToolResult) -> frozenset[str]:
    """The knowledge bases whose passages a result holds, as far as more than a safe summary of them."""
    if _MARK not in result.rich:
        return frozenset()
    try:
        documents = decode_object(result.rich).get("documents")
    except DecodeError:
        return frozenset({_DOUBTFUL})
    if not isinstance(documents, list):
        return frozenset({_DOUBTFUL})
    named = [document.get("knowledge_base_id") for document in documents if isinstance(document, dict)]
    return frozenset(id if isinstance(id, str) else _DOUBTFUL for id in named if id is not None)


def held_back(result: ToolResult, closed: Collection[str]) -> ToolResult:
    """The result as it may be given when these bases are closed to its reader."""
    if bases_of(result).isdisjoint(closed):
        return result
    return ToolResult(result.call_id, result.name, WITHHELD, result.is_error)


def with_held_back(steps: Iterable[Step], closed: Collection[str]) -> tuple[Step, ...]:
    """The steps with such results replaced."""
    if not closed:
        return tuple(steps)
    return tuple(replace(step, results=tuple(held_back(one, closed) for one in step.results)) for step in steps)
