"""Runs: one task for each model that answers a message; packets in arrival order (SPEC O13, hop 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from lamella.core.decisions import Decision
from lamella.core.errors import LamellaError, ProviderError
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.packets import ErrorPacket, Packet, RunFinished, RunStarted, UsageBody
from lamella.core.tokens import Usage
from lamella.engine.container import StateContainer
from lamella.engine.emitter import Emitter
from lamella.engine.inputs import RunInput, Services, TurnInput
from lamella.engine.instead import FindInstead, record, taken_over
from lamella.engine.loop import Loop
from lamella.engine.request import Line

log = structlog.get_logger()


@dataclass(slots=True)
class Run:
    """One model's part of a turn: what it was given, what it produced and decided, and how it ended.

    An `error` that is there from the beginning is why it can't answer: its model is not asked. `instead` finds the
    model that answers where this one fails before it has shown anything.
    """

    input: RunInput
    container: StateContainer
    line: Line | None
    decisions: tuple[Decision, ...] = ()
    calibration: float = 0.0
    status: TurnStatus = TurnStatus.RUNNING
    error: LamellaError | None = None
    instead: FindInstead | None = None

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


@dataclass(slots=True)
class Acting:
    """Which run of a turn may change something outside: the first, unless the user prefers another meanwhile."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Course:
    """How the runs of a turn go: where packets go to, when somebody stops one of them, and which of them may act."""

    sink: Callable[[Packet], None]
    stopped: Callable[[str], Awaitable[None]]
    acting: Acting


async def run_models(turn: TurnInput, runs: Sequence[Run], services: Services, course: Course) -> None:
    """Let every model answer; one that fails or is stopped ends, and the others go on."""
    async with asyncio.TaskGroup() as group:
        for index, run in enumerate(runs):
            group.create_task(_one(turn, run, services, Emitter(course.sink, index), course))


async def _one(turn: TurnInput, run: Run, services: Services, emitter: Emitter, course: Course) -> None:
    facts = run.input.model.facts
    emitter.emit(RunStarted(run_id=run.id, model=facts.name, caution=facts.caution))
    said = await _until_stopped(run, _answer(turn, run, services, emitter, course), course)
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


async def _until_stopped(run: Run, answer: Awaitable[str], course: Course) -> str:
    """The answer's end, or that of whoever stopped it."""
    work, stop = asyncio.ensure_future(answer), asyncio.ensure_future(course.stopped(run.id))
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


async def _answer(turn: TurnInput, run: Run, services: Services, emitter: Emitter, course: Course) -> str:
    """Why the model stopped; a failure is the run's error."""
    if run.error is not None:
        return "error"
    try:
        stop_reason = await _asked(turn, run, services, emitter, course)
    except LamellaError as error:
        run.error = error
        return "error"
    except Exception:  # the border where a run's failure becomes a packet; the cause is in the log
        log.exception("run failed", run_id=run.id, turn_id=turn.turn.id)
        run.error = LamellaError("The turn failed inside the server.", hint="The server's log has the cause.")
        return "error"
    run.status = TurnStatus.FINISHED
    return stop_reason.value


async def _asked(turn: TurnInput, run: Run, services: Services, emitter: Emitter, course: Course) -> StopReason:
    """The loop of the run's model, and that of another one where it fails before it has shown anything."""
    loop = _loop(turn, run, services, emitter, course)
    try:
        return await _run(run, loop)
    except ProviderError as error:
        if loop.has_shown:
            raise
        failed = run.input
        other = await taken_over(failed, run.container, error, run.instead, emitter)
        if other is None:
            raise
        await record(other, failed, error, services)
        run.input, run.line = other.input, other.line
    return await _run(run, _loop(other.turn, run, services, emitter, course))


def _loop(turn: TurnInput, run: Run, services: Services, emitter: Emitter, course: Course) -> Loop:
    return Loop(
        turn,
        run.input,
        services,
        emitter,
        run.container,
        run.line,
        may_act=lambda: course.acting.run_id == run.id,
    )


async def _run(run: Run, loop: Loop) -> StopReason:
    try:
        return await loop.run()
    finally:
        run.line, run.decisions, run.calibration = loop.line, loop.decisions, loop.calibration
