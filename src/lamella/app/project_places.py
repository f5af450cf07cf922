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
from lamella.context.documents import has_content, key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import Project
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
from lamella.core.messages import Attachment, Image, Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, ToolSpec
from lamella.core.records import File, StoredProject

QUESTION = "?"
NO_TEXT = "it has no text that could be read"


class Place(StrEnum):
    """Where a file is."""

    IN_CONTEXT = "in_context"
    SEARCHED = "searched"
    LEFT_OUT = "left_out"
    """It has no text, or it is a picture that the model does not see or that does not fit."""


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
    held = [_sized(file, number) for number, file in enumerate(project.files, start=1)]
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
    return {one.file_id: _place(one, window.model, decisions) for one in held}


def _sized(file: File, number: int) -> Attachment:
    """A file without its content: only sizes decide, and they are known already."""
    image = None
    if file.width is not None and file.height is not None:
        image = Image(file.id, file.media_type, file.width, file.height, "", b"")
    text = "" if file.status == "ready" and image is None else None
    return Attachment(file.id, number, file.name, file.media_type, file.size, file.tokens, text, image=image)


def _place(file: Attachment, model: ModelFacts, decisions: Sequence[Decision]) -> FilePlace:
    if file.image is not None and model.images is None:
        return FilePlace(Place.LEFT_OUT, f"{model.name} sees no pictures")
    if not has_content(file, model):
        return FilePlace(Place.LEFT_OUT, NO_TEXT)
    about = subject_of(key_of(file), model.name)
    found = [d for d in decisions if d.kind is DecisionKind.PROJECT or d.subject == about]
    if not found:
        return FilePlace(Place.IN_CONTEXT, f"“{file.title}” fits the window of {model.name}")
    if found[-1].outcome == INCLUDED:
        return FilePlace(Place.IN_CONTEXT, found[-1].why)
    return FilePlace(Place.SEARCHED if file.image is None else Place.LEFT_OUT, found[-1].why)
