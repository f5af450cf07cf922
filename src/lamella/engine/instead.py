"""Another model in the place of one that failed before anything of its answer was shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LamellaError, ProviderError
from lamella.core.packets import ModelFallback
from lamella.core.records import ConversationChange
from lamella.engine.container import StateContainer
from lamella.engine.emitter import Emitter
from lamella.engine.inputs import RunInput, Services, TurnInput
from lamella.engine.request import Line

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Instead:
    """A run of another model: its window is built anew, of the same turn."""

    turn: TurnInput
    input: RunInput
    line: Line | None


FindInstead = Callable[[], Awaitable[Instead | None]]
"""Finds the model that answers in the place of another; None where there is none. Raises a `LamellaError`."""


async def taken_over(
    failed: RunInput, container: StateContainer, error: ProviderError, find: FindInstead | None, emitter: Emitter
) -> Instead | None:
    """Who goes on after `error`: the request that failed is closed, and clients are told."""
    try:
        other = await find() if find is not None else None
    except LamellaError as problem:
        log.error("no other model can answer", model=failed.model.facts.name, error=problem.message)
        return None
    if other is None:
        return None
    opened, model = container.opened, failed.model.facts
    if opened is not None:
        cost = model.cost(opened.usage)
        container.refused(opened.end(opened.usage, cost, error.as_dict()))
    emitter.emit(ModelFallback(asked=model.name, model=other.input.model.facts.name, error=error.as_dict()))
    return other


async def record(other: Instead, failed: RunInput, error: LamellaError, services: Services) -> None:
    """Store the decision that another model answers."""
    name = other.input.model.facts.name
    decision = Decision(DecisionKind.FALLBACK, failed.model.facts.name, name, "engine", error.message)
    change = ConversationChange(decisions=(decision,))
    now = services.clock.now()
    await services.store.change_conversation(other.turn.caller, other.turn.conversation.id, change, now)
