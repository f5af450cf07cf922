"""What each thinking effort would ask of a conversation's model, and what changing to it would cost now (SPEC L14)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lamella.agent.request import cache_root
from lamella.cache.ledger import Unread, unread
from lamella.cache.window import chain
from lamella.core.counting import aside
from lamella.core.messages import Turn, TurnStatus, UserMessage
from lamella.core.models import EFFORT_LEVELS, OFF, AskedThinking, asked_thinking, tokens_of
from lamella.core.prompt import Prompt, WireBlock
from lamella.engine.opening import Opening
from lamella.engine.services import Services
from lamella.sessions.window import as_it_stands

_Window = tuple[Prompt, tuple[WireBlock, ...]]

_NOTHING = "nothing"
"""The id of the message that is only there because a window has a newest one."""


@dataclass(frozen=True, slots=True)
class EffortChoice:
    """An effort that a conversation may have. `lost` is what changing to it keeps the next request from reading."""

    effort: str
    current: bool
    asked: AskedThinking
    lost: Unread | None


async def effort_choices(opening: Opening, services: Services) -> tuple[EffortChoice, ...]:
    """Off, the levels and the current one, from none to most. Nothing is stored and nothing is sent."""
    sampling, facts = opening.run.sampling, opening.run.model.facts
    now = sampling.thinking_effort
    window = await _windowed(opening, services)
    return tuple(
        EffortChoice(
            effort=name,
            current=name == now,
            asked=asked_thinking(facts, name, sampling.max_output),
            lost=_lost(opening, services, window, before=now, after=name),
        )
        for name in sorted({OFF, *EFFORT_LEVELS, now}, key=tokens_of)
    )


async def lost_since(opening: Opening, services: Services, before: str) -> Unread | None:
    """What the next request can't read that it could with the effort `before`."""
    now = opening.run.sampling.thinking_effort
    return _lost(opening, services, await _windowed(opening, services), before=before, after=now)


def _lost(opening: Opening, services: Services, window: _Window, *, before: str, after: str) -> Unread | None:
    if before == after:
        return None
    prompt, blocks = window
    model, run = opening.run.model, opening.run
    salts = [model.salts(replace(prompt.sampling, thinking_effort=effort)) for effort in (before, after)]
    changed = chain(blocks, cache_root(run.account, model.facts), salts[1])
    lost = unread(changed, salts[0], services.ledger, services.clock.now(), model.facts)
    return lost if lost is not None and lost.tokens else None


async def _windowed(opening: Opening, services: Services) -> _Window:
    return await aside(len(opening.found.path), _window, opening, services)


def _window(opening: Opening, services: Services) -> _Window:
    """What stands before a next message."""
    turns = tuple(turn for turn in opening.found.path if turn.status is not TurnStatus.RUNNING)
    newest = Turn(_NOTHING, UserMessage(_NOTHING, "", services.clock.now(), "UTC", 0))
    prompt = as_it_stands(replace(opening.context(newest), history=turns), opening.setting.layout).prompt
    return prompt, opening.run.model.wire(prompt).blocks
