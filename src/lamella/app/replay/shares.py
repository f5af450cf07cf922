"""The settings of a trace, as each layer takes them: what it does not say is as shipped."""

from __future__ import annotations

from lamella.app.trace.format import Trace, TraceSettings
from lamella.core.amounts import Threshold
from lamella.core.effort import OFF, effort_named
from lamella.core.models import ModelFacts
from lamella.engine.dynamic_form import FormRule
from lamella.engine.opening import EngineSettings
from lamella.sessions.pruning import PruneSettings
from lamella.sessions.settings import SessionSettings


def engine_settings(asked: TraceSettings, trace: Trace, facts: ModelFacts) -> EngineSettings:
    """The engine's part; a turn may have as many steps as the longest of the trace, and one more."""
    shipped = EngineSettings()
    longest = max((len(turn.steps) + 1 for turn in trace.turns), default=0)
    return EngineSettings(
        context_budget=asked.context_budget,
        max_output=asked.max_output or shipped.max_output,
        step_limit=asked.step_limit or max(shipped.step_limit, longest),
        thinking_effort=effort_named(asked.thinking_effort or _effort(trace, facts)),
        reminders=(asked.reminder,) if asked.reminder else (),
        dynamic_form=FormRule(asked.dynamic_context_form or shipped.dynamic_form),
    )


def session_settings(asked: TraceSettings) -> SessionSettings:
    """The sessions' part."""
    shipped, usual = PruneSettings(), SessionSettings()
    threshold, keep = asked.tool_prune_threshold, asked.tool_keep_threshold
    pruning = PruneSettings(
        shipped.threshold if threshold is None else threshold,
        shipped.keep if keep is None else keep,
        when=asked.tool_prune_when or shipped.when,
    )
    given, recent = asked.compaction_threshold, asked.keep_recent_tokens
    return SessionSettings(
        keep_recent=usual.keep_recent if recent is None else recent,
        compaction=usual.compaction if given is None else Threshold.of(str(given)),
        pruning=pruning,
        notify=usual.notify if asked.compaction_notify is None else asked.compaction_notify,
        compact_when=asked.compaction_when or usual.compact_when,
    )


def _effort(trace: Trace, facts: ModelFacts) -> str:
    """Thinking is on when the trace has any: else the simulator would have no place for it."""
    thinks = any(step.reasoning for turn in trace.turns for step in turn.steps)
    return "medium" if thinks and facts.thinking != "none" else OFF
