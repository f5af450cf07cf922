"""The engine over a store, wired: what a server and a replay share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lamella.app.surroundings import StoredSurroundings
from lamella.cache.ledger import Ledger
from lamella.chat import Chat, QueueSettings
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.ids import Ids
from lamella.core.ports import Jobs, Store, StreamBus
from lamella.engine.bus import MemoryBus
from lamella.engine.inputs import Services
from lamella.engine.journal import Journal
from lamella.engine.opening import EngineSettings, ModelSource
from lamella.engine.turn import TurnEngine
from lamella.sessions.recall.recall import Recall
from lamella.sessions.sessions import Sessions
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SecondSource
from lamella.tools.tool import Registry


@dataclass(frozen=True, slots=True)
class Core:
    """The engine over a store, without doors and uploads: what `serve` and `replay` share."""

    chat: Chat
    services: Services
    sessions: Sessions


def build_core(
    services: Services,
    models: ModelSource,
    settings: EngineSettings,
    layouts: Mapping[str, Layout] = LAYOUTS,
    sessions: SessionSettings | None = None,
    queue: QueueSettings | None = None,
    *,
    jobs: Jobs,
    second: SecondSource | None = None,
    recall: Recall | None = None,
    bus: StreamBus | None = None,
) -> Core:
    """Wire the turn engine and what follows a turn. Without `queue` a message is answered at once; without `bus`, that
    of this process alone is used.
    """
    bus = bus or MemoryBus()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings, layouts)
    kept = Sessions(engine.openings, services, jobs, sessions or SessionSettings(), second, recall)
    return Core(Chat(engine, services, journal, bus, kept, queue or QueueSettings()), services, kept)


def build_services(store: Store, registry: Registry, clock: Clock, ids: Ids, ledger: Ledger | None = None) -> Services:
    """What the engine needs; without a ledger, with a new one."""
    return Services(store, clock, ids, ApproximateCounter(), registry, ledger or Ledger(), StoredSurroundings(store))
