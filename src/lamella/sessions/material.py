"""Stored turns as data for a summariser: in full, in frames that nothing in them closes. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from lamella.context.choices import Known
from lamella.context.layout import Layout, OldResults
from lamella.context.render import pruned_steps
from lamella.context.results import Cut, cut_text, cut_to
from lamella.core.counting import count_tokens
from lamella.core.messages import Step, ToolResult, Turn

LEAST = 64
"""Tokens that a piece keeps when there is no room for it."""

_FRAMES = re.compile(r"<(\s*/?\s*(?:material|index|conversation|conversation-summary)\b)", re.IGNORECASE)


def neutral(text: str) -> str:
    """A text that can't open or close a frame."""
    return _FRAMES.sub(r"‹\1", text)


def framed(name: str, text: str) -> str:
    """A text as data between two marks."""
    return f"<{name}>\n{neutral(text)}\n</{name}>"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the material: `head` says what it is; a `long` one may be cut."""

    head: str
    text: str
    long: bool = False

    @property
    def tokens(self) -> int:
        """Its local tokens."""
        return count_tokens(self.head) + count_tokens(self.text) + 2


def conversation(turns: Sequence[Turn]) -> tuple[Piece, ...]:
    """Everything that was said in `turns`, as it is stored: no stub, nothing cut, no thinking."""
    return tuple(piece for turn in turns for piece in _turn(turn))


def _turn(turn: Turn) -> Iterator[Piece]:
    user = turn.user
    for attachment in user.attachments:
        text = attachment.text or "(no text)"
        yield Piece(f"[{user.id}] File “{attachment.title}”:", text, long=True)
    yield Piece(f"[{user.id}] User, {user.sent_at:%Y-%m-%d %H:%M}:", user.text, long=True)
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
        made.append(Piece(f"[{turn.user.id}] Result of {result.name} {arguments}:", result.content, long=True))
    return tuple(made)


def hidden(
    turns: Sequence[Turn], layout: Layout, known: Known, kept: Collection[str] = ()
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


def fitting(pieces: Sequence[Piece], room: int) -> str | None:
    """The pieces as one text of about `room` local tokens, the longest cut; None where that is too much still."""
    total = sum(piece.tokens for piece in pieces)
    if total > room:
        sizes = [piece.tokens for piece in pieces if piece.long]
        share = _share(sorted(sizes), room - (total - sum(sizes)))
        if share < LEAST:
            return None
        pieces = [_cut(piece, share) if piece.long and piece.tokens > share else piece for piece in pieces]
    return "\n\n".join(f"{piece.head}\n{piece.text}" for piece in pieces)


def _share(sizes: Sequence[int], room: int) -> int:
    """The most that each may have so that all fit: what small ones leave goes to the larger ones."""
    for index, size in enumerate(sizes):
        left = len(sizes) - index
        if size * left > room:
            return room // left
        room -= size
    return max(sizes, default=LEAST)


def _cut(piece: Piece, share: int) -> Piece:
    cut: Cut = cut_to(ToolResult("", "", piece.text), share - count_tokens(piece.head) - 2)
    return replace(piece, text=cut_text(piece.text, cut))
