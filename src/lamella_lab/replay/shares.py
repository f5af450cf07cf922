"""The settings of a trace, as each layer takes them: what it does not say is as shipped."""

from __future__ import annotations

from dataclasses import replace

from lamella.app.core import CoreSettings
from lamella.core.models import OFF, ModelFacts
from lamella.settings import Settings
from lamella_lab.trace.format import Trace
from lamella_lab.trace.settings import GivenSettings, settings_of


def replay_settings(asked: GivenSettings, trace: Trace, facts: ModelFacts) -> Settings:
    """The settings of a replay. A turn may have as many steps as the longest of the trace, and one more; nobody asks
    for a title that the trace does not ask for.
    """
    longest = max((len(run.steps) + 1 for turn in trace.turns for run in turn.answers), default=0)
    shipped = settings_of({})
    own = {
        "step_limit": max(shipped.step_limit, longest),
        "thinking_effort": _effort(trace, facts),
        "titles": False,
    }
    return settings_of(own | {name: value for name, value in asked.items() if value is not None})


def played_settings(parts: CoreSettings) -> CoreSettings:
    """Those of a replay that is played as it was: what the engine did by itself between turns is in its trace.

    Thresholds stay: the words that a summary is asked for with, and what earlier ones may hold, come from them.
    """
    return replace(parts, sessions=replace(parts.sessions, by_itself=False))


def _effort(trace: Trace, facts: ModelFacts) -> str:
    """Thinking is on when the trace has any: else the simulator would have no place for it."""
    thinks = any(step.thinks for turn in trace.turns for step in turn.all_steps)
    return "medium" if thinks and facts.thinking != "none" else OFF
