"""`App`: everything that serves conversations, put together once and closed in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

import structlog

from lamella.app.providers import Models, Providers
from lamella.cache.ledger import Ledger
from lamella.cache.plan import policy_named
from lamella.chat import Chat
from lamella.core.clock import Clock, SystemClock
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import ConfigurationError, LamellaError, NotFound
from lamella.core.ids import Ids, RandomIds
from lamella.core.json import digest, encode
from lamella.core.ports import Store
from lamella.core.records import Caller, Conversation
from lamella.engine.bus import MemoryBus
from lamella.engine.journal import Journal
from lamella.engine.loop import Services
from lamella.engine.turn import EngineSettings, ModelSource, RequestHeaders, TurnEngine, layout_named, no_headers
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.intake import Intake
from lamella.llm.model_table import ModelTable
from lamella.settings import Settings
from lamella.storage.folder import FolderFileStore
from lamella.storage.lock import FolderLock
from lamella.storage.store import open_store
from lamella.tools.read_file import ReadFile
from lamella.tools.tool import Registry, Tool

log = structlog.get_logger()

LOCAL_OWNER = Caller("user_local")
"""On loopback without accounts everything belongs to the one person at this machine."""

SHIPPED_TOOLS: tuple[Tool, ...] = (ReadFile(),)


def shipped_system_prompt() -> str:
    """The system prompt that comes with the package."""
    return files("lamella.context").joinpath("prompts/system.md").read_text("utf-8").strip()


@dataclass(frozen=True, slots=True)
class App:
    """What the doors (server, terminal, replay) speak to."""

    settings: Settings
    engine_settings: EngineSettings
    store: Store
    chat: Chat
    models: Models
    intake: Intake
    registry: Registry
    clock: Clock
    ids: Ids
    creating: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def create_conversation(
        self,
        caller: Caller,
        *,
        title: str = "",
        model: str | None = None,
        layout: str = "lamella",
        marker_policy: str | None = None,
        key: str | None = None,
    ) -> Conversation:
        """A new conversation, with today's system prompt and tools pinned to it; raises `InvalidRequest`.

        With an Idempotency-Key that was used for the same before, gives that conversation.
        """
        name = model or self.models.default
        self.models.facts(name)
        chosen = layout_named(layout)
        policy = policy_named(marker_policy or self.settings.marker_policy or chosen.markers)
        now = self.clock.now()
        conversation = Conversation(
            id=self.ids.new("conv"),
            title=title.strip(),
            model=name,
            layout=layout,
            marker_policy=policy.value,
            system_prompt=shipped_system_prompt(),
            tools=self.registry.specs(),
            created_at=now,
            updated_at=now,
        )
        if key is not None:
            fingerprint = digest(encode([title, model, layout, marker_policy]))
            return await self._create_once(caller, conversation, key, fingerprint)
        await self.store.create_conversation(caller, conversation)
        return conversation

    async def _create_once(self, caller: Caller, new: Conversation, key: str, fingerprint: str) -> Conversation:
        """The conversation that a key is bound to, made now if nobody came to that."""
        async with self.creating:
            bound = await self.store.claim_key(caller, key, "conversations", fingerprint, new.id, new.created_at)
            try:
                return await self.store.conversation(caller, bound)
            except NotFound:
                conversation = replace(new, id=bound)
            await self.store.create_conversation(caller, conversation)
            return conversation


def engine_settings(settings: Settings, headers: RequestHeaders = no_headers) -> EngineSettings:
    """The engine's part of the settings."""
    return EngineSettings(
        context_budget=settings.context_budget,
        max_output=settings.max_output,
        thinking_effort=settings.thinking_effort,
        step_limit=settings.step_limit,
        reminders=(settings.reminder,) if settings.reminder else (),
        headers=headers,
    )


@dataclass(frozen=True, slots=True)
class Core:
    """The engine over a store, without doors and uploads: what `serve` and `replay` share."""

    chat: Chat
    services: Services


def build_core(services: Services, models: ModelSource, settings: EngineSettings) -> Core:
    """Wire the turn engine."""
    bus = MemoryBus()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings)
    return Core(Chat(engine, services, journal, bus), services)


def build_services(store: Store, tools: Sequence[Tool], clock: Clock, ids: Ids) -> Services:
    """What the engine needs, with a ledger of its own."""
    return Services(store, clock, ids, ApproximateCounter(), Registry(tools), Ledger())


def database_path(data: Path) -> Path:
    """Where the rows of a data folder lie."""
    return data / "lamella.db"


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    models: Models | None = None,
    tools: Sequence[Tool] = SHIPPED_TOOLS,
    headers: RequestHeaders = no_headers,
) -> AsyncIterator[App]:
    """The app over its data folder: locked, migrated, recovered; closed when the block ends.

    A deployment may bring its own models and tools, and headers for the requests to its provider.
    """
    async with AsyncExitStack() as stack:
        try:
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {settings.data} can't be made: {error.strerror}.", hint="Set LAMELLA_DATA or --data."
            ) from error
        stack.enter_context(FolderLock(settings.data))
        clock = SystemClock()
        ids = RandomIds(clock)
        store = await stack.enter_async_context(await open_store(database_path(settings.data)))
        models = models or Providers(settings, ModelTable.shipped())
        stack.push_async_callback(models.close)
        models.facts(models.default)
        engine = engine_settings(settings, headers)
        core = build_core(build_services(store, tools, clock, ids), models, engine)
        uploads = FolderFileStore(settings.data / "files")
        await uploads.sweep(await store.file_ids())
        extractor = ProcessExtractor(ExtractionLimits(max_bytes=settings.max_upload_bytes))
        await core.chat.start()
        stack.push_async_callback(core.chat.close)
        warming = asyncio.create_task(_warm(models))
        stack.push_async_callback(_cancel, warming)
        yield App(
            settings=settings,
            engine_settings=engine,
            store=store,
            chat=core.chat,
            models=models,
            intake=Intake(store, uploads, extractor, clock, ids, settings.max_upload_bytes),
            registry=core.services.registry,
            clock=clock,
            ids=ids,
        )


async def _warm(models: Models) -> None:
    try:
        await models.warm()
    except LamellaError as error:
        log.warning("the model is not ready", error=error.message)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
