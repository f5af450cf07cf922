"""`assemble`: the window of one request, as a pure function of stored data (SPEC X-PURE, DESIGN 3).

ContextInput ──render by the layout's slots──▶ segments ──admit the files that fit, render again──▶ Prompt
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lamella.context.admission import NOTHING_NEW, Admission, admit, usable
from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout, Slot
from lamella.context.render import RenderedTurn, Renderer, Standing, View, pruned_steps
from lamella.context.segments import (
    agent_segment,
    dynamic_segment,
    project_segment,
    sections_segment,
    summary_segment,
    system_segment,
    tools_segment,
)
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
from lamella.core.json import digest
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, Prompt, Report, Role, Sampling, Segment, SegmentNote, Zone


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
    known = previous.rendered if previous and (previous.layout, previous.model) == (layout, context.model) else ()
    admission = admit(context, layout, NOTHING_NEW)
    window = _window(context, layout, admission, known)
    _must_fit(window.local, context)
    if admission.decisions:
        admission = admit(context, layout, usable(context) - window.local)
        window = _window(context, layout, admission, window.rendered)
    return Assembled(
        prompt=Prompt(context.model.name, window.segments, _sampling(context, layout)),
        report=Report(
            local=window.local,
            estimate=int(window.local * context.calibration),
            budget=context.budget,
            durable=window.durable,
            notes=_notes(context, admission),
        ),
        decisions=admission.decisions,
        layout=layout,
        model=context.model,
        rendered=window.rendered,
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """All segments in order; `local` are their tokens, `durable` is the fingerprint of what stays."""

    segments: tuple[Segment, ...]
    rendered: tuple[RenderedTurn, ...]
    local: int
    durable: str


def _window(context: ContextInput, layout: Layout, admission: Admission, known: tuple[RenderedTurn, ...]) -> _Window:
    """The window with the files that are admitted; `known` are turns as they were rendered before."""
    fixed = _fixed(context, layout, admission)
    rendered = _turns(context, layout, admission, _standing(fixed), known)
    trailing, after = _trailing(context, layout, rendered[-1].after)
    segments = (*fixed, *(segment for turn in rendered for segment in turn.segments), *trailing)
    return _Window(segments, rendered, sum(segment.tokens for segment in segments), after.durable)


def _sampling(context: ContextInput, layout: Layout) -> Sampling:
    """Where a layout takes away what a model may have thought of, the provider is asked to drop that thinking."""
    return replace(context.sampling, drop_unbound_thinking=context.model.binds_thinking and layout.moves)


def _fixed(context: ContextInput, layout: Layout, admission: Admission) -> tuple[Segment, ...]:
    made: list[Segment | None] = []
    for slot in layout.of_zone(Zone.FIXED):
        match slot.kind:
            case Kind.TOOLS:
                made.append(tools_segment(context.tools) if context.tools else None)
            case Kind.SYSTEM:
                text = _system_text(context)
                made.append(system_segment(text) if text.strip() else None)
            case Kind.SECTIONS:
                sections = sections_segment(
                    context.turn, context.tools, searched=context.searched, lifetime=slot.lifetime
                )
                made.append(sections)
            case Kind.SUMMARY:
                made += [summary_segment(summary) for summary in context.summaries]
            case _:
                made.append(_placed(slot, context, admission, "system"))
    return tuple(segment for segment in made if segment is not None)


def _system_text(context: ContextInput) -> str:
    """The system prompt, or the prompt of the agent that replaces it (SPEC O2)."""
    agent = context.agent
    return agent.prompt if agent is not None and agent.replaces_system else context.system


def _placed(slot: Slot, context: ContextInput, admission: Admission, agent_role: Role) -> Segment | None:
    """Agent, project or dynamic context, where the layout has them stand as one segment of the request."""
    match slot.kind:
        case Kind.AGENT if context.agent is not None and not context.agent.replaces_system:
            return agent_segment(context.agent, agent_role, slot.zone, slot.lifetime)
        case Kind.PROJECT if context.project is not None and not admission.project_absent:
            return project_segment(context.project, admission.listed, slot.zone, slot.lifetime)
        case Kind.DYNAMIC if context.turn.user.dynamic:
            return dynamic_segment(context.turn, slot.zone, slot.lifetime)
        case _:
            return None


def _standing(fixed: Sequence[Segment]) -> Standing:
    """What thinking is made after: of the fixed zone, what stays for the session."""
    standing = Standing(digest())
    for segment in fixed:
        if segment.lifetime is Lifetime.SESSION:
            standing = standing.behind(segment)
    return standing


def _turns(
    context: ContextInput,
    layout: Layout,
    admission: Admission,
    start: Standing,
    known: tuple[RenderedTurn, ...],
) -> tuple[RenderedTurn, ...]:
    renderer = Renderer(layout, context.model)
    view = View(admission.listed, pruned_steps(context.history, _boundary(context)))
    rendered: list[RenderedTurn] = []
    standing = start
    for index, turn in enumerate(context.history):
        old = known[index] if index < len(known) else None
        if old is None or not _same(old, turn, view, standing):
            old = renderer.turn(turn, index + 1, view, standing, Zone.HISTORY)
        rendered.append(old)
        standing = old.after
    moving = _moving(context, layout, admission)
    number = len(context.history) + 1
    rendered.append(renderer.turn(context.turn, number, view, standing, Zone.TURN, moving))
    return tuple(rendered)


def _moving(context: ContextInput, layout: Layout, admission: Admission) -> Mapping[Kind, Segment]:
    """What travels with the running turn."""
    placed = {slot.kind: _placed(slot, context, admission, "user") for slot in layout.of_zone(Zone.TRAVELLING)}
    return {kind: segment for kind, segment in placed.items() if segment is not None}


def _boundary(context: ContextInput) -> str | None:
    """The newest prune boundary."""
    boundaries = [d.outcome for d in context.decisions if d.kind is DecisionKind.PRUNE]
    return boundaries[-1] if boundaries else None


def _same(old: RenderedTurn, turn: Turn, view: View, standing: Standing) -> bool:
    return (
        old.zone is Zone.HISTORY
        and (old.before is standing or old.before == standing)
        and (old.turn is turn or old.turn == turn)
        and old.view == view.of(turn)
    )


def _trailing(context: ContextInput, layout: Layout, standing: Standing) -> tuple[tuple[Segment, ...], Standing]:
    """What stands behind the steps: the reminder, travelling with the end or kept where it is first sent."""
    slots = layout.of_zone(Zone.TRAILING)
    if not context.reminder or not any(slot.kind is Kind.REMINDER for slot in slots):
        return (), standing
    return Renderer(layout, context.model).trailing_reminder(context.turn, context.reminder, standing)


def _must_fit(local: int, context: ContextInput) -> None:
    if local <= usable(context):
        return
    estimate = int(local * context.calibration)
    message = f"This request has about {estimate:,} tokens; {context.model.name} takes {context.budget:,} here."
    if context.history and context.turn.user.tokens * 2 < context.budget:
        hint = "Start a new conversation, or choose a model with a larger window."
    else:
        hint = "Shorten the message, or attach the text as a file: a file too large for the window is read in pieces."
    raise ContextLengthExceeded(message, hint=hint, param="text")


def _notes(context: ContextInput, admission: Admission) -> tuple[SegmentNote, ...]:
    """Why something is not there."""
    notes = [
        SegmentNote(f"{turn.id}/files", f"“{attachment.title}” is listed, not included")
        for turn in (*context.history, context.turn)
        for attachment in turn.user.attachments
        if key_of(attachment) in admission.listed
    ]
    project = context.project
    if project is not None and admission.project_absent:
        notes.append(SegmentNote(project.id, f"the project “{project.name}” does not fit and is not included"))
    elif project is not None:
        listed = [file for file in project.files if key_of(file) in admission.listed]
        notes += [SegmentNote(project.id, f"“{file.title}” is listed, not included") for file in listed]
    return tuple(notes)


def letters(segments: Sequence[Segment]) -> str:
    """The window in the letters of SPEC.md, as sent: `S F U1 TC TR R`."""
    return " ".join(segment.letters for segment in segments if segment.letters)
