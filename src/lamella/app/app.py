"""`App`: everything that serves conversations, put together once and closed in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from lamella.app.accounts import Accounts
from lamella.app.base_descriptions import describer
from lamella.app.bases import Bases
from lamella.app.conversations import Conversations
from lamella.app.embedding import embedder_of
from lamella.app.expired_keys import forget_expired_keys
from lamella.app.kept_ledger import kept_ledger
from lamella.app.knowledge import Knowledge, knowledge_of
from lamella.app.library import Library
from lamella.app.once import Once
from lamella.app.providers import Models, Providers
from lamella.app.restricted_model import restricted_of
from lamella.app.second import second_of
from lamella.app.surroundings import StoredSurroundings
from lamella.cache.ledger import Ledger
from lamella.chat import Chat, QueueSettings
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS, by_name
from lamella.context.system_prompt import STATIC_SECTIONS, static_text
from lamella.core.access import LOCAL_USER
from lamella.core.access_ports import Access
from lamella.core.clock import Clock, SystemClock
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import ConfigurationError, InvalidRequest, LamellaError
from lamella.core.ids import Ids, RandomIds
from lamella.core.models import ModelFacts
from lamella.core.ports import FileStore, Jobs, Store
from lamella.core.prompt import Ttl
from lamella.core.records import Caller
from lamella.engine.bus import MemoryBus
from lamella.engine.inputs import Services
from lamella.engine.journal import Journal
from lamella.engine.opening import EngineSettings, ModelSource, RequestHeaders, no_headers
from lamella.engine.turn import TurnEngine
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.intake import Intake
from lamella.llm.model_table import ModelTable
from lamella.sessions.pruning import PruneSettings
from lamella.sessions.recall.recall import Recall
from lamella.sessions.recall.tools import ReadMessage, SearchConversation
from lamella.sessions.sessions import Sessions
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SecondSource
from lamella.settings import Settings, environment
from lamella.storage.cached import SqlCacheEntries
from lamella.storage.folder import FolderFileStore
from lamella.storage.lock import FolderLock
from lamella.storage.recall import SqlRecallIndex
from lamella.storage.store import SqlStore, open_store
from lamella.tools.knowledge_base_search import CallLimits, KnowledgeBaseSearch
from lamella.tools.mcp.config import read_servers
from lamella.tools.mcp.servers import McpServers
from lamella.tools.read_file import ReadFile
from lamella.tools.tool import Registry, Tool
from lamella.tools.web.addresses import AddressPolicy, allowances
from lamella.tools.web.fetching import Fetcher, FetchLimits
from lamella.tools.web.open_url import OpenUrl

log = structlog.get_logger()

LOCAL_OWNER = Caller(LOCAL_USER)
"""On loopback without accounts everything belongs to the one person at this machine."""

SHIPPED_TOOLS: tuple[Tool, ...] = (ReadFile(),)
"""The tools that need no store: what a replay has."""


SEARCH_SECONDS = 30.0
"""How long a search of knowledge bases may take, beside what a second model says of those with restricted access."""


def shipped_tools(store: SqlStore, recall: Recall, knowledge: Knowledge, settings: Settings) -> tuple[Tool, ...]:
    """The tools of a server: files, knowledge bases, and what was said before."""
    limits = CallLimits(settings.knowledge_calls_per_turn, settings.knowledge_calls_per_conversation)
    searching = KnowledgeBaseSearch(knowledge.reader, limits, SEARCH_SECONDS + settings.restricted_timeout)
    if settings.recall == "off":
        return (ReadFile(store), searching)
    everywhere = settings.recall == "user"
    found = SearchConversation(recall, everywhere=everywhere), ReadMessage(recall, everywhere=everywhere)
    return (ReadFile(store), searching, *found)


def shipped_system_prompt() -> str:
    """The system prompt that comes with the package."""
    return static_text(STATIC_SECTIONS)


@dataclass(frozen=True, slots=True)
class App:
    """What the doors (server, terminal, replay) speak to."""

    settings: Settings
    engine_settings: EngineSettings
    store: Store
    chat: Chat
    sessions: Sessions
    recall: Recall
    models: Models
    intake: Intake
    uploads: FileStore
    registry: Registry
    mcp: McpServers
    layouts: Mapping[str, Layout]
    library: Library
    knowledge: Knowledge
    conversations: Conversations
    accounts: Accounts
    access: Access
    bases: Bases
    clock: Clock
    ids: Ids

    async def delete_file(self, caller: Caller, file_id: str) -> None:
        """Remove a file and its bytes; raises `FileInUse` while a message or a project holds it."""
        await self.store.delete_file(caller, file_id)
        await self.uploads.remove(file_id)
        self.knowledge.ingestion.wake()


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
        cache_ttl=Ttl(settings.cache_ttl) if settings.cache_ttl is not None else None,
    )


def session_settings(settings: Settings, *, demonstration: bool) -> SessionSettings:
    """The sessions' part of the settings."""
    return SessionSettings(
        keep_recent=settings.keep_recent_tokens,
        compaction=settings.compaction_threshold,
        resume=settings.resume_token_budget,
        pruning=PruneSettings(
            settings.tool_prune_threshold, settings.tool_keep_threshold, settings.tool_summarization_policy
        ),
        notify=settings.compaction_notify,
        compact_when=settings.compaction_when,
        titles=settings.titles and not demonstration,
    )


def web_tools(settings: Settings) -> tuple[Tool, ...]:
    """The tools that reach the web: none, unless they are switched on. Raises `ConfigurationError`."""
    policy = AddressPolicy(allowances(settings.open_url_allow))
    if not settings.open_url:
        return ()
    limits = FetchLimits()
    extractor = ProcessExtractor(ExtractionLimits(max_bytes=limits.max_bytes, seconds=30.0))
    return (OpenUrl(Fetcher(policy, limits=limits), extractor),)


def queue_settings(settings: Settings) -> QueueSettings:
    """The queue's part of the settings."""
    return QueueSettings(debounce=settings.debounce_ms / 1000, limit=settings.queue_limit)


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
) -> Core:
    """Wire the turn engine and what follows a turn. Without `queue` a message is answered at once."""
    bus = MemoryBus()
    journal = Journal(services.store, bus, services.clock)
    engine = TurnEngine(services, models, journal, bus, settings, layouts)
    kept = Sessions(engine.openings, services, jobs, sessions or SessionSettings(), second, recall)
    return Core(Chat(engine, services, journal, bus, kept, queue or QueueSettings()), services, kept)


def build_services(store: Store, registry: Registry, clock: Clock, ids: Ids, ledger: Ledger | None = None) -> Services:
    """What the engine needs; without a ledger, with a new one."""
    return Services(store, clock, ids, ApproximateCounter(), registry, ledger or Ledger(), StoredSurroundings(store))


def database_path(data: Path) -> Path:
    """Where the rows of a data folder lie."""
    return data / "lamella.db"


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    models: Models | None = None,
    tools: Sequence[Tool] | None = None,
    more_tools: Sequence[Tool] = (),
    layouts: Sequence[Layout] = (),
    headers: RequestHeaders = no_headers,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[App]:
    """The app over its data folder: locked, migrated, recovered; closed when the block ends.

    A deployment may bring its own models and tools, more layouts, headers for the requests to its provider, a clock,
    and a source of ids; without `tools` it has those of `shipped_tools`, and `more_tools` in any case. Raises
    `ConfigurationError` for a layout whose name is taken.
    """
    tables = by_name(*LAYOUTS.values(), *layouts)
    configs = read_servers(settings.mcp_servers, environment())
    async with AsyncExitStack() as stack:
        try:
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {settings.data} can't be made: {error.strerror}.", hint="Set LAMELLA_DATA or --data."
            ) from error
        stack.enter_context(FolderLock(settings.data))
        clock = clock or SystemClock()
        store = await stack.enter_async_context(await open_store(database_path(settings.data), ids))
        ids = ids or RandomIds(clock)
        table = ModelTable.read(settings.models)
        models = models or Providers(settings, table)
        stack.push_async_callback(models.close)
        _warn_of(models.facts(models.default))
        _check_fallback(settings.fallback_model, models)
        engine = engine_settings(settings, headers)
        embedder = embedder_of(settings)
        recall = Recall(store, SqlRecallIndex(store.database), embedder, store, clock)
        uploads = FolderFileStore(settings.data / "files")
        restricted = restricted_of(settings, models, table)
        if restricted is not None:
            stack.push_async_callback(restricted.close)
        second = second_of(settings, models, table)
        if second is not None:
            stack.push_async_callback(second.close)
        describes = settings.knowledge_summaries and not models.is_demonstration
        describing = describer(models, second) if describes else None
        knowledge = knowledge_of(settings, store, uploads, embedder, restricted, clock, ids, describing)
        offered = shipped_tools(store, recall, knowledge, settings) if tools is None else tools
        mcp = McpServers(configs)
        registry = Registry((*offered, *more_tools, *web_tools(settings)), (mcp,) if configs else ())
        ledger = await stack.enter_async_context(kept_ledger(SqlCacheEntries(store.database), clock))
        services = build_services(store, registry, clock, ids, ledger)
        sizes = session_settings(settings, demonstration=models.is_demonstration), queue_settings(settings)
        core = build_core(services, models, engine, tables, *sizes, jobs=store, second=second, recall=recall)
        once = Once(store, clock)
        library = Library(
            store=store,
            models=models,
            registry=services.registry,
            layouts=tables,
            settings=engine,
            counter=services.counter,
            shipped=shipped_system_prompt(),
            once=once,
            clock=clock,
            ids=ids,
            files_held=knowledge.ingestion.wake,
        )
        await uploads.sweep(await store.file_ids())
        extractor = ProcessExtractor(ExtractionLimits(max_bytes=settings.max_upload_bytes))
        await stack.enter_async_context(mcp.open())
        await core.chat.start()
        stack.push_async_callback(core.chat.close)
        knowledge.start()
        stack.push_async_callback(knowledge.close)
        for background in (_warm(models), forget_expired_keys(store, clock)):
            stack.push_async_callback(_cancel, asyncio.create_task(background))
        yield App(
            settings=settings,
            engine_settings=engine,
            store=store,
            chat=core.chat,
            sessions=core.sessions,
            recall=recall,
            models=models,
            intake=Intake(store, uploads, extractor, clock, ids, settings.max_upload_bytes),
            uploads=uploads,
            registry=services.registry,
            mcp=mcp,
            layouts=tables,
            library=library,
            knowledge=knowledge,
            conversations=Conversations(store, library, settings.marker_policy, once, clock, ids),
            accounts=Accounts(store, clock, ids),
            access=store,
            bases=Bases(store, once, clock, ids, knowledge.ingestion.wake),
            clock=clock,
            ids=ids,
        )


def _check_fallback(name: str | None, models: Models) -> None:
    if name is None:
        return
    try:
        _warn_of(models.facts(name))
    except InvalidRequest as error:
        raise ConfigurationError(error.message, hint=error.hint, param="LAMELLA_FALLBACK_MODEL") from None


def _warn_of(facts: ModelFacts) -> None:
    if facts.caution is not None:
        log.warning(facts.caution, model=facts.name)


async def _warm(models: Models) -> None:
    try:
        await models.warm()
    except LamellaError as error:
        log.warning("the model is not ready", error=error.message)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
