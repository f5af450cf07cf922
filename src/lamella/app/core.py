"""Wires the engine over a store: shared by the server and replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lamella.cache.ledger import Ledger
from lamella.chat import Chat
from lamella.chat.dynamic_context import DynamicContexts
from lamella.chat.replica import Replica
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.ids import Ids
from lamella.core.ports import Jobs, ModelSource, StreamBus
from lamella.core.settings import EngineSettings
from lamella.sessions.recall.recall import Recall
from lamella.sessions.sessions import Sessions
from lamella.sessions.summariser import SummaryModelSource
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella.turns.heard import HeardTurns
from lamella.turns.journal import Journal, MemoryBus
from lamella.turns.services import RequestHeaders, Services, StoredAgentAndProject, no_headers
from lamella.turns.turn import TurnEngine


@dataclass(frozen=True, slots=True)
class Core:
    """The engine over a store, without server and uploads; shared by `serve` and `replay`."""

    chat: Chat
    services: Services
    sessions: Sessions


def build_core(
    services: Services,
    models: ModelSource,
    settings: EngineSettings | None = None,
    *,
    jobs: Jobs,
    layouts: Mapping[str, Layout] = LAYOUTS,
    summary_model: SummaryModelSource | None = None,
    recall: Recall | None = None,
    bus: StreamBus | None = None,
    contexts: DynamicContexts | None = None,
    replica: Replica | None = None,
    heard: HeardTurns | None = None,
) -> Core:
    """Wire the turn engine and the follow-up of turns. Without `bus` an in-process bus is used; without `contexts` the
    server adds no dynamic context; without `replica` no other process serves this store.
    """
    bus, settings = bus or MemoryBus(), settings or EngineSettings()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings, layouts)
    sessions = Sessions(engine.loader, services, jobs, settings, summary_model, recall)
    return Core(Chat(engine, services, journal, bus, sessions, settings, contexts, replica, heard), services, sessions)


def build_services(
    store: Store,
    registry: Registry,
    clock: Clock,
    ids: Ids,
    ledger: Ledger | None = None,
    headers: RequestHeaders = no_headers,
) -> Services:
    """The services of the engine; without a ledger, with a new one."""
    ledger, around = ledger or Ledger(), StoredAgentAndProject(store)
    return Services(registry, ledger, clock, ids, ApproximateCounter(), store, around, headers)
