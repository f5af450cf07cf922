"""Stored turns as data for a summariser: in full, in frames that nothing in them closes. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from lamella.context.choices import KnownDecisions, pruned_steps
from lamella.context.documents import key_of
from lamella.context.layout import Layout, OldResults
from lamella.core.counting import ApproximateCounter, at_an_end, beginning_of, count_tokens
from lamella.core.messages import Step, ToolResult, Turn

FRAME = 2
"""Local tokens between two pieces, and between a head and its text."""

LONG_ARGUMENTS = 300
"""Characters of a call's arguments that stand in the head of its result; longer ones are a piece of their own."""

_CONTINUED = ", continued"
_COUNTER = ApproximateCounter()

_FRAMES = re.compile(r"<(\s*/?\s*(?:material|index|conversation|conversation-summary)\b)", re.IGNORECASE)


def neutral(text: str) -> str:
    """A text that can't open or close a frame."""
    return _FRAMES.sub(r"‹\1", text)


def framed(name: str, text: str) -> str:
    """A text as data between two marks."""
    return f"<{name}>\n{neutral(text)}\n</{name}>"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the material: `head` says what it is, in one short line."""

    head: str
    text: str

    @property
    def tokens(self) -> int:
        """Its local tokens."""
        return self.tokens_of(self.text)

    def tokens_of(self, text: str) -> int:
        """Its local tokens if that were its text. Counted each time: nobody counts a part twice."""
        return count_tokens(self.head) + _COUNTER.count(text) + FRAME

    def continued(self, text: str) -> Piece:
        """A later part of it."""
        head = self.head.removesuffix(":").removesuffix(_CONTINUED)
        return Piece(f"{head}{_CONTINUED}:", text)


def conversation(turns: Sequence[Turn], listed: Collection[str] = (), *, dated: bool = True) -> tuple[Piece, ...]:
    """Everything that was said in `turns`, as it is stored: no stub, nothing cut, no thinking.

    The documents `listed`, by their keys, never stood in the window with their text: they are named. `dated`: the times
    of messages are known.
    """
    return tuple(piece for turn in turns for piece in _turn(turn, listed, dated=dated))


def _turn(turn: Turn, listed: Collection[str], *, dated: bool) -> Iterator[Piece]:
    user = turn.user
    for attachment in user.attachments:
        text = attachment.text or "(no text)"
        if attachment.text and key_of(attachment) in listed:
            text = f"(about {attachment.tokens} tokens; listed by its name, and not shown)"
        yield Piece(f"[{user.id}] File “{attachment.title}”:", text)
    yield Piece(f"[{user.id}] User{f', {user.sent_at:%Y-%m-%d %H:%M}' if dated else ''}:", user.text)
    for step in turn.steps:
        if step.text.strip():
            yield Piece(f"[{user.id}] Assistant:", step.text)
        yield from results([(turn, step, result) for result in step.results])


def results(shown: Sequence[tuple[Turn, Step, ToolResult]]) -> tuple[Piece, ...]:
    """Results of tools with the calls that they belong to."""
    made = []
    for turn, step, result in shown:
        call = next((call for call in step.calls if call.id == result.call_id), None)
        arguments = call.arguments if call is not None else ""
        if len(arguments) > LONG_ARGUMENTS:
            made.append(Piece(f"[{turn.user.id}] Call of {result.name} with:", arguments))
            arguments = "with these arguments"
        made.append(Piece(f"[{turn.user.id}] Result of {result.name} {arguments}:", result.content))
    return tuple(made)


def hidden(
    turns: Sequence[Turn], layout: Layout, known: KnownDecisions, kept: Collection[str] = ()
) -> tuple[tuple[Turn, Step, ToolResult], ...]:
    """The results of `turns` that their window does not show in full; the tools `kept` keep theirs where they can."""
    stubs = pruned_steps(tuple(turns), known.boundary(turns))
    emptied = pruned_steps(tuple(turns), known.emptied(turns))
    cut = {cut.call_id for cut in known.cuts}
    gone = layout.old_results is OldResults.NOTICE
    return tuple(
        (turn, step, result)
        for turn in turns
        for step in turn.steps
        for result in step.results
        if gone or step.id in emptied or (step.id in stubs and result.name not in kept) or result.call_id in cut
    )


def text_of(pieces: Sequence[Piece]) -> str:
    """The pieces as one text."""
    return "\n\n".join(f"{piece.head}\n{piece.text}" for piece in pieces)


def packed(pieces: Sequence[Piece], room: int) -> tuple[tuple[Piece, ...], ...]:
    """The pieces in groups of `room` local tokens at most, in order, as few as it takes. Nothing is left out.

    A piece that is larger than a group is split, between two lines or words if there are any. Raises `ValueError` if
    not even a head has room.
    """
    groups: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    left = room
    for piece in pieces:
        for part in _parts(piece, room):
            if part.tokens > left:
                groups.append(tuple(group))
                group, left = [], room
            group.append(part)
            left -= part.tokens
    return tuple(group for group in (*groups, tuple(group)) if group)


def _parts(piece: Piece, room: int) -> Iterator[Piece]:
    """The piece, or its parts in order, none with more than `room` tokens."""
    if piece.tokens <= room:
        yield piece
        return
    rest, characters = piece.text, room * len(piece.text) // piece.tokens + 1
    while rest:
        first = _beginning(piece, rest[:characters], room)
        if len(first) == len(rest[:characters]) < len(rest):
            first = at_an_end(first)
        yield replace(piece, text=first)
        rest, piece = rest[len(first) :], piece.continued("")


def _beginning(piece: Piece, text: str, room: int) -> str:
    """As much of a text as has room in one part of a piece."""
    found = beginning_of(text, room - piece.tokens_of(""))
    if not found:
        raise ValueError(f"{room} tokens are no room for a part of “{piece.head}”")
    return found
