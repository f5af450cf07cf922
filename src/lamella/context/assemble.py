"""`assemble`: the window of one request, as a pure function of stored data.

ContextInput ──render by the layout's slots──▶ segments ──too large? give way (fit)──▶ admit what is new ──▶ Prompt
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from lamella.context.choices import WindowChoices, admit, choices_of, is_readable, pruned_steps, shortened, usable
from lamella.context.documents import key_of
from lamella.context.fit import STAGES, leave_out, need_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout, Slot
from lamella.context.render import PrefixState, RenderedTurn, Renderer, RenderView, unseen
from lamella.context.results import kept_names
from lamella.context.segments import (
    SegmentPlace,
    agent_segment,
    dynamic_id,
    dynamic_segment,
    project_segment,
    sections_segment,
    summary_segment,
    system_segment,
    tools_segment,
)
from lamella.context.system_prompt import StepView, without_citations
from lamella.core.decisions import Decision
from lamella.core.errors import ConfigurationError, ContextLengthExceeded
from lamella.core.json import digest
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import AbsentSegment, Kind, Lifetime, Prompt, Report, Sampling, Segment, SegmentNote, Zone


@dataclass(frozen=True, slots=True)
class Assembled:
    """A window and the reasons for it. `decisions` are new: store them before sending the request.

    `rendered` can be reused by a later assembly of the same conversation; it saves work and never changes the result.
    """

    prompt: Prompt
    report: Report
    decisions: tuple[Decision, ...]
    layout: Layout
    model: ModelFacts
    rendered: tuple[RenderedTurn, ...]


def assemble(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """Assembles the window of `context` in `layout`.

    Raises `ContextLengthExceeded` if it does not fit even after everything gave way, `NeedsCompaction` if a compaction
    would make it fit. `previous`, an earlier assembly, saves work and does not change the result.
    """
    layout = layout.for_model(context.model)
    known = previous.rendered if previous and (previous.layout, previous.model) == (layout, context.model) else ()
    work = _Work(context, layout, known)
    work.give_way()
    work.admit()
    return work.assembled()


class _Work:
    """One assembly. Each decision is an input of the next rendering."""

    def __init__(self, context: ContextInput, layout: Layout, known: tuple[RenderedTurn, ...]) -> None:
        self._whole = context
        self._context = shortened(context)
        self._layout = layout
        self._decided: tuple[Decision, ...] = ()
        self._project_is_fixed = layout.is_fixed(Kind.PROJECT)
        self._render(known)

    def _render(self, known: tuple[RenderedTurn, ...]) -> None:
        self._choices = choices_of(self._context, project_is_fixed=self._project_is_fixed)
        self._window = _window(self._context, self._layout, self._choices, known)

    def _decide(self, decisions: tuple[Decision, ...]) -> None:
        if decisions:
            self._decided += decisions
            self._whole = replace(self._whole, decisions=self._whole.decisions + decisions)
            self._context = shortened(self._whole)
            self._render(self._window.rendered)

    def give_way(self) -> None:
        """Rule *fit*: apply the stages in order until the window fits. Documents without a decision are not in it
        yet.
        """
        for stage in STAGES:
            need = need_of(self._context, self._window.local)
            if need.total <= 0:
                return
            self._decide(stage(self._context, self._layout, need))
        over = self._window.local - usable(self._context)
        if over > 0 and not self._context.keeps_turns:
            self._decide(
                leave_out(self._whole, self._window.rendered[:-1], over, behind_summaries=self._turns_follow())
            )
        if self._window.local > self._most():
            raise _too_long(self._context, self._window)

    def _turns_follow(self) -> bool:
        """Whether the turns follow directly after the summaries, without a fixed slot between them."""
        fixed = [slot.kind for slot in self._layout.of_zone(Zone.FIXED)]
        return not fixed or fixed[-1] is Kind.SUMMARY or Kind.SUMMARY not in fixed

    def _most(self) -> int:
        """The local tokens above which a window is refused here, before the provider could.

        A learned limit refuses nothing, and an estimate refuses only what must be too large. The user's new text is
        compared with the plain estimate, so a text that is far too long is refused before it is stored.
        """
        context, running = self._context, self._window.rendered[-1].segments
        if context.keeps_turns:
            return usable(context)  # there is another way to ask for a summary
        most = context.budget / (1 + context.margin) / context.calibration
        doubt = 1 + context.doubt if sum(segment.tokens for segment in running) * 2 <= most else 1.0
        return int(most * doubt)

    def admit(self) -> None:
        """Include new files and pictures while there is room."""
        if self._choices.undecided:
            room = usable(self._context) - self._window.local
            self._decide(admit(self._context, room, project_is_fixed=self._project_is_fixed))

    def assembled(self) -> Assembled:
        """The result."""
        context, window = self._context, self._window
        _must_differ(window.segments)
        present = {segment.kind for segment in window.segments}
        return Assembled(
            prompt=Prompt(context.model.name, window.segments, _sampling(context, self._layout, self._choices)),
            report=Report(
                local=window.local,
                estimate=int(window.local * context.calibration),
                budget=context.budget,
                durable=window.durable,
                notes=tuple(_notes(context, self._choices, window)),
                absent=tuple(absences(context, self._layout, present)),
            ),
            decisions=self._decided,
            layout=self._layout,
            model=context.model,
            rendered=window.rendered,
        )


def _must_differ(segments: Sequence[Segment]) -> None:
    """The ids of segments must be unique."""
    seen: set[str] = set()
    for segment in segments:
        if segment.id in seen:
            raise ConfigurationError(
                f"Two segments of a window are named “{segment.id}”; one is {segment.label}.",
                hint="Give agents, projects, summaries and turns ids of their own.",
                param=segment.id,
            )
        seen.add(segment.id)


@dataclass(frozen=True, slots=True)
class _Window:
    """All segments in order. `local` is their tokens, `durable` the fingerprint of what stays."""

    segments: tuple[Segment, ...]
    rendered: tuple[RenderedTurn, ...]
    local: int
    durable: str


def _window(context: ContextInput, layout: Layout, choices: WindowChoices, known: tuple[RenderedTurn, ...]) -> _Window:
    """The window by the decisions so far. `known` are turns rendered before."""
    fixed = _fixed(context, layout, choices)
    rendered = _turns(context, layout, choices, _standing(fixed), known)
    trailing, after = _trailing(context, layout, rendered[-1])
    segments = (*fixed, *(segment for turn in rendered for segment in turn.segments), *trailing)
    return _Window(segments, rendered, sum(segment.tokens for segment in segments), after.durable)


def _sampling(context: ContextInput, layout: Layout, choices: WindowChoices) -> Sampling:
    """If a layout removes something that the model may have thought about, the provider is asked to drop that
    thinking.
    """
    return replace(
        context.sampling,
        drop_unbound_thinking=context.model.binds_thinking and layout.moves,
        images=context.model.images is not None and _has_pictures(context, choices),
    )


def _has_pictures(context: ContextInput, choices: WindowChoices) -> bool:
    """Whether there are pictures in the window."""
    turns, files = (*context.history, context.turn), context.project.files if context.project is not None else ()
    if any(file.image is not None and key_of(file) not in choices.listed for file in files):
        return True
    return any(turn.user.images for turn in turns if turn.user.attachments)


def _fixed(context: ContextInput, layout: Layout, choices: WindowChoices) -> tuple[Segment, ...]:
    made: list[Segment | None] = []
    for slot in layout.of_zone(Zone.FIXED):
        match slot.kind:
            case Kind.TOOLS:
                made.append(tools_segment(context.tools, context.model) if _callable_tools(context, layout) else None)
            case Kind.SYSTEM:
                text = _system_text(context, layout)
                made.append(system_segment(text) if text.strip() else None)
            case Kind.SECTIONS if not context.agent_replaces_system:
                tools = context.tools if _callable_tools(context, layout) else ()
                view = StepView(context.turn.user.sent_at, tools, context.searched)
                made.append(sections_segment(view, slot.lifetime))
            case Kind.SUMMARY:
                made += [summary_segment(summary) for summary in context.summaries]
            case _:
                made.append(_placed(slot, context, choices))
    return tuple(segment for segment in made if segment is not None)


def _callable_tools(context: ContextInput, layout: Layout) -> bool:
    return bool(context.tools) and not (context.last_step and layout.drops_tools_at_end)


def _system_text(context: ContextInput, layout: Layout) -> str:
    """The system prompt, or the prompt of the agent that replaces it.

    A layout that writes sections for each step writes the one about citations there, and only after a search (O1).
    """
    if context.agent is not None and context.agent_replaces_system:
        return context.agent.prompt
    return without_citations(context.system) if layout.is_fixed(Kind.SECTIONS) else context.system


def _placed(slot: Slot, context: ContextInput, choices: WindowChoices) -> Segment | None:
    """Agent, project or dynamic context as one segment, if the layout has a slot for it."""
    place = SegmentPlace(slot.zone, slot.lifetime)
    match slot.kind:
        case Kind.AGENT if context.agent is not None and not context.agent.replaces_system:
            return agent_segment(context.agent, place) if context.agent.prompt.strip() else None
        case Kind.PROJECT if context.project is not None:
            return project_segment(context.project, choices.listed, place, context.model)
        case Kind.DYNAMIC if context.turn.user.dynamic:
            return dynamic_segment(context.turn, place)
        case _:
            return None


def _standing(fixed: Sequence[Segment]) -> PrefixState:
    """The state that thinking depends on: the parts of the fixed zone that stay for the session."""
    standing = PrefixState(digest())
    for segment in fixed:
        if segment.lifetime is Lifetime.SESSION:
            standing = standing.behind(segment)
    return standing


def _turns(
    context: ContextInput,
    layout: Layout,
    choices: WindowChoices,
    start: PrefixState,
    known: tuple[RenderedTurn, ...],
) -> tuple[RenderedTurn, ...]:
    renderer = Renderer(layout, context.model)
    path = (*context.history, context.turn)
    pruned, emptied = pruned_steps(path, choices.boundary), pruned_steps(path, choices.emptied)
    readable = is_readable(context, layout)
    extracted = choices.extracted if layout.keeps_extracts else frozenset()
    view = RenderView(choices.listed, pruned, choices.cuts, kept_names(context.tools), emptied, readable, extracted)
    rendered: list[RenderedTurn] = []
    standing = start
    for index, turn in enumerate(context.history):
        old = known[index] if index < len(known) else None
        if old is None or not _same(old, turn, view, standing):
            old = renderer.turn(turn, index + 1, view, standing, Zone.HISTORY)
        rendered.append(old)
        standing = old.after
    moving = _moving(context, layout, choices)
    number = len(context.history) + 1
    rendered.append(renderer.turn(context.turn, number, view, standing, Zone.TURN, moving))
    return tuple(rendered)


def _moving(context: ContextInput, layout: Layout, choices: WindowChoices) -> Mapping[Kind, Segment]:
    """The segments that move with the running turn."""
    placed = {slot.kind: _placed(slot, context, choices) for slot in layout.of_zone(Zone.TRAVELLING)}
    return {kind: segment for kind, segment in placed.items() if segment is not None}


def _same(old: RenderedTurn, turn: Turn, view: RenderView, prefix: PrefixState) -> bool:
    return (
        old.zone is Zone.HISTORY
        and (old.before is prefix or old.before == prefix)
        and (old.turn is turn or old.turn == turn)
        and old.view == view.of(turn)
    )


def _trailing(context: ContextInput, layout: Layout, running: RenderedTurn) -> tuple[tuple[Segment, ...], PrefixState]:
    """The segments after the steps: dynamic context, if it comes last, and the reminder."""
    made: list[Segment] = []
    after = running.after
    for slot in layout.of_zone(Zone.TRAILING):
        if slot.kind is Kind.REMINDER and context.reminder:
            reminder, after = Renderer(layout, context.model).trailing_reminder(running, context.reminder)
            made += reminder
        elif slot.kind is Kind.DYNAMIC and context.turn.user.dynamic:
            made.append(dynamic_segment(context.turn, SegmentPlace(slot.zone, slot.lifetime)))
    return tuple(made), after


_ADVICE = {
    Kind.AGENT: ("agent_id", "Shorten the agent's prompt, or choose a model with a larger window."),
    Kind.SYSTEM: ("system_prompt", "Shorten the system prompt, or choose a model with a larger window."),
    Kind.TOOLS: ("tools", "Let the agent use fewer tools, or choose a model with a larger window."),
    Kind.PROJECT: ("project_id", "Take files out of the project, or choose a model with a larger window."),
    Kind.REMINDER: ("reminder", "Shorten the reminder, or choose a model with a larger window."),
    Kind.SUMMARY: ("", "Start a new conversation, or choose a model with a larger window."),
    Kind.DYNAMIC: ("dynamic_context", "Send less dynamic context, or choose a model with a larger window."),
    Kind.USER: ("text", "Shorten the message, or attach the text as a file: a file too large is read in pieces."),
}


def _too_long(context: ContextInput, window: _Window) -> ContextLengthExceeded:
    """The error that names what is too large: a part with more than half of the window, else the conversation."""
    estimate = int(window.local * context.calibration)
    message = f"This request has about {estimate:,} tokens; {context.model.name} takes {context.budget:,} here."
    last = f"{context.turn.id}/user"
    large = [s for s in window.segments if s.tokens * 2 > usable(context) and (s.kind is not Kind.USER or s.id == last)]
    for segment in large:
        kind, label = _called(segment, context)
        if kind in _ADVICE:
            param, hint = _ADVICE[kind]
            of_it = int(segment.tokens * context.calibration)
            return ContextLengthExceeded(f"{message} {label} has {of_it:,} of them.", hint=hint, param=param or None)
    done = sum(segment.tokens for segment in window.rendered[-1].segments if segment.kind is Kind.STEP)
    if done * 2 > usable(context):
        steps = f"{len(context.turn.steps)} steps of this answer have {int(done * context.calibration):,} of them."
        hint = "Ask for less at once, or in several messages, or choose a model with a larger window."
        return ContextLengthExceeded(f"{message} The {steps}", hint=hint)
    if context.history:
        hint = "Start a new conversation, or choose a model with a larger window."
    else:
        hint = _ADVICE[Kind.USER][1]
    return ContextLengthExceeded(message, hint=hint, param="text")


def _called(segment: Segment, context: ContextInput) -> tuple[Kind, str]:
    """A segment's kind and name for its author. For example, the system prompt may be an agent's."""
    agent = context.agent
    if segment.kind is Kind.SYSTEM and agent is not None and agent.replaces_system:
        return Kind.AGENT, f"Agent {agent.name}"
    return segment.kind, segment.label


def _notes(context: ContextInput, choices: WindowChoices, window: _Window) -> Iterator[SegmentNote]:
    """Notes on segments: listed, cut, left out or invisible to the model, and the reasons of dynamic context."""
    dynamic = {segment.id for segment in window.segments if segment.kind is Kind.DYNAMIC}
    for rendered in window.rendered:
        yield from rendered.notes
        name = dynamic_id(rendered.turn)
        if name in dynamic:
            yield from (SegmentNote(name, why) for why in rendered.turn.user.dynamic_whys)
    project = context.project
    for file in project.files if project is not None else ():
        assert project is not None
        if key_of(file) in choices.listed:
            yield SegmentNote(project.id, f"“{file.title}” is listed, not included")
        elif file.image is not None and context.model.images is None:
            yield SegmentNote(project.id, unseen(file, context.model))


def letters(segments: Sequence[Segment]) -> str:
    """The window in the letters of the seeds, as sent: `S F U1 TC TR R`."""
    return " ".join(segment.letters for segment in segments if segment.letters)


def absences(context: ContextInput, layout: Layout, present: Set[Kind]) -> Iterator[AbsentSegment]:
    """One reason for each kind of the layout's slots that no segment is of."""
    for slot in layout.slots:
        if slot.kind not in present:
            why = _absent_because(slot.kind, context, layout)
            if why:
                yield AbsentSegment(slot.kind, why)


def _absent_because(kind: Kind, context: ContextInput, layout: Layout) -> str:
    match kind:
        case Kind.TOOLS:
            if context.tools and context.last_step:
                return f"layout {layout.name} sends no tools with the last step"
            return "no tool can be called in this conversation"
        case Kind.SYSTEM:
            return "the system prompt is empty"
        case Kind.SECTIONS if context.agent is not None and context.agent_replaces_system:
            return f"the prompt of “{context.agent.name}” replaces the whole system prompt"
        case Kind.SECTIONS:
            return "no section applies to this step"
        case Kind.SUMMARY:
            return "there is no summary of an earlier session"
        case Kind.AGENT:
            return _no_agent(context)
        case Kind.PROJECT:
            return _no_project(context)
        case Kind.FILES:
            return "no file came with a message"
        case Kind.DYNAMIC:
            return "no dynamic context came with this message"
        case Kind.REMINDER:
            return "no reminder is due in this step, or it is in the window already"
        case Kind.USER | Kind.STEP:
            return ""


def _no_agent(context: ContextInput) -> str:
    if context.agent is None:
        return "no agent is chosen"
    if context.agent.replaces_system:
        return f"the prompt of “{context.agent.name}” replaces the system prompt"
    return f"the prompt of “{context.agent.name}” is empty"


def _no_project(context: ContextInput) -> str:
    if context.project is None:
        return "the conversation belongs to no project"
    return f"the project “{context.project.name}” is empty"
