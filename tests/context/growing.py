"""Grows a planned conversation request by request, as the engine does, with the code that is under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import strategies as st

from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, plan
from lamella.cache.planner import Plan as MarkerPlan
from lamella.cache.window import Chain
from lamella.context.assemble import Assembled, assemble
from lamella.context.choices import EXTRACTS, KnownDecisions, pruned_steps, shortened
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.results import EXTRACT_VERSION
from lamella.core.agents import Summary
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded, NeedsCompaction
from lamella.core.messages import AnswerPart, Step, StopReason, ToolCall, Turn, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, WireBlock
from lamella.core.records import AgentAndProject, Conversation
from lamella.turns.effective_settings import EffectiveSettings, changes

from .plans import SEARCHES, Plan, PlannedStep, PlannedTurn, plans
from .plans import layouts as any_layout
from .wires import NOW, blocks_of

Assemble = Callable[[ContextInput, Layout, Assembled | None], Assembled]
Wire = Callable[[Assembled, str], tuple[WireBlock, ...]]
PlanMarkers = Callable[[Chain, Ledger, Facts, MarkerPolicy], MarkerPlan]
Recorded = Callable[[tuple[Decision, ...]], tuple[Decision, ...]]


def as_they_are(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """All decisions are recorded."""
    return decisions


@dataclass(frozen=True, slots=True)
class Code:
    """The code that the laws judge. A mutation is another piece in one of these places.

    `recorded` is what is fed back of the decisions of an assembly.
    """

    assemble: Assemble = assemble
    wire: Wire = blocks_of
    markers: PlanMarkers = plan
    recorded: Recorded = as_they_are


CODE = Code()


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: what it was made from, what came out, and the request before it on its line."""

    context: ContextInput
    assembled: Assembled
    before: Assembled | None

    @property
    def layout(self) -> Layout:
        """The layout it was assembled in."""
        return self.assembled.layout

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All that hold for it, the newest last."""
        return self.context.decisions + self.assembled.decisions

    @property
    def shown(self) -> ContextInput:
        """What it was made from, without the turns that were left out."""
        return shortened(replace(self.context, decisions=self.decisions))

    @property
    def path(self) -> tuple[Turn, ...]:
        """The turns in its window, the running one last."""
        return (*self.shown.history, self.context.turn)


@dataclass(frozen=True, slots=True)
class Refused:
    """A window that did not fit. `compacted`: that was after earlier turns had been summarised to make it fit."""

    context: ContextInput
    error: ContextLengthExceeded
    compacted: bool


@dataclass(frozen=True, slots=True)
class Grown:
    """A conversation with every request that was sent for it. `made_by` is the request that a step answers."""

    plan: Plan
    code: Code = field(repr=False)
    sent: tuple[Sent, ...] = field(repr=False)
    refused: tuple[Refused, ...] = field(repr=False)
    made_by: dict[str, Sent] = field(repr=False)

    def consecutive(self) -> Iterator[tuple[Sent, Sent]]:
        """The neighbours of every line: the requests to one model."""
        for name in dict.fromkeys(sent.context.model.name for sent in self.sent):
            yield from pairwise(sent for sent in self.sent if sent.context.model.name == name)

    def wired(self, sent: Sent, wire: str) -> tuple[WireBlock, ...]:
        """The wire blocks of a request."""
        return self.code.wire(sent.assembled, wire)


Infer = Callable[[Sent, PlannedStep], tuple[AnswerPart, ...]]


def as_planned(sent: Sent, planned: PlannedStep) -> tuple[AnswerPart, ...]:
    """A model that says what the plan says."""
    return planned.parts


def grow(plan: Plan, infer: Infer = as_planned, code: Code = CODE) -> Grown:
    """Send every request of a plan as the engine does; a turn that does not fit the window ends there."""
    work = _Growing(plan, infer, code)
    for number, planned in enumerate(plan.turns):
        work.turn(number, planned)
    return Grown(plan, code, tuple(work.sent), tuple(work.refused), work.made_by)


class _Growing:
    """The engine's side: the path, the decisions, the last window of every line."""

    def __init__(self, plan: Plan, infer: Infer, code: Code) -> None:
        self._plan = plan
        self._infer = infer
        self._code = code
        self._history: tuple[Turn, ...] = ()
        self._summaries = plan.summaries
        self._decisions: tuple[Decision, ...] = ()
        self._begun: tuple[Decision, ...] = ()
        self._lines: dict[str, Assembled] = {}
        self.sent: list[Sent] = []
        self.refused: list[Refused] = []
        self.made_by: dict[str, Sent] = {}

    def turn(self, number: int, planned: PlannedTurn) -> None:
        """One turn. What it changes is decided before it and recorded with its first request, if it comes to one."""
        self._decisions += self._pruned(planned.model.name) if planned.prunes else ()
        self._begun = self._changed(planned)
        turn = Turn(f"turn_{number}", planned.user)
        for index, step in enumerate(planned.steps):
            last = planned.limited and index == len(planned.steps) - 1
            sent = self._send(self._context(planned, turn, step, last=last))
            if sent is None:
                break
            parts = self._infer(sent, step)
            if not step.kept:
                break
            made = _made(f"step_{number}_{index}", sent, step, parts)
            self.made_by[made.id] = sent
            turn = replace(turn, steps=(*turn.steps, made))
        self._history += (_ended(turn, planned, self._decisions),)

    def _send(self, context: ContextInput) -> Sent | None:
        """One request, sent after a compaction where the window asks for one; None when it does not fit."""
        before = self._lines.get(context.model.name)
        compacted = False
        try:
            try:
                assembled = self._code.assemble(context, self._plan.layout, before)
            except NeedsCompaction as error:
                context, compacted = self._compacted(context, error.cut), True
                assembled = self._code.assemble(context, self._plan.layout, before)
        except ContextLengthExceeded as error:
            self.refused.append(Refused(context, error, compacted))
            return None
        self._decisions = context.decisions + self._code.recorded(assembled.decisions)
        self._begun = ()
        self._lines[context.model.name] = assembled
        self.sent.append(Sent(context, assembled, before))
        return self.sent[-1]

    def _compacted(self, context: ContextInput, cut: str) -> ContextInput:
        """The turns up to `cut` become a summary, in front of which nothing changes."""
        summary = Summary(f"sum_of_{cut}", "They went on.", 4)
        why = f"everything up to {cut} is summarised"
        decision = Decision(DecisionKind.SETTING, "session", summary.id, "engine", why, first_changed=summary.id)
        ids = [turn.id for turn in context.history]
        self._history = context.history[ids.index(cut) + 1 :]
        self._summaries = (*context.summaries, summary)
        self._begun += (decision,)
        return replace(
            context,
            history=self._history,
            summaries=self._summaries,
            decisions=(*context.decisions, decision),
        )

    def _context(self, planned: PlannedTurn, turn: Turn, step: PlannedStep, *, last: bool) -> ContextInput:
        plan, facts = self._plan, planned.model
        free = last and facts.provider == "openai"  # there, forbidding calls costs no cache
        return ContextInput(
            model=facts,
            budget=min(plan.budget, facts.window - 8_000),
            sampling=Sampling(8_000, plan.effort, tool_choice="none" if free else "auto"),
            system=plan.system,
            tools=planned.allowed,
            history=self._history,
            turn=turn,
            reminder=step.reminder,
            decisions=self._decisions + self._begun,
            calibration=planned.calibration,
            agent=planned.agent,
            project=planned.project,
            summaries=self._summaries,
            searched=any(call.name in SEARCHES for step in turn.steps for call in step.calls),
            last_step=last,
            can_compact=plan.can_compact,
        )

    def _changed(self, planned: PlannedTurn) -> tuple[Decision, ...]:
        """What of the turn is not as before, in the words of the engine."""
        plan = self._plan
        pinned = Conversation(
            "conv", "", planned.model.name, plan.layout.name, "off", plan.system, plan.turns[0].tools, NOW, NOW
        )
        now = replace(pinned, tools=planned.allowed)
        around = AgentAndProject(planned.agent, planned.project)
        setting = EffectiveSettings(now, plan.layout, MarkerPolicy.OFF, around)
        return changes(setting, pinned, self._decisions, "user", ())

    def _pruned(self, model: str) -> tuple[Decision, ...]:
        """The boundary moves to the last step; named is the first step in the window of `model` whose results become
        stubs by that. Every other time the stubs keep extracts."""
        history, _ = KnownDecisions(model, self._decisions).in_window(self._history, self._summaries)
        steps = [step for turn in history for step in turn.steps]
        boundaries = [decision.outcome for decision in self._decisions if decision.kind is DecisionKind.PRUNE]
        ids = [step.id for step in steps]
        start = ids.index(boundaries[-1]) + 1 if boundaries and boundaries[-1] in ids else 0
        edited = [step.id for step in steps[start:] if step.results]
        if not edited:
            return ()
        numbers = {EXTRACTS: EXTRACT_VERSION} if len(boundaries) % 2 == 0 else {}
        kind, last = DecisionKind.PRUNE, steps[-1].id
        return (Decision(kind, "conv", last, "engine", "it pays", numbers, first_changed=edited[0]),)


def _made(id: str, sent: Sent, planned: PlannedStep, parts: tuple[AnswerPart, ...]) -> Step:
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    answered = {result.call_id for result in planned.results}
    stop = StopReason.TOOL_CALLS if calls else StopReason.END_TURN
    said = sum(count_tokens(str(part)) for part in parts)
    return Step(
        id=id,
        model=sent.context.model.name,
        parts=parts,
        stop_reason=stop if answered.issuperset(calls) else StopReason.INTERRUPTED,
        made_after=sent.assembled.report.durable,
        tokens=said + sum(count_tokens(result.content) for result in planned.results),
        reminder=planned.reminder,
        results=tuple(replace(result, digest="") for result in planned.results),
    )


def _ended(turn: Turn, planned: PlannedTurn, decisions: tuple[Decision, ...]) -> Turn:
    """The turn as it is stored at its end: if it finished, with digests of results that were not stubs already."""
    if planned.status is not TurnStatus.FINISHED:
        return replace(turn, status=planned.status)
    stubs = pruned_steps((turn,), KnownDecisions(planned.model.name, decisions).boundary((turn,)))
    steps = tuple(
        made if made.id in stubs else replace(made, results=step.results)
        for made, step in zip(turn.steps, planned.steps, strict=False)
    )
    return replace(turn, steps=steps, status=planned.status)


def grown(
    models: st.SearchStrategy[ModelFacts] | None = None, layouts: st.SearchStrategy[Layout] = any_layout
) -> st.SearchStrategy[Grown]:
    """Conversations with all their requests."""
    return plans(models, layouts).map(grow)
