"""Runs: one task for each model that answers a message; packets in arrival order.

A model that fails before anything of its answer was shown is replaced by its fallback, if it has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import structlog

from lamella.agent.container import StateContainer
from lamella.agent.hooks import Emitter, Fallback, RunHooks
from lamella.agent.inputs import AgentServices, RunInput, TurnInput
from lamella.agent.loop import Loop
from lamella.agent.request import PrefixLine
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LamellaError, ProviderError
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.packets import ErrorPacket, ModelFallback, RunFinished, RunStarted, UsageBody
from lamella.core.tokens import Usage

log = structlog.get_logger()


@dataclass(slots=True)
class Run:
    """One model's part of a turn: what it was given, what it produced and decided, and how it ended.

    An `error` that is there from the beginning is why it can't answer: its model is not asked.
    """

    input: RunInput
    container: StateContainer
    line: PrefixLine | None
    decisions: tuple[Decision, ...] = ()
    calibration: float = 0.0
    status: TurnStatus = TurnStatus.RUNNING
    error: LamellaError | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.input.id

    @property
    def usage(self) -> Usage:
        """What its requests were billed so far."""
        return sum((end.usage for end in self.container.ends), Usage())

    @property
    def cost(self) -> float:
        """What that came to, in US dollars."""
        return sum(end.cost for end in self.container.ends)

    def end(self, status: TurnStatus, reason: StopReason) -> None:
        """It ended; a step that is still open is kept as far as it came."""
        self.status = status
        self.container.cut_off(reason, self.input.model.facts.cost)


async def run_models(turn: TurnInput, runs: Sequence[Run], services: AgentServices, hooks: RunHooks) -> None:
    """Let every model answer; one that fails or is stopped ends, and the others go on."""
    async with asyncio.TaskGroup() as group:
        for index, run in enumerate(runs):
            group.create_task(_one(turn, run, services, Emitter(hooks.emit, index), hooks))


async def _one(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> None:
    facts = run.input.model.facts
    emitter.emit(RunStarted(run_id=run.id, model=facts.name, caution=facts.caution))
    said = await _until_stopped(run, _answer(turn, run, services, emitter, hooks), hooks)
    if run.error is not None:
        run.end(TurnStatus.FAILED, StopReason.ERROR)
        emitter.emit(ErrorPacket(error=run.error.as_dict()))
        said = "error"
    emitter.emit(
        RunFinished(
            run_id=run.id,
            status=said,
            error=run.error.as_dict() if run.error is not None else None,
            usage=UsageBody.of(run.usage),
            cost=run.cost,
        )
    )


async def _until_stopped(run: Run, answer: Awaitable[str], hooks: RunHooks) -> str:
    """The answer's end, or that of whoever stopped it."""
    work, stop = asyncio.ensure_future(answer), asyncio.ensure_future(hooks.stopped(run.id))
    try:
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
    finally:
        for task in (work, stop):
            task.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
    run.end(TurnStatus.STOPPED, StopReason.USER_CANCELLED)
    return StopReason.USER_CANCELLED.value


async def _answer(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> str:
    """Why the model stopped; a failure is the run's error."""
    if run.error is not None:
        return "error"
    try:
        stop_reason = await _asked(turn, run, services, emitter, hooks)
    except LamellaError as error:
        run.error = error
        return "error"
    except Exception:  # the border where a run's failure becomes a packet; the cause is in the log
        log.exception("run failed", run_id=run.id, turn_id=turn.turn.id)
        run.error = LamellaError("The turn failed inside the server.", hint="The server's log has the cause.")
        return "error"
    run.status = TurnStatus.FINISHED
    return stop_reason.value


async def _asked(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> StopReason:
    """The loop of the run's model, and that of another one where it fails before it has shown anything."""
    loop = Loop(turn, run.input, services, hooks, emitter, run.container, run.line)
    try:
        return await _run(run, loop)
    except ProviderError as error:
        if loop.has_shown:
            raise
        other = await _fallback(run, hooks, error, emitter)
        if other is None:
            raise
        run.input, run.line = other.input, other.line
    return await _run(run, Loop(other.turn, run.input, services, hooks, emitter, run.container, run.line))


async def _run(run: Run, loop: Loop) -> StopReason:
    try:
        return await loop.run()
    finally:
        run.line, run.decisions, run.calibration = loop.line, loop.decisions, loop.calibration


async def _fallback(run: Run, hooks: RunHooks, error: ProviderError, emitter: Emitter) -> Fallback | None:
    """The model that goes on after `error`: the request that failed is closed, and clients are told."""
    model = run.input.model.facts
    try:
        other = await hooks.fallback(run.id)
    except LamellaError as problem:
        log.error("no other model can answer", model=model.name, error=problem.message)
        return None
    if other is None:
        return None
    opened = run.container.opened
    if opened is not None:
        run.container.refused(opened.end(opened.usage, model.cost(opened.usage), error.as_dict()))
    name = other.input.model.facts.name
    emitter.emit(ModelFallback(asked=model.name, model=name, error=error.as_dict()))
    await hooks.decided((Decision(DecisionKind.FALLBACK, model.name, name, "engine", error.message),))
    return other
