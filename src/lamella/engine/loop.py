"""The loop of a run: build the window, infer, run the tools, again, until there is an answer (SPEC O11, hop 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lamella.cache.plan import note_billed, note_written
from lamella.cache.unread import unread
from lamella.context.choices import Known
from lamella.context.input import ContextInput
from lamella.context.render import pruned_steps
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.effort import SUBJECT
from lamella.core.errors import ContextLengthExceeded, LamellaError, ProviderContextOverflow
from lamella.core.messages import Step, StopReason, ToolCall, ToolResult
from lamella.core.packets import (
    CacheLost,
    ContextDegraded,
    RequestStarted,
    ToolResultPacket,
    UsageBody,
    UsagePacket,
)
from lamella.core.prompt import Sampling
from lamella.core.records import ConversationChange, NewRequest, RequestEnd, RequestRecord
from lamella.core.tokens import Usage
from lamella.engine.approvals import TurnApprovals
from lamella.engine.citations import CitationWatch
from lamella.engine.container import OpenStep, StateContainer, StepBirth, build_step
from lamella.engine.digests import DigestAsking, digestible, digests_of
from lamella.engine.documents import KeptDocuments
from lamella.engine.emitter import Emitter
from lamella.engine.inputs import RunInput, Services, TurnInput
from lamella.engine.reminders import ReminderView, merged, searched
from lamella.engine.request import Identity, Line, Prepared, new_request, next_line, prepare, tool_choice_is_free
from lamella.engine.step import ShownBlocks, run_step
from lamella.tools.runner import ToolRunner
from lamella.tools.tool import ToolScope

MOST_FACTOR = 8.0
"""What a provider may count for a local token: a refusal that would mean more has another reason than the window."""

NOT_ACTING = (
    "This call did not run: several models answer this message, and only one of them may change anything. "
    "Say what you would have done."
)

LIMIT_REACHED = "The limit of steps for this turn is reached; this call did not run."


@dataclass(frozen=True, slots=True)
class Asking:
    """One step before it is asked: its number, its reminder, and whether it is the last that is permitted."""

    index: int
    reminder: str
    sampling: Sampling
    last: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One inference that came to its end; `places` are the shown blocks of the provider's blocks."""

    prepared: Prepared
    stored: NewRequest
    opened: OpenStep
    places: Mapping[int, int]


def _estimate(record: RequestRecord) -> Usage:
    """What a request is thought to be billed as input."""
    return Usage(input=record.estimate, cache_read=min(record.predicted_read, record.estimate))


class Loop:
    """One run of one model over one turn."""

    def __init__(
        self,
        turn: TurnInput,
        run: RunInput,
        services: Services,
        emitter: Emitter,
        container: StateContainer,
        line: Line | None,
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_act = may_act
        self._turn = turn
        self._run = run
        self._services = services
        self._emitter = emitter
        self._container = container
        self._shown = ShownBlocks()
        self._steps: tuple[Step, ...] = ()
        self.decisions = run.decisions
        self.calibration = run.calibration
        self._unstored: tuple[Decision, ...] = ()
        self._effort_before = run.effort_before
        self._citations = CitationWatch(turn.attachments)
        self._documents = KeptDocuments(services.store, services.clock, services.counter, turn)
        self.line = line

    @property
    def has_shown(self) -> bool:
        """Whether anything of an answer has reached a client."""
        return self._shown.any

    async def run(self) -> StopReason:
        """Go on until the model answers without a call. Raises `ContextLengthExceeded` or a `ProviderError`."""
        limit = self._run.step_limit
        for index in range(limit + 1):
            last = index >= limit - 1
            step = await self._step(index, last=last, forced=index == limit)
            self._steps += (step,)
            if not step.calls:
                await self._digest()
                return step.stop_reason
        return StopReason.END_TURN

    async def _digest(self) -> None:
        """What may stand in place of results once they are old, where their tools ask for it (SPEC O9).

        A result that gave way within the turn keeps the stub that it was sent with.
        """
        turns = (replace(self._turn.turn, steps=self._steps),)
        stubs = pruned_steps(turns, Known(self._run.model.facts.name, self.decisions).boundary(turns))
        whole = [step for step in self._steps if step.id not in stubs]
        wanted = digestible(whole, self._turn.conversation.tools)
        if wanted:
            asking = DigestAsking(self._turn, self._run, self._services, self._container)
            self._container.digested(await digests_of(wanted, asking))

    async def _step(self, index: int, *, last: bool, forced: bool) -> Step:
        turn, run = self._turn, self._run
        view = ReminderView(self._steps, self._services.registry, turn.agent, turn.layout, turn.reminders, last)
        forbids = forced or (last and tool_choice_is_free(run.model, run.sampling))
        sampling = replace(run.sampling, tool_choice="none") if forbids else run.sampling
        asked = await self._ask(Asking(index, merged(view), sampling, last))
        self._bill(asked)
        return await self._finish(asked.opened, asked.places, refuse_calls=last)

    async def _ask(self, asking: Asking) -> Asked:
        """One inference. A window that the provider finds too large is made anew, once, by what it counts (law 7)."""
        try:
            return await self._try(asking)
        except ProviderContextOverflow as error:
            opened, local = self._container.opened, self.line.assembled.report.local if self.line else 0
            if opened is None or self._factor(local) > MOST_FACTOR:
                raise
            self._container.refused(RequestEnd(opened.birth.request_id, opened.usage, 0.0, error=error.as_dict()))
            self._recalibrate(local)
            refusal = error
        try:
            return await self._try(asking)
        except ContextLengthExceeded:
            await self._keep_learnt()
            raise refusal from None  # nothing could give way: what the provider said is the better reason

    async def _keep_learnt(self) -> None:
        """Store what was decided without a request to store it with: the next turn begins with it."""
        now = self._services.clock.now()
        change = ConversationChange(decisions=self._unstored)
        await self._services.store.change_conversation(self._turn.caller, self._turn.conversation.id, change, now)
        self._unstored = ()

    def _factor(self, local: int) -> float:
        """What the provider counts for a local token, at least, if it finds a window of so many too large."""
        return max(self.calibration * 1.1, self._run.budget / max(local, 1) * 1.05)

    def _recalibrate(self, local: int) -> None:
        """The provider counts more for a local token than was thought: at least as much as fills the window."""
        facts, factor = self._run.model.facts, self._factor(local)
        why = f"{facts.name} refused a request of {local} local tokens as too large"
        numbers = {"local": local, "before": self.calibration}
        learnt = Decision(DecisionKind.CALIBRATION, facts.name, f"{factor:.4f}", "engine", why, numbers)
        self.calibration = factor
        self.decisions += (learnt,)
        self._unstored += (learnt,)
        self._emitter.emit(ContextDegraded(subject=facts.name, why=f"{why}; it is made smaller and sent again"))

    async def _try(self, asking: Asking) -> Asked:
        prepared, stored = await self._prepare(asking)
        opened = self._container.open(
            StepBirth(
                id=self._services.ids.new("step"),
                request_id=stored.record.id,
                model=self._run.model.facts.name,
                made_after=prepared.assembled.report.durable,
                reminder=asking.reminder,
                estimate=_estimate(stored.record),
                factor=self.calibration,
                taken=self._turn.call_ids | {call.id for step in self._steps for call in step.calls},
            )
        )
        return Asked(prepared, stored, opened, await self._infer(asking.index, prepared, opened))

    async def _prepare(self, asking: Asking) -> tuple[Prepared, NewRequest]:
        """Hop 7: the window, its markers, and its row, stored before anything is sent."""
        turn, run = self._turn, self._run
        context = ContextInput(
            model=run.model.facts,
            budget=run.budget,
            sampling=asking.sampling,
            system=turn.conversation.system_prompt,
            tools=turn.conversation.tools,
            history=turn.history,
            turn=replace(turn.turn, steps=self._steps),
            reminder=asking.reminder,
            decisions=self.decisions,
            calibration=self.calibration,
            agent=turn.agent,
            project=turn.project,
            summaries=turn.summaries,
            searched=searched(self._steps, self._services.registry),
            last_step=asking.last,
            keeps_results=run.keeps_results,
        )
        now = self._services.clock.now()
        prepared = prepare(
            context, turn.layout, turn.policy, run.model, run.account, self._services.ledger, now, self.line, run.ttl
        )
        identity = Identity(
            id=self._services.ids.new("req"),
            conversation_id=turn.conversation.id,
            turn_id=turn.turn.id,
            run_id=run.id,
            step=asking.index,
            purpose="chat",
            at=now,
        )
        stored = new_request(prepared, identity, turn.policy, self.line)
        stored = replace(stored, decisions=(*self._unstored, *stored.decisions))
        await self._services.store.record_request(turn.caller, stored)
        self._warn(prepared, self._effort_before)
        self._effort_before = None
        self._unstored = ()
        self.decisions += prepared.assembled.decisions
        self.line = next_line(prepared, stored, self.line)
        self._announce(prepared, stored)
        return prepared, stored

    def _warn(self, prepared: Prepared, before: str | None) -> None:
        """Before it is sent: what another effort than `before` keeps this request from reading."""
        if before is None:
            return
        sampling = prepared.assembled.prompt.sampling
        salts = self._run.model.salts(replace(sampling, thinking_effort=before))
        plan, facts, ledger = prepared.plan, prepared.facts, self._services.ledger
        lost = unread(plan.chain, salts, ledger, facts.now, facts.model)
        if lost is not None and lost.tokens:
            why = f"the thinking effort was changed from {before} to {sampling.thinking_effort}"
            self._emitter.emit(
                CacheLost(subject=SUBJECT, level=lost.level, tokens=lost.tokens, cost=lost.cost, why=why)
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

    async def _infer(self, index: int, prepared: Prepared, opened: OpenStep) -> dict[int, int]:
        stream = self._run.model.stream(prepared.request, dict(self._run.headers("chat", index)))
        try:
            return await run_step(
                stream,
                opened,
                self._emitter,
                self._shown,
                self._citations,
                lambda: note_written(prepared.plan, self._services.ledger, prepared.facts),
            )
        except LamellaError as error:
            opened.error = error.as_dict()
            raise

    def _bill(self, asked: Asked) -> None:
        usage, dropped = asked.opened.usage, asked.opened.dropped_thinking
        if dropped:
            why = f"the provider left out {dropped} block{'s' if dropped > 1 else ''} of earlier thinking"
            self._emitter.emit(ContextDegraded(subject="thinking", why=f"{why}: what stood before changed"))
        note_billed(asked.prepared.plan, usage, self._services.ledger, asked.prepared.facts)
        self._emitter.emit(
            UsagePacket(
                request_id=asked.stored.record.id,
                usage=UsageBody.of(usage),
                cost=self._run.model.facts.cost(usage),
                budget=self._run.budget,
            )
        )

    async def _finish(self, opened: OpenStep, places: Mapping[int, int], *, refuse_calls: bool) -> Step:
        """Hop 9: run the calls, if any, and close the step."""
        parts = opened.parts()
        calls = [part for part in parts if isinstance(part, ToolCall)]
        if calls:
            block_of = {opened.call_ids[block]: shown for block, shown in places.items() if block in opened.call_ids}
            await self._call(opened, calls, block_of, refuse=refuse_calls)
        step = build_step(opened, parts, self._services.counter)
        end = RequestEnd(
            opened.birth.request_id,
            opened.usage,
            self._run.model.facts.cost(opened.usage),
            opened.provider_request_id,
            dropped_thinking=opened.dropped_thinking,
        )
        self._container.close(step, end)
        return step

    async def _call(
        self, opened: OpenStep, calls: list[ToolCall], block_of: Mapping[str, int], *, refuse: bool
    ) -> None:
        def done(result: ToolResult, seconds: float | None = None) -> None:
            opened.results[result.call_id] = result
            self._emitter.emit(
                ToolResultPacket(
                    call_id=result.call_id,
                    name=result.name,
                    content=result.content,
                    is_error=result.is_error,
                    seconds=None if seconds is None else round(seconds, 3),
                ),
                block_of[result.call_id],
            )

        if refuse:
            for call in calls:
                done(ToolResult(call.id, call.name, LIMIT_REACHED, is_error=True))
            return
        calls = self._held_back(calls, done)
        attachments = (*self._turn.attachments, *self._documents.kept)
        turns = (*self._turn.history, replace(self._turn.turn, steps=self._steps))
        asker = TurnApprovals(self._services.approvals, self._turn.turn.id, self._emitter, block_of)
        scope = ToolScope(
            self._turn.caller, self._turn.conversation.id, attachments, self._documents, turns, approvals=asker
        )
        registry = self._services.registry.only(self._turn.conversation.tools)
        await ToolRunner(registry).run(calls, scope, opened.malformed, done)
        self._citations.know(self._documents.kept)

    def _held_back(self, calls: list[ToolCall], done: Callable[[ToolResult], None]) -> list[ToolCall]:
        """The calls that may run: where several models answer, one of them alone may change something outside."""
        if self._may_act():
            return calls
        held = [call for call in calls if self._services.registry.has_side_effects(call.name)]
        for call in held:
            done(ToolResult(call.id, call.name, NOT_ACTING, is_error=True))
        return [call for call in calls if call not in held]
