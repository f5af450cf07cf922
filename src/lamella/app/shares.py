"""The parts of the settings, as each layer takes them."""

from __future__ import annotations

from collections.abc import Mapping

from lamella.app.core import CoreSettings
from lamella.cache.pruning import PruneSettings
from lamella.chat import QueueSettings
from lamella.context.layout import Layout
from lamella.core.prompt import Ttl
from lamella.sessions.settings import SessionSettings
from lamella.settings import Settings
from lamella.turns.loader import EngineSettings, RequestHeaders, no_headers
from lamella.turns.session_choices import FormRule

JOINING = 3.0
"""Seconds in which messages that come during an answer join, where no debounce is set."""


def core_settings(
    settings: Settings, layouts: Mapping[str, Layout], headers: RequestHeaders, *, demonstration: bool
) -> CoreSettings:
    """What the core takes of the settings."""
    return CoreSettings(
        engine_settings(settings, headers),
        session_settings(settings, demonstration=demonstration),
        queue_settings(settings),
        layouts,
    )


def engine_settings(settings: Settings, headers: RequestHeaders = no_headers) -> EngineSettings:
    """The engine's part of the settings."""
    return EngineSettings(
        context_budget=settings.context_budget,
        max_output=settings.max_output,
        thinking_effort=settings.thinking_effort,
        fallback_model=settings.fallback_model,
        step_limit=settings.step_limit,
        reminders=(settings.reminder,) if settings.reminder else (),
        keeps_results=settings.tool_summarization_policy == "keep_all",
        headers=headers,
        cache_enabled=settings.cache_enabled,
        cache_diagnostics=settings.cache_diagnostics,
        cache_ttl=Ttl(settings.cache_ttl) if settings.cache_ttl is not None else None,
        dynamic_form=FormRule(settings.dynamic_context_form),
    )


def session_settings(settings: Settings, *, demonstration: bool) -> SessionSettings:
    """The sessions' part of the settings."""
    return SessionSettings(
        keep_recent=settings.keep_recent_tokens,
        compaction=settings.compaction_threshold,
        resume=settings.resume_token_budget,
        pruning=PruneSettings(
            settings.tool_prune_threshold,
            settings.tool_keep_threshold,
            settings.tool_summarization_policy,
            settings.tool_prune_when,
        ),
        notify=settings.compaction_notify,
        compact_when=settings.compaction_when,
        floor=settings.compaction_floor,
        titles=settings.titles and not demonstration,
    )


def queue_settings(settings: Settings) -> QueueSettings:
    """The queue's part of the settings."""
    chosen = settings.debounce_ms
    return QueueSettings(
        debounce=(chosen or 0) / 1000,
        joining=JOINING if chosen is None else chosen / 1000,
        limit=settings.queue_limit,
    )
