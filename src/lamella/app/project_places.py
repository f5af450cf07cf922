"""Where the files of a project are for a model: whole in its context, or searched because they don't fit (SPEC O4).

Found by assembling the first request of a new conversation: what is shown is decided by what will decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from lamella.context.assemble import assemble
from lamella.context.choices import INCLUDED, subject_of
from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import Project
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
from lamella.core.messages import Attachment, Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, ToolSpec
from lamella.core.records import StoredProject

QUESTION = "?"
NO_TEXT = "it has no text that could be read"


class Place(StrEnum):
    """Where a file is."""

    IN_CONTEXT = "in_context"
    SEARCHED = "searched"
    LEFT_OUT = "left_out"
    """It has no text."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a file is, and why."""

    place: Place
    why: str


@dataclass(frozen=True, slots=True)
class Window:
    """What a new conversation begins with, beside the project."""

    model: ModelFacts
    budget: int
    layout: Layout
    system: str
    tools: tuple[ToolSpec, ...]


def placed(project: StoredProject, window: Window) -> dict[str, FilePlace]:
    """For each file, by its id, where it is in a conversation that begins now."""
    # Only the sizes of the texts decide: they are counted already and need not be read.
    held = [
        Attachment(f.id, number, f.name, f.media_type, f.size, f.tokens, "" if f.status == "ready" else None)
        for number, f in enumerate(project.files, start=1)
    ]
    moment = datetime(2000, 1, 1, tzinfo=UTC)
    message = UserMessage("message", QUESTION, moment, "UTC", count_tokens(QUESTION))
    context = ContextInput(
        model=window.model,
        budget=window.budget,
        sampling=Sampling(1),
        system=window.system,
        tools=window.tools,
        history=(),
        turn=Turn("turn", message),
        calibration=window.model.token_factor,
        project=Project(project.id, project.name, project.instructions, tuple(held), project.revision),
    )
    try:
        decisions = assemble(context, window.layout).decisions
    except ContextLengthExceeded as error:
        return {one.file_id: FilePlace(Place.SEARCHED, error.message) for one in held}
    return {one.file_id: _place(one, window.model.name, decisions) for one in held}


def _place(file: Attachment, model: str, decisions: Sequence[Decision]) -> FilePlace:
    if file.text is None:
        return FilePlace(Place.LEFT_OUT, NO_TEXT)
    about = subject_of(key_of(file), model)
    found = [d for d in decisions if d.kind is DecisionKind.PROJECT or d.subject == about]
    if not found:
        return FilePlace(Place.IN_CONTEXT, f"“{file.title}” fits the window of {model}")
    place = Place.IN_CONTEXT if found[-1].outcome == INCLUDED else Place.SEARCHED
    return FilePlace(place, found[-1].why)
