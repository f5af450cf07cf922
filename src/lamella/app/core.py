"""Wires the engine over a store: shared by the server and replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamella.cache.ledger import Ledger
from lamella.cache.pruning import PruneSettings
from lamella.chat import Chat, QueueSettings
from lamella.chat.dynamic_context import DynamicContexts
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.ids import Ids
from lamella.core.ports import Jobs, ModelSource, StreamBus
from lamella.core.prompt import Ttl
from lamella.core.records import Retention
from lamella.sessions.recall.recall import Recall
from lamella.sessions.sessions import Sessions
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SummaryModelSource
from lamella.settings import Settings
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella.turns.journal import Journal, MemoryBus
from lamella.turns.loader import EngineSettings, RequestHeaders
from lamella.turns.services import Services, StoredAgentAndProject
from lamella.turns.session_choices import FormRule
from lamella.turns.turn import TurnEngine

JOINING = 3.0
"""Seconds in which messages during an answer are joined, if no debounce is set."""


@dataclass(frozen=True, slots=True)
class Core:
    """The engine over a store, without server and uploads; shared by `serve` and `replay`."""

    chat: Chat
    services: Services
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The deployment's settings by layer, and its layouts. The defaults answer a message at once."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    queue: QueueSettings = field(default_factory=QueueSettings)
    layouts: Mapping[str, Layout] = field(default_factory=lambda: LAYOUTS)

    @classmethod
    def of(
        cls, settings: Settings, layouts: Mapping[str, Layout], headers: RequestHeaders, *, demonstration: bool
    ) -> CoreSettings:
        """The deployment's settings, as each layer takes them."""
        return cls(
            _engine_settings(settings, headers),
            _session_settings(settings, demonstration=demonstration),
            _queue_settings(settings),
            layouts,
        )


def _engine_settings(settings: Settings, headers: RequestHeaders) -> EngineSettings:
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


def _session_settings(settings: Settings, *, demonstration: bool) -> SessionSettings:
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
        keeps=Retention(settings.keep_packets_days, settings.keep_requests_days),
    )


def _queue_settings(settings: Settings) -> QueueSettings:
    """The queue's part of the settings."""
    chosen = settings.debounce_ms
    return QueueSettings(
        debounce=(chosen or 0) / 1000,
        joining=JOINING if chosen is None else chosen / 1000,
        limit=settings.queue_limit,
    )


def build_core(
    services: Services,
    models: ModelSource,
    settings: CoreSettings | None = None,
    *,
    jobs: Jobs,
    summary_model: SummaryModelSource | None = None,
    recall: Recall | None = None,
    bus: StreamBus | None = None,
    contexts: DynamicContexts | None = None,
) -> Core:
    """Wire the turn engine and the follow-up of turns. Without `bus` an in-process bus is used; without `contexts` the
    server adds no dynamic context.
    """
    bus, settings = bus or MemoryBus(), settings or CoreSettings()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings.engine, settings.layouts)
    sessions = Sessions(engine.loader, services, jobs, settings.sessions, summary_model, recall)
    return Core(Chat(engine, services, journal, bus, sessions, settings.queue, contexts), services, sessions)


def build_services(store: Store, registry: Registry, clock: Clock, ids: Ids, ledger: Ledger | None = None) -> Services:
    """The services of the engine; without a ledger, with a new one."""
    return Services(registry, ledger or Ledger(), clock, ids, ApproximateCounter(), store, StoredAgentAndProject(store))
