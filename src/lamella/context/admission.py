"""Which files' texts are in the window: decided once for an attachment and a model, recorded, and data ever after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.segments import project_tokens
from lamella.core.agents import Project
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment
from lamella.core.prompt import Kind

INCLUDED = "included"
LISTED = "listed"
ABSENT = "absent"
MARGIN = 0.05
"""How much of the budget an estimate may not use (law 7)."""

NOTHING_NEW = -1
"""The room in which nothing fits that was not decided before, not even an empty file."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The keys of the documents that are listed instead of included, and what had to be decided for it.

    `project_absent`: the project is not in the window, because it does not fit as a whole.
    """

    listed: frozenset[str]
    decisions: tuple[Decision, ...]
    project_absent: bool = False


def subject_of(id: str, model: str) -> str:
    """What an admission decision is about. A file that is attached twice is admitted twice: `id` is the document's."""
    return f"{id}@{model}"


def usable(context: ContextInput) -> int:
    """The local tokens that a window may have: budget less margin, in the counter's own unit."""
    return int(context.budget / (1 + MARGIN) / context.calibration)


def admit(context: ContextInput, layout: Layout, room: int) -> Admission:
    """Include what fits: this turn's files, then the project, then older files, newest first.

    `room` are the local tokens that are free when nothing new is in. What was decided before stays as it was. Where
    the project travels it is taken whole or not at all, and is never dropped once it is in; where it is fixed, whole
    files are taken while they fit and the rest is listed (SPEC O4).
    """
    work = _Admitting(context, room)
    work.files(context.turn.user.attachments)
    absent = False
    if context.project is not None:
        if layout.is_fixed(Kind.PROJECT):
            work.files(context.project.files)
        else:
            absent = not work.whole(context.project)
    for turn in reversed(context.history):
        work.files(turn.user.attachments)
    return Admission(frozenset(work.listed), tuple(work.decisions), absent)


class _Admitting:
    """One pass over the files: the room that is left, and what was decided."""

    def __init__(self, context: ContextInput, room: int) -> None:
        self._model = context.model.name
        self._known = {(d.kind, d.subject): d.outcome for d in context.decisions}
        self._room = room
        self.listed: set[str] = set()
        self.decisions: list[Decision] = []

    def files(self, attachments: Sequence[Attachment]) -> None:
        """Include each file that fits, or list it."""
        for attachment in attachments:
            if attachment.text is None:
                continue
            key = key_of(attachment)
            outcome = self._known.get((DecisionKind.ADMISSION, subject_of(key, self._model)))
            if (outcome or self._decide(attachment, key)) == LISTED:
                self.listed.add(key)

    def _decide(self, attachment: Attachment, key: str) -> str:
        fits = attachment.tokens <= self._room
        why = (
            f"“{attachment.title}” fits the window of {self._model}"
            if fits
            else f"“{attachment.title}” has about {attachment.tokens} tokens, more than is free in the window of "
            f"{self._model}; it is listed and can be read piece by piece"
        )
        outcome = INCLUDED if fits else LISTED
        self._record(DecisionKind.ADMISSION, key, outcome, why, self._take(attachment.tokens, fits=fits))
        return outcome

    def whole(self, project: Project) -> bool:
        """Whether the project stands in the window as one block."""
        outcome = self._known.get((DecisionKind.PROJECT, subject_of(project.id, self._model)))
        if outcome is not None:
            return outcome == INCLUDED
        size = project_tokens(project, frozenset())
        fits = size <= self._room
        why = (
            f"the project “{project.name}” fits the window of {self._model}"
            if fits
            else f"the project “{project.name}” has about {size} tokens, more than is free for {self._model}"
        )
        numbers = self._take(size, fits=fits)
        self._record(DecisionKind.PROJECT, project.id, INCLUDED if fits else ABSENT, why, numbers)
        return fits

    def _take(self, tokens: int, *, fits: bool) -> Mapping[str, float]:
        """Use room, if it fits; gives the numbers of the decision."""
        numbers = {"tokens": tokens, "room": max(self._room, 0)}
        self._room -= tokens * fits
        return numbers

    def _record(self, kind: DecisionKind, id: str, outcome: str, why: str, numbers: Mapping[str, float]) -> None:
        self.decisions.append(Decision(kind, subject_of(id, self._model), outcome, "engine", why, numbers))
