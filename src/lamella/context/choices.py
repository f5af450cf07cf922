"""What was decided about a window: documents included or listed, results cut or pruned, turns left out.

Decisions are data, and the newest of a subject holds. `KnownDecisions` reads them for the windows of one model. `admit`
makes the ones that are missing: it includes documents and pictures while they fit, and lists the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lamella.context.documents import content_tokens, has_content, key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.results import ResultCut, can_be_read
from lamella.core.agents import Project, Summary
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment, Turn

INCLUDED = "included"
LISTED = "listed"
ALL = "all"
"""The number of a prune decision that replaces all results, including those that their tools keep."""
EXTRACTS = "extracts"
"""The number of a prune decision whose stubs keep extracts: by which version of the rules (`context/results.py`)."""


def subject_of(id: str, model: str) -> str:
    """The subject of an admission or a cut: the document, project or call `id` in the windows of one model.

    A file that is attached twice is admitted twice: `id` is the key of the use.
    """
    return f"{id}@{model}"


def revision_of(project: Project) -> str:
    """The subject of a decision about a whole project: `ID.REVISION`."""
    return f"{project.id}.{project.revision}"


@dataclass(frozen=True, slots=True)
class WindowChoices:
    """The decisions that hold for one request.

    `listed` are the keys of documents and project pictures that are not included, also for lack of a decision;
    `undecided`: there are such. `boundary` is the last step whose results are stubs, `emptied` the last one in which
    even kept results are stubs. `extracted` are the steps whose stubs have extracts.
    """

    listed: frozenset[str]
    cuts: frozenset[ResultCut]
    boundary: str | None
    undecided: bool
    emptied: str | None = None
    extracted: frozenset[str] = frozenset()


def choices_of(context: ContextInput, *, project_is_fixed: bool) -> WindowChoices:
    """The decisions for `context`. Undecided files stay out of the window for now.

    The files of a project that moves with the turn are included or listed together. Its instructions are always
    included.
    """
    known = KnownDecisions(context.model.name, context.decisions)
    listed = {key_of(a) for a in documents_of(context) if known.of_document(a) != INCLUDED}
    undecided = any(known.of_document(a) is None for a in documents_of(context, project=project_is_fixed))
    project, held = context.project, project_content(context)
    if project is not None and held and not project_is_fixed:
        outcome = known.of_project(project)
        undecided = undecided or outcome is None
        if outcome == INCLUDED:
            listed -= {key_of(file) for file in held if known.of_document(file) is None}
        else:
            listed |= {key_of(file) for file in held}
    path = (*context.history, context.turn)
    boundary, emptied, extracted = known.boundary(path), known.emptied(path), known.extracted(path)
    return WindowChoices(frozenset(listed), known.cuts, boundary, undecided, emptied, extracted)


def documents_of(context: ContextInput, *, project: bool = True) -> list[Attachment]:
    """All documents with content that may be listed instead, oldest first, those of the project last.

    Pictures of a message are always included.
    """
    turns = (*context.history, context.turn)
    found = [a for turn in turns for a in turn.user.attachments if a.text is not None]
    return [*found, *project_content(context)] if project else found


def project_content(context: ContextInput) -> list[Attachment]:
    """The files of the project that have a text, or a picture that the model sees."""
    files = context.project.files if context.project is not None else ()
    return [file for file in files if has_content(file, context.model)]


class KnownDecisions:
    """The decisions about the windows of one model."""

    def __init__(self, model: str, decisions: Sequence[Decision]) -> None:
        self._model = model
        self._outcomes = {(d.kind, d.subject): d.outcome for d in decisions}
        prunes = [d for d in decisions if d.kind is DecisionKind.PRUNE]
        self._prunes = [d.outcome for d in prunes]
        self._emptied = [d.outcome for d in prunes if d.numbers.get(ALL)]
        self._extracting = [(d.outcome, bool(d.numbers.get(EXTRACTS))) for d in prunes]
        left = [d for d in decisions if d.kind is DecisionKind.LEFT_OUT and d.subject == model]
        self._left_out = left[-1] if left else None
        self.cuts = frozenset(_cuts(model, self._outcomes)) if self._outcomes else frozenset()

    def of_document(self, attachment: Attachment) -> str | None:
        """Whether a document is included or listed."""
        return self._outcomes.get((DecisionKind.ADMISSION, subject_of(key_of(attachment), self._model)))

    def of_project(self, project: Project) -> str | None:
        """Whether the files of a moving project are included or listed at its current revision. An edited project is
        decided again.
        """
        return self._outcomes.get((DecisionKind.PROJECT, subject_of(revision_of(project), self._model)))

    def boundary(self, turns: Sequence[Turn]) -> str | None:
        """The step of these turns up to which results are stubs: the newest boundary that lies among them."""
        return _newest(self._prunes, turns)

    def left_out(self, turns: Sequence[Turn], summaries: Sequence[Summary]) -> LeftOut | None:
        """What left the window, of these turns and summaries. Returns None if nothing did, or a session began since."""
        left = self._left_out
        if left is None:
            return None
        ids = [turn.id for turn in turns]
        if left.outcome not in ids and left.outcome not in {summary.id for summary in summaries}:
            return None
        count = ids.index(left.outcome) + 1 if left.outcome in ids else 0
        gone = min(int(left.numbers.get("summaries", 0)), len(summaries))
        return LeftOut(count, gone, int(left.numbers.get("budget", 0)))

    def in_window(
        self, turns: Sequence[Turn], summaries: Sequence[Summary]
    ) -> tuple[Sequence[Turn], Sequence[Summary]]:
        """The turns and summaries that did not leave the window."""
        left = self.left_out(turns, summaries)
        return (turns, summaries) if left is None else (turns[left.turns :], summaries[left.summaries :])

    def emptied(self, turns: Sequence[Turn]) -> str | None:
        """The step up to which even kept results are stubs."""
        return _newest(self._emptied, turns)

    def extracted(self, turns: Sequence[Turn]) -> frozenset[str]:
        """The steps of these turns whose stubs keep extracts: the decision that first made them stubs says so."""
        if not any(keeps for _, keeps in self._extracting):
            return frozenset()
        ids = [step.id for turn in turns for step in turn.steps]
        places = {id: place for place, id in enumerate(ids, start=1)}
        found: set[str] = set()
        done = 0
        for boundary, keeps in self._extracting:
            end = max(done, places.get(boundary, 0))
            found |= set(ids[done:end]) if keeps else set()
            done = end
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The number of the oldest turns and summaries that left the window when its budget was `budget`."""

    turns: int
    summaries: int
    budget: int


LEFT_OUT = "left-out"
"""The id of the segment that says what left."""


def shortened(context: ContextInput) -> ContextInput:
    """The context without what left the window; a line after the summaries says so."""
    left = KnownDecisions(context.model.name, context.decisions).left_out(context.history, context.summaries)
    if left is None or context.keeps_turns:
        return context
    history, summaries = context.history[left.turns :], context.summaries[left.summaries :]
    text = _left_out_line(context.history[: left.turns], left.summaries)
    return replace(context, history=history, summaries=(*summaries, Summary(LEFT_OUT, text, count_tokens(text))))


def back_again(
    model: str, decisions: Sequence[Decision], turns: Sequence[Turn], summaries: Sequence[Summary], most: int
) -> tuple[Decision, ...]:
    """The decision to show again what left, if a window may now have more tokens (`most`) than then.

    If there is still no room, another decision removes it again.
    """
    left = KnownDecisions(model, decisions).left_out(turns, summaries)
    if left is None or most <= left.budget:
        return ()
    why = f"the window of {model} has {most} tokens now: what was left out of it at {left.budget} is shown again"
    first = summaries[0].id if left.summaries else LEFT_OUT
    return (Decision(DecisionKind.LEFT_OUT, model, "", "engine", why, {"budget": most}, first_changed=first),)


def _left_out_line(turns: Sequence[Turn], summaries: int) -> str:
    gone = [f"the oldest {len(turns)} messages, with their answers"] if len(turns) > 1 else []
    gone += ["the oldest message, with its answer"] if len(turns) == 1 else []
    gone += [f"{summaries} of the oldest summaries"] if summaries else []
    until = f" The last of them was sent on {turns[-1].user.sent_at:%Y-%m-%d}." if turns else ""
    return f"Left out here for want of room: {' and '.join(gone)}.{until} A search over this conversation finds them."


def _newest(boundaries: Sequence[str], turns: Sequence[Turn]) -> str | None:
    if not boundaries:
        return None
    ids = {step.id for turn in turns for step in turn.steps}
    return next((boundary for boundary in reversed(boundaries) if boundary in ids), None)


def _cuts(model: str, outcomes: dict[tuple[DecisionKind, str], str]) -> list[ResultCut]:
    made = []
    for (kind, subject), outcome in outcomes.items():
        call_id, _, of_model = subject.rpartition("@")
        if kind is DecisionKind.CUT and of_model == model:
            head, _, tail = outcome.partition(":")
            made.append(ResultCut(call_id, int(head), int(tail)))
    return made


def most_of(context: ContextInput) -> int:
    """The tokens that a window may have: its budget, or the limit that was learned if that is less."""
    return min(context.budget, context.limit) if context.limit is not None else context.budget


def usable(context: ContextInput) -> int:
    """The local tokens that a window may have: the most less the margin, in the counter's own unit."""
    return int(most_of(context) / (1 + context.margin) / context.calibration)


def is_readable(context: ContextInput, layout: Layout) -> bool:
    """Whether a cut result names the id by which the model can read it again."""
    return layout.names_ids and can_be_read(context.tools)


def pruned_steps(path: tuple[Turn, ...], boundary: str | None) -> frozenset[str]:
    """The ids of the steps up to the prune boundary on this path; empty if the boundary is on another path."""
    if boundary is None:
        return frozenset()
    ids = [step.id for turn in path for step in turn.steps]
    return frozenset(ids[: ids.index(boundary) + 1]) if boundary in ids else frozenset()


MOST_PICTURE_BYTES = 18_000_000
"""The most bytes of pictures in a request before those of a project are left out. Base64 adds a third, and providers
accept 32 MB.
"""


def admit(context: ContextInput, room: int, *, project_is_fixed: bool) -> tuple[Decision, ...]:
    """Include what fits: this turn's files, then the project, then older files, newest first.

    `room` are the local tokens that are free without new files. Earlier decisions hold. A project that moves with the
    turn is included whole or listed whole; a fixed one is included file by file while they fit. Its instructions and
    the list of files are already in the window.
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
    """One pass over the documents: the remaining room and the decisions so far."""

    def __init__(self, context: ContextInput, room: int) -> None:
        self._model = context.model
        self._known = KnownDecisions(self._model.name, context.decisions)
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
        """Decide whether the project's files are included or listed."""
        if not held or self._known.of_project(project) is not None:
            return
        about, lacks, numbers = f"the project “{project.name}”", *self._take(held)
        way = "its instructions stay, and its files are listed: they can be searched, and read piece by piece"
        why = f"{about} {lacks}; {way}" if lacks else f"{about} fits the window of {self._model.name}"
        self._record(DecisionKind.PROJECT, revision_of(project), LISTED if lacks else INCLUDED, why, numbers)

    def _take(self, wanted: Sequence[Attachment]) -> tuple[str, Mapping[str, float]]:
        """Use room if there is enough. Returns the reason for refusing, or "", and the numbers of the decision."""
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
