"""The engine over a store, wired: what a server and a replay share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamella.cache.ledger import Ledger
from lamella.chat import Chat, QueueSettings
from lamella.chat.dynamic_context import DynamicContexts
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.ids import Ids
from lamella.core.ports import Jobs, ModelSource, StreamBus
from lamella.sessions.recall.recall import Recall
from lamella.sessions.sessions import Sessions
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SecondSource
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella.turns.journal import Journal, MemoryBus
from lamella.turns.loader import EngineSettings
from lamella.turns.services import Services, StoredAgentAndProject
from lamella.turns.turn import TurnEngine


@dataclass(frozen=True, slots=True)
class Core:
    """The engine over a store, without doors and uploads: what `serve` and `replay` share."""

    chat: Chat
    services: Services
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """What a deployment sets, layer by layer, and the layouts that it has. As it is, a message is answered at once."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    queue: QueueSettings = field(default_factory=QueueSettings)
    layouts: Mapping[str, Layout] = field(default_factory=lambda: LAYOUTS)


def build_core(
    services: Services,
    models: ModelSource,
    settings: CoreSettings | None = None,
    *,
    jobs: Jobs,
    second: SecondSource | None = None,
    recall: Recall | None = None,
    bus: StreamBus | None = None,
    contexts: DynamicContexts | None = None,
) -> Core:
    """Wire the turn engine and what follows a turn; without `bus`, that of this process alone is used, and without
    `contexts` the server adds no dynamic context.
    """
    bus, settings = bus or MemoryBus(), settings or CoreSettings()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings.engine, settings.layouts)
    sessions = Sessions(engine.loader, services, jobs, settings.sessions, second, recall)
    return Core(Chat(engine, services, journal, bus, sessions, settings.queue, contexts), services, sessions)


def build_services(store: Store, registry: Registry, clock: Clock, ids: Ids, ledger: Ledger | None = None) -> Services:
    """What the engine needs; without a ledger, with a new one."""
    return Services(registry, ledger or Ledger(), clock, ids, ApproximateCounter(), store, StoredAgentAndProject(store))
