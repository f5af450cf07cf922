"""Runs: one task for each model that answers a message; packets in arrival order (SPEC O13, hop 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from lamella.core.decisions import Decision
from lamella.core.errors import LamellaError
from lamella.core.messages import StopReason
from lamella.core.packets import ErrorPacket, Packet, RunFinished, RunStarted
from lamella.engine.container import StateContainer
from lamella.engine.emitter import Emitter
from lamella.engine.loop import Loop, RunInput, Services, TurnInput
from lamella.engine.request import Line

log = structlog.get_logger()


@dataclass(slots=True)
class Run:
    """One model's part of a turn: what it was given, what it produced and decided, and how it ended."""

    id: str
    input: RunInput
    container: StateContainer
    line: Line | None
    decisions: tuple[Decision, ...] = ()
    calibration: float = 0.0
    error: LamellaError | None = None
    finished: bool = False


async def run_models(turn: TurnInput, runs: Sequence[Run], services: Services, sink: Callable[[Packet], None]) -> None:
    """Let every model answer; one that fails ends with an error packet and the others go on."""
    async with asyncio.TaskGroup() as group:
        for index, run in enumerate(runs):
            group.create_task(_one(turn, run, services, Emitter(sink, index)))


async def _one(turn: TurnInput, run: Run, services: Services, emitter: Emitter) -> None:
    facts = run.input.model.facts
    emitter.emit(RunStarted(run_id=run.id, model=facts.name))
    loop = Loop(turn, run.input, services, emitter, run.container, run.line)
    try:
        stop_reason = await loop.run()
    except LamellaError as error:
        run.error = error
    except Exception:  # the border where a run's failure becomes a packet; the cause is in the log
        log.exception("run failed", run_id=run.id, turn_id=turn.turn.id)
        run.error = LamellaError("The turn failed inside the server.", hint="The server's log has the cause.")
    else:
        run.finished = True
        emitter.emit(RunFinished(run_id=run.id, status=stop_reason.value))
    finally:
        run.line, run.decisions, run.calibration = loop.line, loop.decisions, loop.calibration
    if run.error is not None:
        run.container.cut_off(StopReason.ERROR, facts.cost)
        emitter.emit(ErrorPacket(error=run.error.as_dict()))
        emitter.emit(RunFinished(run_id=run.id, status="error"))
