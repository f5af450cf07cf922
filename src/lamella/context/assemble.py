"""`assemble`: the window of one request, as a pure function of stored data (SPEC X-PURE, DESIGN 3).

ContextInput ──admit──▶ which files are included ──render by the layout's slots──▶ segments ──▶ Prompt
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.context.admission import MARGIN, Admission, admit
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.render import (
    RenderedTurn,
    Renderer,
    Standing,
    system_segment,
    tools_segment,
)
from lamella.core.decisions import Decision
from lamella.core.errors import ContextLengthExceeded
from lamella.core.json import digest
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Prompt, Report, Segment, SegmentNote, Zone


@dataclass(frozen=True, slots=True)
class Assembled:
    """A window with the reasons for it. `decisions` are new: store them before the request is sent.

    `rendered` is what a later assembly of the same line may reuse; it never changes what comes out.
    """

    prompt: Prompt
    report: Report
    decisions: tuple[Decision, ...]
    layout: Layout
    model: ModelFacts
    rendered: tuple[RenderedTurn, ...]


def assemble(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """The window of `context` in `layout`.

    Raises `ContextLengthExceeded` when it does not fit although every file is only listed that may be. `previous`, an
    earlier assembly, saves work and changes nothing.
    """
    admission = admit(context)
    fixed = _fixed(context, layout)
    rendered = _turns(context, layout, admission, _standing(fixed), previous)
    trailing, after = _trailing(context, layout, rendered[-1].after)
    segments = (*fixed, *(segment for turn in rendered for segment in turn.segments), *trailing)
    local = sum(segment.tokens for segment in segments)
    estimate = round(local * context.calibration)
    _must_fit(estimate, context)
    return Assembled(
        prompt=Prompt(context.model.name, segments, context.sampling),
        report=Report(
            local=local,
            estimate=estimate,
            budget=context.budget,
            durable=after.durable,
            notes=_notes(context, admission),
        ),
        decisions=admission.decisions,
        layout=layout,
        model=context.model,
        rendered=rendered,
    )


def _fixed(context: ContextInput, layout: Layout) -> tuple[Segment, ...]:
    segments = []
    for slot in layout.of_zone(Zone.FIXED):
        match slot.kind:
            case Kind.TOOLS if context.tools:
                segments.append(tools_segment(context.tools))
            case Kind.SYSTEM if context.system.strip():
                segments.append(system_segment(context.system))
            case _:
                pass
    return tuple(segments)


def _standing(fixed: Sequence[Segment]) -> Standing:
    standing = Standing(digest())
    for segment in fixed:
        standing = standing.behind(segment)
    return standing


def _turns(
    context: ContextInput, layout: Layout, admission: Admission, start: Standing, previous: Assembled | None
) -> tuple[RenderedTurn, ...]:
    renderer = Renderer(layout, context.model)
    known = previous.rendered if previous and (previous.layout, previous.model) == (layout, context.model) else ()
    rendered: list[RenderedTurn] = []
    standing = start
    for index, turn in enumerate(context.history):
        old = known[index] if index < len(known) else None
        if old is None or not _same(old, turn, admission, standing):
            old = renderer.turn(turn, index + 1, admission.listed, standing, Zone.HISTORY)
        rendered.append(old)
        standing = old.after
    number = len(context.history) + 1
    rendered.append(renderer.turn(context.turn, number, admission.listed, standing, Zone.TURN))
    return tuple(rendered)


def _same(old: RenderedTurn, turn: Turn, admission: Admission, standing: Standing) -> bool:
    return (
        old.before == standing
        and old.turn == turn
        and all(segment.zone is Zone.HISTORY for segment in old.segments)
        and old.listed == frozenset(a.file_id for a in turn.user.attachments) & admission.listed
    )


def _trailing(context: ContextInput, layout: Layout, standing: Standing) -> tuple[tuple[Segment, ...], Standing]:
    """What stands behind the steps: the reminder, travelling with the end or kept where it is first sent."""
    slots = layout.of_zone(Zone.TRAILING)
    if not context.reminder or not any(slot.kind is Kind.REMINDER for slot in slots):
        return (), standing
    return Renderer(layout, context.model).trailing_reminder(context.turn, context.reminder, standing)


def _must_fit(estimate: int, context: ContextInput) -> None:
    if estimate * (1 + MARGIN) <= context.budget:
        return
    message = f"This request has about {estimate:,} tokens; {context.model.name} takes {context.budget:,} here."
    if context.history and context.turn.user.tokens * 2 < context.budget:
        hint = "Start a new conversation, or choose a model with a larger window."
    else:
        hint = "Shorten the message, or attach the text as a file: a file too large for the window is read in pieces."
    raise ContextLengthExceeded(message, hint=hint, param="text")


def _notes(context: ContextInput, admission: Admission) -> tuple[SegmentNote, ...]:
    return tuple(
        SegmentNote(f"{turn.id}/files", f"“{attachment.title}” is listed, not included")
        for turn in (*context.history, context.turn)
        for attachment in turn.user.attachments
        if attachment.file_id in admission.listed
    )


def letters(segments: Sequence[Segment]) -> str:
    """The window in the letters of SPEC.md, as sent: `S F U1 TC TR R`."""
    return " ".join(segment.letters for segment in segments if segment.letters)
