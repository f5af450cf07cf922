"""Deliberate mistakes: the code of the context core with one thing wrong, as pieces that `grow` is given (`Code`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count, pairwise

from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, plan
from lamella.cache.planner import Plan as MarkerPlan
from lamella.cache.window import Chain
from lamella.context.assemble import Assembled, assemble
from lamella.context.choices import LISTED, subject_of
from lamella.context.documents import key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout, Slot
from lamella.context.segments import content_digest
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded, NeedsCompaction
from lamella.core.messages import Image, Part, Reasoning, Step, Text, ToolCall, ToolResult
from lamella.core.prompt import Kind, Lifetime, Marker, PromptMessage, Segment, Ttl, WireBlock, Zone

from .growing import CODE, Assemble, Code, Grown, Wire
from .law_7 import law_7
from .laws import law_1, law_2, law_3, law_4, law_5, law_6
from .plans import Plan
from .wires import blocks_of

Edit = Callable[[Segment, ContextInput], Segment | None]


@dataclass(frozen=True)
class Mutation:
    """A mistake and the law that has to notice. `layout` changes the table that a conversation is laid out by."""

    what: str
    law: Callable[[Grown], None]
    code: Code = CODE
    layout: Callable[[Layout], Layout] | None = None
    where: Callable[[Plan], Plan] | None = None
    """In which conversations, where few would show it."""


def edited(edit: Edit) -> Code:
    """Code that changes segments behind the back of the assembly, and counts them as they are then."""

    def assemble_and_edit(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
        return with_segments(made := assemble(context, layout, None), (edit(s, context) for s in made.prompt.segments))

    return Code(assemble_and_edit)


def with_segments(made: Assembled, segments: Iterable[Segment | None]) -> Assembled:
    kept = tuple(replace(s, digest=s.digest if s.tools else content_digest(s.messages)) for s in segments if s)
    local = sum(segment.tokens for segment in kept)
    factor = made.report.estimate / max(made.report.local, 1)
    estimate = made.report.estimate if local == made.report.local else int(local * factor)
    report = replace(made.report, local=local, estimate=estimate)
    return replace(made, prompt=replace(made.prompt, segments=kept), report=report)


def with_parts(segment: Segment, change: Callable[[tuple[Part, ...]], tuple[Part, ...]]) -> Segment:
    messages = (PromptMessage(message.role, change(message.parts)) for message in segment.messages)
    return replace(segment, messages=tuple(message for message in messages if message.parts))


def of_text(segment: Segment, change: Callable[[str], str]) -> Segment:
    def changed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(Text(change(part.text)) if isinstance(part, Text) else part for part in parts)

    return with_parts(segment, changed)


def told(change: Callable[[ContextInput], ContextInput]) -> Code:
    """Code that assembles something else than what it was asked for."""

    def assemble_other(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
        return assemble(change(context), layout, None)

    return Code(assemble_other)


# Law 1


def unsorted_tools(segment: Segment, context: ContextInput) -> Segment:
    return replace(segment, tools=context.tools) if segment.kind is Kind.TOOLS else segment


def all_old_are_stubs(context: ContextInput) -> ContextInput:
    steps = [step for turn in context.history for step in turn.steps]
    if not steps:
        return context
    silent = Decision(DecisionKind.PRUNE, "conv", steps[-1].id, "engine", "nobody is told")
    return replace(context, decisions=(*context.decisions, silent))


def unnamed(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    return tuple(replace(decision, first_changed=None) for decision in decisions)


def silent_assembly(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    made = assemble(context, layout, previous)
    return replace(made, decisions=unnamed(made.decisions))


def effort_by_step(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    made = assemble(context, layout, previous)
    effort = "high" if context.turn.steps else "low"
    return replace(made, prompt=replace(made.prompt, sampling=replace(made.prompt.sampling, thinking_effort=effort)))


def in_front_of_files(layout: Layout, moving: Slot) -> Layout:
    """The layout with a kind above the files of the turn."""
    others = tuple(slot for slot in layout.slots if slot.kind is not moving.kind)
    place = next(index for index, slot in enumerate(others) if slot.kind is Kind.FILES)
    return replace(layout, slots=(*others[:place], moving, *others[place:]))


def travelling_agent(layout: Layout) -> Layout:
    """The agent above the question, as if it stood there for ever."""
    return in_front_of_files(layout, Slot(Kind.AGENT, Zone.TRAVELLING, Lifetime.SESSION))


def reminder_for_ever(segment: Segment, context: ContextInput) -> Segment:
    return replace(segment, lifetime=Lifetime.SESSION) if segment.id == "reminder" else segment


def dynamic_in_front(layout: Layout) -> Layout:
    """The dynamic context above the question, gone with the next turn, whatever stands behind it."""
    return in_front_of_files(layout, Slot(Kind.DYNAMIC, Zone.TRAVELLING, Lifetime.TURN))


# Law 2


def twice(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    made = assemble(context, layout, previous)
    return with_segments(made, (*made.prompt.segments, made.prompt.segments[-1]))


def sections_in_front(layout: Layout) -> Layout:
    others = tuple(slot for slot in layout.slots if slot.kind is not Kind.SECTIONS)
    sections = Slot(Kind.SECTIONS, Zone.FIXED, Lifetime.STEP)
    return replace(layout, slots=(*others[:2], sections, *others[2:]))


# Law 3


def by_the_clock() -> Assemble:
    """The date is that of the moment of assembling."""
    now = count()

    def assemble_now(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
        made = assemble(context, layout, previous)
        minute = next(now)
        last = f"{context.turn.id}/user"
        edits = (of_text(s, lambda t: f"{t} {minute}") if s.id == last else s for s in made.prompt.segments)
        return with_segments(made, edits)

    return assemble_now


def remembers(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """What was fixed in the window before is taken for what is fixed in this one."""
    made = assemble(context, layout, previous)
    if previous is None:
        return made
    fixed = [segment for segment in previous.prompt.segments if segment.zone is Zone.FIXED]
    return with_segments(made, (*fixed, *(s for s in made.prompt.segments if s.zone is not Zone.FIXED)))


def decides_anew(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """Admissions that are known are made again."""
    others = (d for d in context.decisions if d.kind is not DecisionKind.ADMISSION)
    return assemble(replace(context, decisions=tuple(others)), layout, None)


# Law 4


def has_stubs(segment: Segment) -> bool:
    parts = [part for message in segment.messages for part in message.parts]
    return segment.kind is Kind.STEP and any(isinstance(p, ToolResult) and p.content == p.name for p in parts)


def without_arguments(segment: Segment, context: ContextInput) -> Segment:
    def emptied(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(replace(part, arguments="{}") if isinstance(part, ToolCall) else part for part in parts)

    return with_parts(segment, emptied) if has_stubs(segment) else segment


def one_step_further(context: ContextInput) -> ContextInput:
    ids = [step.id for turn in (*context.history, context.turn) for step in turn.steps]
    further = dict(pairwise(ids))
    moved = (
        replace(d, outcome=further.get(d.outcome, d.outcome)) if d.kind is DecisionKind.PRUNE else d
        for d in context.decisions
    )
    return replace(context, decisions=tuple(moved))


# Law 5


def thinking_of(step: Step) -> tuple[Part, ...]:
    return tuple(part for part in step.parts if isinstance(part, Reasoning) and (part.signature or part.redacted))


def all_thinking(segment: Segment, context: ContextInput) -> Segment:
    """Thinking is sent whoever made it, and whatever became of what stood before it."""
    step = {s.id: s for turn in (*context.history, context.turn) for s in turn.steps}.get(segment.id)
    if step is None or segment.kind is not Kind.STEP:
        return segment
    first, *rest = segment.messages
    said = (part for part in first.parts if not isinstance(part, Reasoning))
    return replace(segment, messages=(PromptMessage(first.role, (*thinking_of(step), *said)), *rest))


def last_result_lost(assembled: Assembled, wire: str) -> tuple[WireBlock, ...]:
    blocks = blocks_of(assembled, wire)
    results = [block for block in blocks if block.value.get("type") == "tool_result" or block.role == "tool"]
    results = [block for block in results if block.level == "messages"]
    return tuple(block for block in blocks if not results or block is not results[-1])


def results_turned(segment: Segment, context: ContextInput) -> Segment:
    def changed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return parts[::-1] if all(isinstance(part, ToolResult) for part in parts) else parts

    return with_parts(segment, changed) if segment.kind is Kind.STEP else segment


def empty_texts(segment: Segment, context: ContextInput) -> Segment:
    if segment.kind is not Kind.STEP:
        return segment
    first, *rest = segment.messages
    return replace(segment, messages=(PromptMessage(first.role, (*first.parts, Text(" "))), *rest))


def numbered_ids(assembled: Assembled, wire: str) -> tuple[WireBlock, ...]:
    """Every block is made anew, the texts of answers with the number of blocks that there are."""
    blocks = blocks_of(assembled, wire)
    answers = [b for b in blocks if b.role == "assistant" and b.value.get("type") == "text"]
    return tuple(
        WireBlock.of(b.level, b.role, {**b.value, "text": f"{b.value['text']} {len(blocks)}"}, b.segment, markable=True)
        if b in answers
        else b
        for b in blocks
    )


# Law 6


def marked(choose: Callable[[Chain, Facts, MarkerPlan], Iterable[int]]) -> Code:
    """Code that puts markers on other blocks."""

    def markers(chain: Chain, ledger: Ledger, facts: Facts, policy: MarkerPolicy) -> MarkerPlan:
        made = plan(chain, ledger, facts, policy)
        indexes = sorted(set(choose(chain, facts, made)))
        return replace(made, markers=tuple(Marker(index, Ttl.FIVE_MINUTES, "by mistake") for index in indexes))

    return Code(markers=markers)


def planned(made: MarkerPlan) -> list[int]:
    return [marker.index for marker in made.markers]


def a_fifth(chain: Chain, facts: Facts, made: MarkerPlan) -> Iterable[int]:
    free = [i for i, block in enumerate(chain.blocks) if block.markable and i not in planned(made)]
    return [*planned(made), *free[: 5 - len(made.markers)]] if made.markers else ()


def on_thinking(chain: Chain, facts: Facts, made: MarkerPlan) -> Iterable[int]:
    not_markable = [index for index, block in enumerate(chain.blocks) if not block.markable]
    return not_markable[-1:] if made.markers else ()


def on_the_last(chain: Chain, facts: Facts, made: MarkerPlan) -> Iterable[int]:
    last = len(chain.blocks) - 1
    return [*planned(made)[-3:], last] if made.markers and chain.blocks[last].markable else planned(made)


def not_at_the_end(chain: Chain, facts: Facts, made: MarkerPlan) -> Iterable[int]:
    return planned(made)[:-1]


# Law 7


def counted_as_local(context: ContextInput) -> ContextInput:
    return replace(context, calibration=1.0)


def without_contents(segment: Segment, context: ContextInput) -> Segment:
    def emptied(text: str) -> str:
        return text.replace('"contents":"A first note.\\nA second note."', '"contents":""')

    return of_text(segment, emptied) if segment.kind is Kind.FILES else segment


def half_the_question(segment: Segment, context: ContextInput) -> Segment:
    if segment.id != f"{context.turn.id}/user" or len(context.turn.user.text) < 1_000:
        return segment
    return of_text(segment, lambda text: text[500:])


def no_project(segment: Segment, context: ContextInput) -> Segment | None:
    return None if segment.kind is Kind.PROJECT else segment


def no_files(segment: Segment, context: ContextInput) -> Segment | None:
    return None if segment.kind is Kind.FILES else segment


def no_pictures(segment: Segment, context: ContextInput) -> Segment:
    def without(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(part for part in parts if not isinstance(part, Image))

    return with_parts(segment, without) if segment.kind is Kind.USER else segment


def no_notice(segment: Segment, context: ContextInput) -> Segment:
    def without(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(
            replace(part, content=part.content.partition("\n")[2])
            if isinstance(part, ToolResult) and part.content.startswith("[Cut to fit")
            else part
            for part in parts
        )

    return with_parts(segment, without)


def documents_first(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """Where anything gives way, the documents of earlier turns do so too."""
    made = assemble(context, layout, None)
    if not any(decision.kind is DecisionKind.CUT for decision in made.decisions):
        return made
    old = [
        Decision(
            DecisionKind.ADMISSION,
            subject_of(key_of(attachment), context.model.name),
            LISTED,
            "engine",
            "it was there",
            {"tokens": attachment.tokens},
            first_changed=f"{turn.id}/files",
        )
        for turn in context.history
        for attachment in turn.user.files
        if attachment.text is not None
    ]
    again = assemble(replace(context, decisions=(*context.decisions, *old)), layout, None)
    return replace(again, decisions=(*old, *again.decisions))


def no_slack(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """The margin that the next step needs is given away: with the same budget the window is full."""
    made = assemble(context, layout, None)
    last = made.prompt.segments[-1]
    if not any(decision.kind is DecisionKind.CUT for decision in made.decisions):
        return made
    free = int(context.budget / 1.05 / context.calibration) - made.report.local
    larger = replace(last, tokens=last.tokens + free)
    return with_segments(made, (*made.prompt.segments[:-1], larger))


def forgotten(kind: DecisionKind) -> Callable[[tuple[Decision, ...]], tuple[Decision, ...]]:
    """Decisions of a kind are made and not stored."""
    return lambda decisions: tuple(decision for decision in decisions if decision.kind is not kind)


def boundary_back(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    return tuple(
        replace(decision, outcome="step_0_0") if decision.kind is DecisionKind.PRUNE else decision
        for decision in decisions
    )


def in_small_windows(plan: Plan) -> Plan:
    return replace(plan, can_compact=True, budget=3_000)


def compacts_in_vain(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """A compaction is asked for whatever it frees."""
    try:
        return assemble(context, layout, None)
    except ContextLengthExceeded as error:
        if not context.can_compact or not context.history:
            raise
        raise NeedsCompaction(error.message, cut=context.history[-1].id) from error


def compacts_unasked(context: ContextInput) -> ContextInput:
    return replace(context, can_compact=True)


def says_nothing(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    made = assemble(context, layout, previous)
    return replace(made, report=replace(made.report, notes=(), absent=()))


def wiring(wire: Wire) -> Code:
    return Code(wire=wire)


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("tools stand in the order of their insertion", law_1, edited(unsorted_tools)),
    Mutation("the agent moves while its lifetime says session", law_1, layout=travelling_agent),
    Mutation("the reminder says that it stays", law_1, edited(reminder_for_ever)),
    Mutation("the boundary rises without a decision", law_1, told(all_old_are_stubs)),
    Mutation("a decision does not name what it changes", law_1, Code(silent_assembly)),
    Mutation("the effort depends on the step", law_1, Code(effort_by_step)),
    Mutation("a cut is decided and forgotten", law_7, Code(recorded=forgotten(DecisionKind.CUT))),
    Mutation("dynamic context travels in front of what stays", law_2, layout=dynamic_in_front),
    Mutation("the date stands in front", law_2, layout=sections_in_front),
    Mutation("a segment stands there twice", law_2, Code(twice)),
    Mutation("tools stand in the order of their insertion", law_3, edited(unsorted_tools)),
    Mutation("the date is that of assembling", law_3, Code(by_the_clock())),
    Mutation("the window before is believed", law_3, Code(remembers)),
    Mutation("what was decided is decided again", law_3, Code(decides_anew)),
    Mutation("the calibration changes what was decided", law_3, Code(no_slack)),
    Mutation("a stub loses the arguments of its call", law_4, edited(without_arguments)),
    Mutation("the boundary takes in one step more", law_4, told(one_step_further)),
    Mutation("thinking stays behind a boundary", law_4, edited(all_thinking)),
    Mutation("a result is lost on the wire", law_5, wiring(last_result_lost)),
    Mutation("results come in the wrong order", law_5, edited(results_turned)),
    Mutation("an empty text is sent", law_5, edited(empty_texts)),
    Mutation("thinking goes to another model", law_5, edited(all_thinking)),
    Mutation("an answer is worded anew in every request", law_5, wiring(numbered_ids)),
    Mutation("there is a fifth marker", law_6, marked(a_fifth)),
    Mutation("a marker stands where none can", law_6, marked(on_thinking)),
    Mutation("the planner marks what goes", law_6, marked(on_the_last)),
    Mutation("the end of what stays is not marked", law_6, marked(not_at_the_end)),
    Mutation("what the provider counts is ignored", law_7, told(counted_as_local)),
    Mutation("a file loses its text without a note", law_7, edited(without_contents)),
    Mutation("a file is left out", law_7, edited(no_files)),
    Mutation("a long question is cut", law_7, edited(half_the_question)),
    Mutation("a picture is left out", law_7, edited(no_pictures)),
    Mutation("the project is left out", law_7, edited(no_project)),
    Mutation("a cut result does not say so", law_7, edited(no_notice)),
    Mutation("documents give way before results", law_7, Code(documents_first)),
    Mutation("nothing is free for the next step", law_7, Code(no_slack)),
    Mutation("an admission is decided and forgotten", law_7, Code(recorded=forgotten(DecisionKind.ADMISSION))),
    Mutation("the boundary falls back", law_7, Code(recorded=boundary_back)),
    Mutation("a compaction does not suffice", law_7, Code(compacts_in_vain), where=in_small_windows),
    Mutation("a compaction that nobody can make is asked for", law_7, told(compacts_unasked)),
    Mutation("the report says nothing", law_7, Code(says_nothing)),
)
