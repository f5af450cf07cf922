"""Which documents' texts are in the window: decided once for a document and a model, recorded, and data ever after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella.context.choices import INCLUDED, LISTED, Known, project_content, revision_of, subject_of
from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.pictures import content_tokens, has_content
from lamella.core.agents import Project
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment

MOST_PICTURE_BYTES = 18_000_000
"""What the pictures of a request may have together before a project's are left out: in base64 they are a third more,
and a provider takes 32 MB."""


def admit(context: ContextInput, room: int, *, project_is_fixed: bool) -> tuple[Decision, ...]:
    """Include what fits: this turn's files, then the project, then older files, newest first.

    `room` are the local tokens that are free when nothing new is in. What was decided before stays as it was. Where
    the project travels, all of its files are taken or all are listed; where it is fixed, whole files are taken while
    they fit and the rest is listed (SPEC O4). Its instructions and the list stand in the window already.
    """
    work = _Admitting(context, room)
    work.files(context.turn.user.files)
    if context.project is not None and project_is_fixed:
        work.files(project_content(context))
    elif context.project is not None:
        work.whole(context.project, project_content(context))
    for turn in reversed(context.history):
        work.files(turn.user.files)
    return tuple(work.decisions)


class _Admitting:
    """One pass over the documents: the room that is left, and what was decided."""

    def __init__(self, context: ContextInput, room: int) -> None:
        self._model = context.model
        self._known = Known(self._model.name, context.decisions)
        self._room = room
        turns = (*context.history, context.turn)
        self._bytes = MOST_PICTURE_BYTES - sum(len(image.data) for turn in turns for image in turn.user.images)
        self.decisions: list[Decision] = []

    def files(self, attachments: Sequence[Attachment]) -> None:
        """Include each document or picture that fits, or list it."""
        for attachment in attachments:
            if has_content(attachment, self._model) and self._known.of_document(attachment) is None:
                self._decide(attachment)

    def _decide(self, attachment: Attachment) -> None:
        about, lacks, numbers = f"“{attachment.title}”", *self._take([attachment])
        way = "it is listed and can be read piece by piece" if attachment.image is None else "only its name is given"
        why = f"{about} {lacks}; {way}" if lacks else f"{about} fits the window of {self._model.name}"
        self._record(DecisionKind.ADMISSION, key_of(attachment), LISTED if lacks else INCLUDED, why, numbers)

    def whole(self, project: Project, held: Sequence[Attachment]) -> None:
        """Decide whether the files of the project stand in the window whole, or as a list."""
        if not held or self._known.of_project(project) is not None:
            return
        about, lacks, numbers = f"the project “{project.name}”", *self._take(held)
        way = "its instructions stay, and its files are listed: they can be searched, and read piece by piece"
        why = f"{about} {lacks}; {way}" if lacks else f"{about} fits the window of {self._model.name}"
        self._record(DecisionKind.PROJECT, revision_of(project), LISTED if lacks else INCLUDED, why, numbers)

    def _take(self, wanted: Sequence[Attachment]) -> tuple[str, Mapping[str, float]]:
        """Use room, if there is enough; gives what keeps these out, or "", and the numbers of the decision."""
        tokens = sum(content_tokens(one, self._model) for one in wanted)
        size = sum(len(one.image.data) for one in wanted if one.image is not None)
        numbers: dict[str, float] = {"tokens": tokens, "room": max(self._room, 0)}
        if tokens > self._room:
            return f"has about {tokens} tokens, more than is free in the window of {self._model.name}", numbers
        if size > max(self._bytes, 0):
            numbers |= {"bytes": size, "most_bytes": MOST_PICTURE_BYTES}
            return "has larger pictures than one request can carry with the others", numbers
        self._room, self._bytes = self._room - tokens, self._bytes - size
        return "", numbers

    def _record(self, kind: DecisionKind, id: str, outcome: str, why: str, numbers: Mapping[str, float]) -> None:
        self.decisions.append(Decision(kind, subject_of(id, self._model.name), outcome, "engine", why, numbers))
