"""Which files' texts are in the window: decided once for a file and a model, recorded, and data ever after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lamella.context.input import ContextInput
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment, Turn

INCLUDED = "included"
LISTED = "listed"
MARGIN = 0.05
"""How much of the budget an estimate may not use (law 7)."""

OVERHEAD = 24
"""Tokens of a message beside its text: role, time, JSON around a document. A cautious constant, it only admits."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The file ids that are listed instead of included, and what had to be decided for it."""

    listed: frozenset[str]
    decisions: tuple[Decision, ...]


def subject_of(file_id: str, model: str) -> str:
    """What an admission decision is about."""
    return f"{file_id}@{model}"


def usable(context: ContextInput) -> int:
    """The local tokens that may be admitted: budget less margin, in the counter's own unit."""
    return int(context.budget / (1 + MARGIN) / context.calibration)


def _texts(context: ContextInput) -> int:
    """Local tokens of everything but files."""
    tools = sum(len(tool.input_schema) // 4 + len(tool.description) // 4 + OVERHEAD for tool in context.tools)
    turns = sum(turn_tokens(turn) for turn in (*context.history, context.turn))
    return len(context.system) // 4 + len(context.reminder) // 4 + tools + turns


def turn_tokens(turn: Turn) -> int:
    """Local tokens of a turn without its files."""
    return turn.user.tokens + OVERHEAD + sum(step.tokens + OVERHEAD for step in turn.steps)


def admit(context: ContextInput) -> Admission:
    """Include each file that fits, newest turn first; what was decided before stays as it was."""
    decided = {d.subject: d.outcome for d in context.decisions if d.kind is DecisionKind.ADMISSION}
    model = context.model.name
    attachments = list(_newest_first((*context.history, context.turn)))
    if not attachments:
        return Admission(frozenset(), ())
    room = usable(context) - _texts(context)
    listed: set[str] = set()
    open_files: list[Attachment] = []
    for attachment in attachments:
        outcome = decided.get(subject_of(attachment.file_id, model))
        if outcome is None:
            open_files.append(attachment)
        elif outcome == LISTED:
            listed.add(attachment.file_id)
            room -= OVERHEAD
        else:
            room -= attachment.tokens + OVERHEAD
    decisions = []
    seen: set[str] = set()
    for attachment in open_files:
        if attachment.file_id in seen:
            continue
        seen.add(attachment.file_id)
        fits = attachment.tokens + OVERHEAD <= room
        room -= (attachment.tokens if fits else 0) + OVERHEAD
        if not fits:
            listed.add(attachment.file_id)
        decisions.append(_decision(attachment, model, fits=fits, room=room))
    return Admission(frozenset(listed), tuple(decisions))


def _newest_first(turns: tuple[Turn, ...]) -> Iterable[Attachment]:
    for turn in reversed(turns):
        yield from (attachment for attachment in turn.user.attachments if attachment.text is not None)


def _decision(attachment: Attachment, model: str, *, fits: bool, room: int) -> Decision:
    why = (
        f"“{attachment.title}” fits the window of {model}"
        if fits
        else f"“{attachment.title}” has about {attachment.tokens} tokens, more than is free in the window of {model}; "
        "it is listed and can be read piece by piece"
    )
    return Decision(
        kind=DecisionKind.ADMISSION,
        subject=subject_of(attachment.file_id, model),
        outcome=INCLUDED if fits else LISTED,
        who="engine",
        why=why,
        numbers={"tokens": attachment.tokens, "room": max(room, 0)},
    )
