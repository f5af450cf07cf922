"""One inference of a run: its window, its request, its bill. An empty answer is retried once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog

from lamella.agent.calibration import (
    Counted,
    RefusedWindow,
    believed,
    billed_factor,
    count,
    is_near,
    lesson,
    margin_of,
    with_count,
)
from lamella.agent.citations import CitationWatch
from lamella.agent.container import (
    OpenStep,
    StateContainer,
    StepBirth,
    count_part,
    may_ask_again,
    nothing_of,
    spent,
)
from lamella.agent.hooks import Emitter, RunHooks
from lamella.agent.inference import ShownBlocks, StopTexts, run_step, until_stop, without_kept_back
from lamella.agent.inputs import AgentServices, RunInput, TurnInput, first_context
from lamella.agent.reminders import ReminderView, has_found, merged
from lamella.agent.request import PrefixLine, Prepared, RequestIdentity, drafted, new_request, next_line, prepare
from lamella.cache.ledger import read_cache_loss
from lamella.cache.planner import note_billed, note_written
from lamella.core.caching import ASKED_BY
from lamella.core.decisions import Decision
from lamella.core.errors import (
    ContextLengthExceeded,
    LamellaError,
    ProviderAnsweredNothing,
    ProviderContextOverflow,
    ProviderError,
    ProviderRefusedRequest,
)
from lamella.core.knowledge import bases_of_steps
from lamella.core.messages import Step, StopReason
from lamella.core.models import EFFORT_SUBJECT
from lamella.core.packets import CacheLost, ContextDegraded, RequestStarted, UsageBody, UsagePacket
from lamella.core.prompt import Report, Sampling
from lamella.core.records import NewRequest, ProviderLimit, RequestEnd, RequestRecord
from lamella.core.tokens import Usage

log = structlog.get_logger()


LEAST, FAR = 1_000, 2.0
"""The local tokens of a window from which a bill calibrates the next step, and how many times as much or as little as
expected it may be."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One step before its request: its number, the steps before it, and whether it is the last one permitted.

    `said_nothing`: the model was already asked and ended without a word.
    """

    index: int
    steps: tuple[Step, ...]
    sampling: Sampling
    last: bool
    said_nothing: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """One inference that came to its end; `places` are the shown blocks of the provider's blocks."""

    prepared: Prepared
    stored: NewRequest
    opened: OpenStep
    places: Mapping[int, int]


class StepRunner:
    """Runs the steps of one model in one turn; keeps the decisions of its requests and their common prefix."""

    def __init__(
        self,
        turn: TurnInput,
        run: RunInput,
        services: AgentServices,
        hooks: RunHooks,
        emitter: Emitter,
        container: StateContainer,
        citations: CitationWatch,
        line: PrefixLine | None,
    ) -> None:
        self.decisions = run.decisions
        self.calibration = run.calibration
        self.line = line
        self._turn = turn
        self._run = run
        self._services = services
        self._hooks = hooks
        self._emitter = emitter
        self._container = container
        self._citations = citations
        self._shown = ShownBlocks()
        self._unstored = run.learnt
        self._draft = run.draft
        self._counted = run.counted
        self._counts = run.counts
        self._limit = run.limit
        self._margin = run.margin
        self._effort_before = run.effort_before
        self._kept_back = turn.kept_back
        self._diagnoses = run.diagnoses
        self._compared_with = run.sampling.compared_with

    @property
    def has_shown(self) -> bool:
        """Whether anything of an answer has reached a client."""
        return self._shown.any

    async def ask(self, step: StepRequest) -> StepResult:
        """One inference with text or a call, and its bill. An empty one is retried once, if that can help.

        Raises `ContextLengthExceeded` or a `ProviderError`; the container then has the partial answer.
        """
        result = await self._fitting(step)
        failure = self._nothing_of(result)
        if failure is None:
            return result
        if may_ask_again(failure, result.opened):
            self._container.refused(self._end_of(result, failure))
            result = await self._fitting(replace(step, said_nothing=isinstance(failure, ProviderAnsweredNothing)))
            failure = self._nothing_of(result)
            if failure is None:
                return result
        result.opened.error = failure.as_dict()
        raise failure

    def _nothing_of(self, result: StepResult) -> ProviderError | None:
        if self._run.sampling.stop and result.opened.stop_reason is StopReason.END_TURN:
            return None  # an answer may begin with a text before which it has to end
        return nothing_of(result.opened, self._run.model.facts.name, self._run.sampling.max_output)

    def _end_of(self, result: StepResult, error: LamellaError) -> RequestEnd:
        opened = result.opened
        return opened.end(opened.usage, self._run.model.facts.cost(opened.usage), error.as_dict())

    async def _fitting(self, step: StepRequest) -> StepResult:
        """One inference. If the provider refuses it as too large, it is compacted and sent once more (rule *fit*)."""
        try:
            return await self._accepted(step)
        except ProviderContextOverflow as error:
            opened, line = self._container.opened, self.line
            if opened is None or line is None:
                raise
            self._container.refused(RequestEnd(opened.birth.request_id, opened.usage, 0.0, error=error.as_dict()))
            refusal = error
            await self._learn_from(error, line.assembled.report)
            await self._compact()
        try:
            return await self._accepted(step)
        except ContextLengthExceeded:
            await self._keep_learnt()
            raise refusal from None  # nothing could give way: what the provider said is the better reason
        except ProviderContextOverflow as error:
            await self._learn_from(error, (self.line or line).assembled.report)
            await self._keep_learnt()
            raise

    async def _learn_from(self, refusal: ProviderContextOverflow, report: Report) -> None:
        """Store what a refusal taught: the calibration and the limit."""
        run, facts = self._run, self._run.model.facts
        billed = bool(run.billed_local)
        window = RefusedWindow(report.local, int(report.local * self.calibration), run.budget, billed)
        learnt = lesson(refusal, window, facts)
        told = f"{learnt.why}; it is made smaller and sent again"
        if learnt.factor is not None:
            self._learn(learnt.decision(facts.name, window, self.calibration), learnt.factor)
        if learnt.limit is not None:
            limit = believed(learnt.limit, run.account, facts.name, self._services.clock.now())
            await self._hooks.limit_learned(limit)
            self._limit = limit.tokens
            told += f" (until {limit.until:%H:%M} UTC it is sent no more than about {limit.tokens} tokens)"
        self._emitter.emit(ContextDegraded(subject=facts.name, why=told))

    async def _compact(self) -> None:
        """Summarise the history before the turn if possible; otherwise its oldest turns leave the window."""
        if not self._run.can_compact or not self._turn.history:
            return
        try:
            compacted = await self._hooks.compact(self._run.model.facts.name)
        except LamellaError as error:
            log.warning("a running turn was not compacted", turn_id=self._turn.id, error=error.message)
            return
        if compacted is not None:
            history, summaries, sent = compacted.history, compacted.summaries, compacted.sent_before
            self._turn = replace(self._turn, history=history, summaries=summaries, sent_before=sent)
            self.decisions = (*compacted.decisions, *self._unstored)

    async def _lift(self, usage: Usage) -> None:
        """Forget a limit that the provider has just gone beyond."""
        if self._limit is not None and usage.input > self._limit and not usage.input_estimated:
            now = self._services.clock.now()
            name = self._run.model.facts.name
            await self._hooks.limit_learned(ProviderLimit(self._run.account, name, usage.input, now))
            self._limit = None

    async def _accepted(self, step: StepRequest) -> StepResult:
        """One inference. A provider that refuses the request for a cache diagnosis is not asked for one again in this
        turn.
        """
        try:
            return await self._try(step)
        except ProviderRefusedRequest as error:
            opened = self._container.opened
            if opened is None or self._compared_with is None or not any(name in error.message for name in ASKED_BY):
                raise
            self._container.refused(opened.end(opened.usage, 0.0, error.as_dict()))
            self._diagnoses, self._compared_with = False, None
            name = self._run.model.facts.name
            why = f"{name} refused to be asked why its cache was missed; the request is sent again without that"
            self._emitter.emit(ContextDegraded(subject=name, why=f"{why} (LAMELLA_CACHE_DIAGNOSTICS=false)"))
        return await self._try(step)

    async def _keep_learnt(self) -> None:
        """Store decisions that no request stored, so that the next turn knows them."""
        await self._hooks.decided(self._unstored)
        self._unstored = ()

    @property
    def room(self) -> int:
        """The local tokens that are free in the window of the last request; its answer is not counted."""
        most = min(self._run.budget, self._limit or self._run.budget)
        limit = int(most / (1 + self._margin) / self.calibration)
        return max(limit - (self.line.assembled.report.local if self.line else 0), 0)

    def _learn(self, learnt: Decision, factor: float) -> None:
        self.calibration = factor
        self.decisions += (learnt,)
        self._unstored += (learnt,)

    async def _try(self, step: StepRequest) -> StepResult:
        reminder = merged(self._view(step))
        prepared, stored = await self._prepare(step, reminder)
        opened = self._container.open(
            StepBirth(
                id=self._services.ids.new("step"),
                request_id=stored.record.id,
                model=self._run.model.facts.name,
                made_after=prepared.assembled.report.durable,
                reminder=reminder,
                estimate=_estimate(stored.record),
                factor=self.calibration,
                made_from=tuple(sorted(self._turn.made_from | bases_of_steps(step.steps))),
            )
        )
        result = StepResult(prepared, stored, opened, await self._infer(step.index, prepared, opened))
        self._bill(result)
        await self._lift(opened.usage)
        if self._diagnoses and opened.answer_id is not None and opened.usage.input:
            self._compared_with = opened.answer_id
        return result

    def _view(self, step: StepRequest) -> ReminderView:
        turn = self._turn
        return ReminderView(
            step.steps,
            self._services.registry,
            turn.agent,
            turn.layout,
            turn.reminders,
            step.last,
            turn.tools,
            step.said_nothing,
        )

    async def _near(self, step: StepRequest, reminder: str, prepared: Prepared) -> Prepared:
        """The request, made again with the provider's count if it is near the limit."""
        report, run = prepared.assembled.report, self._run
        margin = await margin_of(prepared.assembled, run.billed_local)
        if not is_near(report, margin):
            return prepared
        if self._counts and (self._counted is None or not self._counted.covers(report.local)):
            self._counted = await count(run.model, prepared.request, report.local)
            if self._counted is None:
                self._counts = False  # for the rest of the turn: an estimate is at hand
            elif self._counted.corrects(report.estimate):
                return await self._corrected(step, reminder, prepared, self._counted)
        if self._counted is None and margin > self._margin:
            self._margin = margin
            return await self._smaller(step, reminder)
        counted = self._counted
        return with_count(prepared, counted) if counted is not None and counted.local == report.local else prepared

    async def _corrected(self, step: StepRequest, reminder: str, prepared: Prepared, counted: Counted) -> Prepared:
        """The request after its count corrected the estimate."""
        run, name = self._run, self._run.model.facts.name
        learnt = counted.decision(name, self.calibration, run.budget)
        self._learn(learnt, counted.factor(run.budget))
        if counted.tokens > run.budget:
            self._emitter.emit(ContextDegraded(subject=name, why=f"{learnt.why}; it is made smaller"))
            return await self._smaller(step, reminder)
        return with_count(prepared, counted)

    async def _smaller(self, step: StepRequest, reminder: str) -> Prepared:
        try:
            return await self._fitted(step, reminder)
        except ContextLengthExceeded:
            await self._keep_learnt()
            raise

    async def _fitted(self, step: StepRequest, reminder: str) -> Prepared:
        """The window and its markers."""
        turn, run = self._turn, self._run
        context = replace(
            first_context(turn, run, reminder, last_step=step.last),
            sampling=replace(step.sampling, compared_with=self._compared_with),
            turn=replace(turn.turn, steps=step.steps),
            decisions=self.decisions,
            calibration=self.calibration,
            searched=has_found(step.steps, self._services.registry),
            limit=self._limit,
            margin=self._margin,
        )
        made, self._draft = self._draft, None
        if made is None or made.context != context:
            made = await drafted(context, turn.layout, run.model, run.account, made or self.line)
        await self._services.ledger.read(made.chain.keys)
        now = self._services.clock.now()
        return prepare(made, turn.policy, self._services.ledger, now, run.ttl)

    async def _prepare(self, step: StepRequest, reminder: str) -> tuple[Prepared, NewRequest]:
        """The window, its markers, and its row, which the hooks get before anything is sent."""
        turn, run = self._turn, self._run
        prepared = await self._near(step, reminder, await self._fitted(step, reminder))
        identity = RequestIdentity(
            id=self._services.ids.new("req"),
            conversation_id=turn.conversation_id,
            turn_id=turn.id,
            run_id=run.id,
            step=step.index,
            purpose="chat",
            at=prepared.facts.now,
        )
        stored = new_request(prepared, identity, turn.policy, self.line)
        stored = replace(stored, decisions=(*self._unstored, *stored.decisions))
        await self._hooks.request(stored)
        await self._warn(prepared, self._effort_before)
        self._effort_before = None
        self._unstored = ()
        self.decisions += prepared.assembled.decisions
        self.line = next_line(prepared, stored, self.line)
        self._announce(prepared, stored)
        return prepared, stored

    async def _warn(self, prepared: Prepared, before: str | None) -> None:
        """Before sending: report what the change from effort `before` loses in the cache."""
        if before is None:
            return
        sampling = prepared.assembled.prompt.sampling
        salts = self._run.model.salts(replace(sampling, thinking_effort=before))
        plan, facts, ledger = prepared.plan, prepared.facts, self._services.ledger
        lost = await read_cache_loss(plan.chain, salts, ledger, facts.now, facts.model)
        if lost is not None and lost.tokens:
            why = f"the thinking effort was changed from {before} to {sampling.thinking_effort}"
            self._emitter.emit(
                CacheLost(subject=EFFORT_SUBJECT, level=lost.level, tokens=lost.tokens, cost=lost.cost, why=why)
            )

    def _announce(self, prepared: Prepared, stored: NewRequest) -> None:
        for decision in prepared.assembled.decisions:
            if decision.outcome != "included":
                self._emitter.emit(ContextDegraded(subject=decision.subject, why=decision.why))
        record = stored.record
        self._emitter.emit(
            RequestStarted(
                request_id=record.id,
                step=record.step,
                purpose=record.purpose,
                letters=record.letters,
                estimate=record.estimate,
                budget=record.budget,
                predicted_read=record.predicted_read,
            )
        )

    async def _infer(self, index: int, prepared: Prepared, step: OpenStep) -> dict[int, int]:
        stream = self._run.model.stream(prepared.request, dict(self._run.headers("chat", index)))
        stops = StopTexts(prepared.assembled.prompt.sampling.stop)
        if prepared.assembled.prompt.sampling.stop:
            stream = until_stop(stream, stops)
        if self._kept_back is not None:
            stream = without_kept_back(stream, self._kept_back)
        try:
            places = await run_step(
                stream,
                step,
                self._emitter,
                self._shown,
                self._citations,
                lambda: note_written(prepared.plan, self._services.ledger, prepared.facts),
            )
        except LamellaError as error:
            step.error = error.as_dict()
            raise
        if stops.cut:  # the provider's bill would have come at the end
            step.usage = spent(step, sum(count_part(part, self._services.counter) for part in step.parts()))
        step.drained = True
        return places

    def _calibrate(self, report: Report, usage: Usage) -> None:
        """Calibrate the rest of this turn by the last bill.

        Near the limit the provider's count is used instead: what it counted as fitting still fits. The bill of a small
        window is not representative, and one far from the expected figure is left to the next turn.
        """
        if not usage.input or usage.input_estimated or report.local < LEAST or is_near(report):
            return
        factor = billed_factor(usage.input, report.local, self._run.model.facts)
        if self.calibration / FAR <= factor <= self.calibration * FAR:
            self.calibration = factor

    def _bill(self, result: StepResult) -> None:
        usage, dropped = result.opened.usage, result.opened.dropped_thinking
        if dropped:
            why = f"the provider left out {dropped} block{'s' if dropped > 1 else ''} of earlier thinking"
            self._emitter.emit(ContextDegraded(subject="thinking", why=f"{why}: what stood before changed"))
        note_billed(result.prepared.plan, usage, self._services.ledger, result.prepared.facts)
        self._calibrate(result.prepared.assembled.report, usage)
        self._emitter.emit(
            UsagePacket(
                request_id=result.stored.record.id,
                usage=UsageBody.of(usage),
                cost=self._run.model.facts.cost(usage),
                budget=self._run.budget,
            )
        )


def _estimate(record: RequestRecord) -> Usage:
    """The expected billed input of a request."""
    return Usage(input=record.estimate, cache_read=min(record.predicted_read, record.estimate))
