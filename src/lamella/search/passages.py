"""Cuts texts into passages to find, and a snippet out of what was found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.search.terms import spans_of, terms_of

PASSAGE = 1_600
"""Characters of a passage, at most: about 400 tokens."""

LEAST = 400
"""Characters that a passage has before it is ended at a break."""

SNIPPET = 240

_BREAKS = ("\n\n", "\n", "。", ". ", " ")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text around the words of a query: it begins at character `start`; `marks` are places within it."""

    text: str
    start: int
    marks: tuple[tuple[int, int], ...] = ()


def passages_of(text: str) -> Iterator[tuple[int, int]]:
    """From where to where the passages of a text go, without gaps; none for one without a letter."""
    start = 0
    while start < len(text):
        end = min(start + PASSAGE, len(text))
        if end < len(text):
            end = next((at + len(mark) for mark in _BREAKS if (at := text.rfind(mark, start + LEAST, end)) >= 0), end)
        if text[start:end].strip():
            yield start, end
        start = end


def circumstances(who: str, at: datetime) -> list[str]:
    """Terms that a question may name besides the words: the speaker and the day."""
    return terms_of(f"{who} {at.day} {at:%B} {at.year}")


def snippet_of(text: str, terms: Sequence[str], start: int = 0, end: int | None = None) -> Snippet:
    """The piece of `text[start:end]` that holds most of the terms, at most `SNIPPET` characters."""
    end = len(text) if end is None else min(end, len(text))
    wanted = set(terms)
    found = [(start + left, start + right, term) for left, right, term in spans_of(text[start:end]) if term in wanted]
    begin = _best_window(found, start)
    begin = _at_word(text, max(begin - SNIPPET // 6, start), start)
    piece = text[begin : min(begin + SNIPPET, end)]
    marks = _joined(
        (left - begin, right - begin) for left, right, _ in found if left >= begin and right <= begin + SNIPPET
    )
    return Snippet(piece, begin, marks)


def _best_window(found: Sequence[tuple[int, int, str]], start: int) -> int:
    """Where the window begins that holds most different terms."""
    best, most = start, 0
    for index, (left, _, _) in enumerate(found):
        held = {term for at, right, term in found[index:] if right <= left + SNIPPET - SNIPPET // 6}
        if len(held) > most:
            best, most = left, len(held)
    return best


def _at_word(text: str, at: int, least: int) -> int:
    """The beginning of a word at or soon after `at`."""
    if at <= least or text[at - 1].isspace():
        return at
    space = text.find(" ", at, at + 20)
    return space + 1 if space >= 0 else at


def _joined(places: Iterator[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places that touch or overlap as one."""
    made: list[tuple[int, int]] = []
    for left, right in sorted(places):
        if made and left <= made[-1][1]:
            made[-1] = (made[-1][0], max(right, made[-1][1]))
        else:
            made.append((left, right))
    return tuple(made)
