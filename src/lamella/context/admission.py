"""Which files' texts are in the window: decided once for a file and a model, recorded, and data ever after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import Project
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment, Turn
from lamella.core.prompt import Kind

INCLUDED = "included"
LISTED = "listed"
ABSENT = "absent"
MARGIN = 0.05
"""How much of the budget an estimate may not use (law 7)."""

OVERHEAD = 24
"""Tokens of a message beside its text: role, time, JSON around a document. A cautious constant, it only admits."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The file ids that are listed instead of included, and what had to be decided for it.

    `project_absent`: the project is not in the window, because it does not fit as a whole.
    """

    listed: frozenset[str]
    decisions: tuple[Decision, ...]
    project_absent: bool = False


def subject_of(file_id: str, model: str) -> str:
    """What an admission decision is about."""
    return f"{file_id}@{model}"


def usable(context: ContextInput) -> int:
    """The local tokens that may be admitted: budget less margin, in the counter's own unit."""
    return int(context.budget / (1 + MARGIN) / context.calibration)


def _texts(context: ContextInput) -> int:
    """Local tokens of everything but files."""
    texts = [context.system, context.reminder, *(tool.input_schema + tool.description for tool in context.tools)]
    if context.agent is not None:
        texts += [context.agent.prompt, context.agent.reminder]
    if context.project is not None:
        texts.append(context.project.instructions)
    turns = sum(turn_tokens(turn) for turn in (*context.history, context.turn))
    summaries = sum(summary.tokens + OVERHEAD for summary in context.summaries)
    return sum(len(text) // 4 + OVERHEAD for text in texts if text) + turns + summaries


def turn_tokens(turn: Turn) -> int:
    """Local tokens of a turn without its files."""
    said = turn.user.tokens + len(turn.user.dynamic) // 4 + OVERHEAD
    return said + sum(step.tokens + OVERHEAD for step in turn.steps)


def admit(context: ContextInput, layout: Layout) -> Admission:
    """Include what fits: this turn's files, then the project, then older files, newest first.

    What was decided before stays as it was. Where the project travels it is taken whole or not at all, and is never
    dropped once it is in; where it is fixed, whole files are taken while they fit and the rest is listed (SPEC O4).
    """
    work = _Admitting(context)
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

    def __init__(self, context: ContextInput) -> None:
        self._model = context.model.name
        self._known = {(d.kind, d.subject): d.outcome for d in context.decisions}
        self._room = usable(context) - _texts(context) - self._decided(context)
        self._seen: set[str] = set()
        self.listed: set[str] = set()
        self.decisions: list[Decision] = []

    def _outcome(self, kind: DecisionKind, id: str) -> str | None:
        return self._known.get((kind, subject_of(id, self._model)))

    def _decided(self, context: ContextInput) -> int:
        """The tokens of what is in the window already: it has its room before anything new."""
        files = [a for turn in (*context.history, context.turn) for a in turn.user.attachments]
        project = context.project
        whole = 0
        if project is not None and self._outcome(DecisionKind.PROJECT, project.id) == INCLUDED:
            whole = _size(project.files)
        elif project is not None:
            files += project.files
        included = [a for a in files if self._outcome(DecisionKind.ADMISSION, a.file_id) == INCLUDED]
        return whole + _size(included)

    def files(self, attachments: Sequence[Attachment]) -> None:
        """Include each file that fits, or list it."""
        for attachment in attachments:
            if attachment.text is None:
                continue
            outcome = self._outcome(DecisionKind.ADMISSION, attachment.file_id)
            if outcome is None and attachment.file_id not in self._seen:
                outcome = self._decide(attachment)
            if outcome == LISTED:
                self.listed.add(attachment.file_id)
            self._seen.add(attachment.file_id)

    def _decide(self, attachment: Attachment) -> str:
        fits = attachment.tokens + OVERHEAD <= self._room
        numbers = {"tokens": attachment.tokens, "room": max(self._room, 0)}
        self._room -= attachment.tokens * fits + OVERHEAD
        why = (
            f"“{attachment.title}” fits the window of {self._model}"
            if fits
            else f"“{attachment.title}” has about {attachment.tokens} tokens, more than is free in the window of "
            f"{self._model}; it is listed and can be read piece by piece"
        )
        self._record(DecisionKind.ADMISSION, attachment.file_id, INCLUDED if fits else LISTED, why, numbers)
        return INCLUDED if fits else LISTED

    def whole(self, project: Project) -> bool:
        """Whether the project stands in the window as one block."""
        outcome = self._outcome(DecisionKind.PROJECT, project.id)
        if outcome is not None:
            return outcome == INCLUDED
        size = _size(project.files)
        fits = size <= self._room
        numbers = {"tokens": size, "room": max(self._room, 0)}
        self._room -= size * fits
        why = (
            f"the project “{project.name}” fits the window of {self._model}"
            if fits
            else f"the project “{project.name}” has about {size} tokens, more than is free for {self._model}"
        )
        self._record(DecisionKind.PROJECT, project.id, INCLUDED if fits else ABSENT, why, numbers)
        return fits

    def _record(self, kind: DecisionKind, id: str, outcome: str, why: str, numbers: Mapping[str, float]) -> None:
        self.decisions.append(Decision(kind, subject_of(id, self._model), outcome, "engine", why, numbers))


def _size(files: Sequence[Attachment]) -> int:
    return sum(file.tokens + OVERHEAD for file in files if file.text is not None)
