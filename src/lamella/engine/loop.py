"""The loop of a run: build the window, infer, run the tools, again, until there is an answer (SPEC O11, hop 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lamella.cache.ledger import Ledger
from lamella.cache.plan import MarkerPolicy, note_billed, note_written
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import Agent, Project
from lamella.core.clock import Clock
from lamella.core.decisions import Decision
from lamella.core.errors import LamellaError
from lamella.core.ids import Ids
from lamella.core.messages import Attachment, Step, StopReason, ToolCall, ToolResult, Turn
from lamella.core.packets import (
    ContextDegraded,
    RequestStarted,
    ToolResultPacket,
    UsageBody,
    UsagePacket,
)
from lamella.core.ports import ChatModel, Store
from lamella.core.prompt import Sampling
from lamella.core.records import Caller, Conversation, NewRequest, RequestEnd
from lamella.core.tokens import TokenCounter
from lamella.engine.citations import CitationWatch
from lamella.engine.container import OpenStep, StateContainer, StepBirth, build_step
from lamella.engine.emitter import Emitter
from lamella.engine.reminders import merged, of_agent, searched
from lamella.engine.request import Identity, Line, Prepared, new_request, next_line, prepare
from lamella.engine.step import ShownBlocks, run_step
from lamella.engine.surroundings import NoSurroundings, SurroundingsSource
from lamella.tools.runner import ToolRunner
from lamella.tools.tool import Registry, ToolScope

LIMIT_REACHED = "The limit of steps for this turn is reached; this call did not run."


@dataclass(frozen=True, slots=True)
class TurnInput:
    """One turn, frozen: everything that a run needs to know (hop 4)."""

    caller: Caller
    conversation: Conversation
    history: tuple[Turn, ...]
    turn: Turn
    decisions: tuple[Decision, ...]
    layout: Layout
    policy: MarkerPolicy
    reminders: tuple[str, ...] = ()
    agent: Agent | None = None
    project: Project | None = None

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """All files on the path, and those of the project."""
        project = self.project.files if self.project is not None else ()
        return (*(a for turn in (*self.history, self.turn) for a in turn.user.attachments), *project)

    @property
    def call_ids(self) -> frozenset[str]:
        """The tool-call ids on the path."""
        return frozenset(call.id for turn in self.history for step in turn.steps for call in step.calls)


@dataclass(frozen=True, slots=True)
class RunInput:
    """What one model's run adds to the turn."""

    model: ChatModel
    account: str
    budget: int
    sampling: Sampling
    calibration: float
    step_limit: int
    headers: Callable[[int], Mapping[str, str]]
    """Extra headers for the request of a step; a replay tells the simulator time and script by them."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the engine is given by its surroundings."""

    store: Store
    clock: Clock
    ids: Ids
    counter: TokenCounter
    registry: Registry
    ledger: Ledger
    surroundings: SurroundingsSource = field(default_factory=NoSurroundings)


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
    ) -> None:
        self._turn = turn
        self._run = run
        self._services = services
        self._emitter = emitter
        self._container = container
        self._shown = ShownBlocks()
        self._steps: tuple[Step, ...] = ()
        self._decisions = turn.decisions
        self._citations = CitationWatch(turn.attachments)
        self.line = line

    async def run(self) -> StopReason:
        """Go on until the model answers without a call. Raises `ContextLengthExceeded` or a `ProviderError`."""
        limit = self._run.step_limit
        for index in range(limit + 1):
            last = index >= limit - 1
            step = await self._step(index, last=last, forced=index == limit)
            self._steps += (step,)
            if not step.calls:
                return step.stop_reason
        return StopReason.END_TURN

    async def _step(self, index: int, *, last: bool, forced: bool) -> Step:
        configured = (*of_agent(self._turn.agent, self._turn.layout), *self._turn.reminders)
        reminder = merged(self._steps, self._services.registry, last_step=last, configured=configured)
        sampling = replace(self._run.sampling, tool_choice="none") if forced else self._run.sampling
        prepared, stored = await self._prepare(index, reminder, sampling)
        opened = self._container.open(
            StepBirth(
                id=self._services.ids.new("step"),
                request_id=stored.record.id,
                model=self._run.model.facts.name,
                made_after=prepared.assembled.report.durable,
                reminder=reminder,
                taken=self._turn.call_ids | {call.id for step in self._steps for call in step.calls},
            )
        )
        places = await self._infer(index, prepared, opened)
        self._bill(prepared, opened, stored)
        return await self._finish(opened, places, refuse_calls=last)

    async def _prepare(self, index: int, reminder: str, sampling: Sampling) -> tuple[Prepared, NewRequest]:
        """Hop 7: the window, its markers, and its row, stored before anything is sent."""
        turn, run = self._turn, self._run
        context = ContextInput(
            model=run.model.facts,
            budget=run.budget,
            sampling=sampling,
            system=turn.conversation.system_prompt,
            tools=turn.conversation.tools,
            history=turn.history,
            turn=replace(turn.turn, steps=self._steps),
            reminder=reminder,
            decisions=self._decisions,
            calibration=run.calibration,
            agent=turn.agent,
            project=turn.project,
            searched=searched(self._steps, self._services.registry),
        )
        now = self._services.clock.now()
        prepared = prepare(
            context, turn.layout, turn.policy, run.model, run.account, self._services.ledger, now, self.line
        )
        identity = Identity(
            id=self._services.ids.new("req"),
            conversation_id=turn.conversation.id,
            turn_id=turn.turn.id,
            step=index,
            purpose="chat",
            at=now,
        )
        stored = new_request(prepared, identity, turn.policy, self.line)
        await self._services.store.record_request(turn.caller, stored)
        self._decisions += prepared.assembled.decisions
        self.line = next_line(prepared, stored, self.line)
        self._announce(prepared, stored)
        return prepared, stored

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
        stream = self._run.model.stream(prepared.request, dict(self._run.headers(index)))
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

    def _bill(self, prepared: Prepared, opened: OpenStep, stored: NewRequest) -> None:
        note_billed(prepared.plan, opened.usage, self._services.ledger, prepared.facts)
        self._emitter.emit(
            UsagePacket(
                request_id=stored.record.id,
                usage=UsageBody.of(opened.usage),
                cost=self._run.model.facts.cost(opened.usage),
                budget=self._run.budget,
            )
        )

    async def _finish(self, opened: OpenStep, places: dict[int, int], *, refuse_calls: bool) -> Step:
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
        )
        self._container.close(step, end)
        return step

    async def _call(
        self, opened: OpenStep, calls: list[ToolCall], block_of: Mapping[str, int], *, refuse: bool
    ) -> None:
        def done(result: ToolResult) -> None:
            opened.results[result.call_id] = result
            self._emitter.emit(
                ToolResultPacket(
                    call_id=result.call_id,
                    name=result.name,
                    content=result.content,
                    is_error=result.is_error,
                ),
                block_of[result.call_id],
            )

        if refuse:
            for call in calls:
                done(ToolResult(call.id, call.name, LIMIT_REACHED, is_error=True))
            return
        scope = ToolScope(self._turn.caller, self._turn.conversation.id, self._turn.attachments)
        await ToolRunner(self._services.registry).run(calls, scope, opened.malformed, done)
