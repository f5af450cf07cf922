"""The input of an assembly: everything that may be in the window, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lamella.core.agents import Agent, Project, Summary
from lamella.core.decisions import Decision
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, ToolSpec

MARGIN = 0.05
"""How much of the budget an estimate may not use (law 7)."""


@dataclass(frozen=True, slots=True)
class ContextInput:
    """The data of one request.

    `history` are the finished turns of the path, `turn` is the running one with its steps so far. `budget` is in
    tokens; `calibration` is the provider's tokens per local token so far. `reminder` is this step's merged reminder;
    `searched`: a search-like tool returned a result in this turn. `summaries` are those of earlier sessions, oldest
    first. `last_step`: no more tool calls are allowed. `can_compact`: the engine can summarise old turns.
    `keeps_results`: old results give way last. `keeps_turns`: no turn or summary is left out, because a summary is made
    of all of them.

    `limit`, in tokens: what the provider seems to accept, learned from a refusal. Content gives way to stay below it,
    but a window above it is no error. `margin`: the share by which an estimate may be too low; content gives way for it
    too. `doubt`: the share by which it may be too high: a window is refused here only if it is too large even then.
    `sent_before`: when the newest messages were sent that are no longer in the window.
    """

    model: ModelFacts
    budget: int
    sampling: Sampling
    system: str
    tools: tuple[ToolSpec, ...]
    history: tuple[Turn, ...]
    turn: Turn
    reminder: str = ""
    decisions: tuple[Decision, ...] = ()
    calibration: float = 1.0
    agent: Agent | None = None
    project: Project | None = None
    summaries: tuple[Summary, ...] = ()
    searched: bool = False
    last_step: bool = False
    can_compact: bool = False
    keeps_results: bool = False
    keeps_turns: bool = False
    limit: int | None = None
    margin: float = MARGIN
    doubt: float = 0.0
    sent_before: tuple[datetime, ...] = ()

    @property
    def agent_replaces_system(self) -> bool:
        """Whether the agent's prompt replaces the whole system prompt."""
        return self.agent is not None and self.agent.replaces_system
