"""Which documents' texts are in the window: decided once for a document and a model, recorded, and data ever after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella.context.choices import ABSENT, INCLUDED, LISTED, Known, revision_of, subject_of
from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.segments import project_tokens
from lamella.core.agents import Project
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment


def admit(context: ContextInput, room: int, *, project_is_fixed: bool) -> tuple[Decision, ...]:
    """Include what fits: this turn's files, then the project, then older files, newest first.

    `room` are the local tokens that are free when nothing new is in. What was decided before stays as it was. Where
    the project travels it is taken whole or not at all; where it is fixed, whole files are taken while they fit and the
    rest is listed (SPEC O4).
    """
    work = _Admitting(context, room)
    work.files(context.turn.user.attachments)
    if context.project is not None:
        if project_is_fixed:
            work.files(context.project.files)
        else:
            work.whole(context.project)
    for turn in reversed(context.history):
        work.files(turn.user.attachments)
    return tuple(work.decisions)


class _Admitting:
    """One pass over the documents: the room that is left, and what was decided."""

    def __init__(self, context: ContextInput, room: int) -> None:
        self._model = context.model.name
        self._known = Known(self._model, context.decisions)
        self._room = room
        self.decisions: list[Decision] = []

    def files(self, attachments: Sequence[Attachment]) -> None:
        """Include each document that fits, or list it."""
        for attachment in attachments:
            if attachment.text is not None and self._known.of_document(attachment) is None:
                self._decide(attachment)

    def _decide(self, attachment: Attachment) -> None:
        fits = attachment.tokens <= self._room
        why = (
            f"“{attachment.title}” fits the window of {self._model}"
            if fits
            else f"“{attachment.title}” has about {attachment.tokens} tokens, more than is free in the window of "
            f"{self._model}; it is listed and can be read piece by piece"
        )
        numbers = self._take(attachment.tokens, fits=fits)
        self._record(DecisionKind.ADMISSION, key_of(attachment), INCLUDED if fits else LISTED, why, numbers)

    def whole(self, project: Project) -> None:
        """Decide whether the project stands in the window as one block."""
        if self._known.of_project(project) is not None:
            return
        size = project_tokens(project, frozenset())
        fits = size <= self._room
        why = (
            f"the project “{project.name}” fits the window of {self._model}"
            if fits
            else f"the project “{project.name}” has about {size} tokens, more than is free for {self._model}"
        )
        numbers = self._take(size, fits=fits)
        self._record(DecisionKind.PROJECT, revision_of(project), INCLUDED if fits else ABSENT, why, numbers)

    def _take(self, tokens: int, *, fits: bool) -> Mapping[str, float]:
        """Use room, if it fits; gives the numbers of the decision."""
        numbers = {"tokens": tokens, "room": max(self._room, 0)}
        self._room -= tokens * fits
        return numbers

    def _record(self, kind: DecisionKind, id: str, outcome: str, why: str, numbers: Mapping[str, float]) -> None:
        self.decisions.append(Decision(kind, subject_of(id, self._model), outcome, "engine", why, numbers))
