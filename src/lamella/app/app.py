"""`App` puts together everything that serves conversations, once, and closes it in order.

Also here: the tools that a server ships, the ledger of cached prefixes that outlives a restart, and the background task
that forgets Idempotency-Keys after their time.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes

import structlog

from lamella.app.accounts import LOCAL_IDENTITY, Accounts
from lamella.app.agent_models import AgentModels
from lamella.app.auxiliary_models import ServedModels, served_models
from lamella.app.bases import Bases
from lamella.app.conversations import Conversations, NewConversation
from lamella.app.core import Core, build_core, build_services
from lamella.app.embedding import embedder_of
from lamella.app.extensions import registered_blocks, registered_layouts, registered_tools, registered_wires
from lamella.app.idempotency import IdempotentCreation
from lamella.app.knowledge import Knowledge, knowledge_of
from lamella.app.library import Library
from lamella.app.providers import Models, Providers
from lamella.app.request_map import RequestMap, map_request
from lamella.app.retention import RetentionJob
from lamella.app.upstreams import UpstreamRow, Upstreams, cache_salt, read_upstreams
from lamella.cache.ledger import Ledger
from lamella.chat import Chat, OutgoingMessage
from lamella.chat.dynamic_context import Blocks, DynamicContexts
from lamella.chat.kb_meta_prompt import KbMetaPrompts
from lamella.chat.mailbox import in_progress
from lamella.chat.message import ExecutionRequest
from lamella.chat.replica import Replica
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS, by_name
from lamella.context.system_prompt import STATIC_SECTIONS, static_text
from lamella.core.access import LOCAL_USER, Identity, LineStorage
from lamella.core.caching import CacheEntries
from lamella.core.clock import Clock, SystemClock
from lamella.core.errors import ConfigurationError, InvalidRequest, LamellaError, StoreFailed
from lamella.core.ids import Ids, RandomIds
from lamella.core.models import ModelFacts
from lamella.core.packets import AnyPacket, decode_packet
from lamella.core.ports import StreamBus
from lamella.core.records import Caller, TurnRecord
from lamella.gateway.managing import ManagedContext
from lamella.gateway.recorder import recording
from lamella.gateway.relay import GatewayParts
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.file_uploads import FileUploads
from lamella.sessions.recall.recall import Recall
from lamella.sessions.recall.tools import ReadMessage, SearchConversation
from lamella.sessions.sessions import Sessions
from lamella.settings import Settings, environment, old_variables, unknown_variables
from lamella.storage.bases import AccessRows
from lamella.storage.cached import SqlCacheEntries
from lamella.storage.file_store import DAY, FileStore, claim, open_files
from lamella.storage.folder import FolderLock
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import PostgresDatabase, held_database
from lamella.storage.replicas import ReplicaRows
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry, Tool
from lamella.tools.addresses import AddressPolicy, allowances
from lamella.tools.knowledge_base_search import KnowledgeBaseSearch, SearchLimits
from lamella.tools.mcp.config import read_servers
from lamella.tools.mcp.servers import McpServers
from lamella.tools.open_url import Fetcher, FetchLimits, OpenUrl
from lamella.tools.read_file import ReadFile
from lamella.turns.heard import HeardTurns
from lamella.turns.services import RequestHeaders, no_headers

SHIPPED_TOOLS: tuple[Tool, ...] = (ReadFile(),)
"""The tools that need no store; replays have them."""


SEARCH_SECONDS = 30.0
"""The time limit of a search of knowledge bases, without the second model's time for restricted ones."""


def shipped_tools(store: Store, recall: Recall, knowledge: Knowledge, settings: Settings) -> tuple[Tool, ...]:
    """The tools of a server: files, knowledge bases, recall."""
    calls = settings.knowledge_calls_per_turn, settings.knowledge_calls_per_conversation
    limits = SearchLimits(*calls, settings.knowledge_result_tokens)
    searching = KnowledgeBaseSearch(knowledge.reader, limits, SEARCH_SECONDS + settings.restricted_timeout)
    if settings.recall == "off":
        return (ReadFile(store.turns), searching)
    everywhere = settings.recall == "user"
    found = SearchConversation(recall, everywhere=everywhere), ReadMessage(recall, everywhere=everywhere)
    return (ReadFile(store.turns), searching, *found)


def web_tools(settings: Settings) -> tuple[Tool, ...]:
    """The tools that access the web: none, unless enabled. Raises `ConfigurationError`."""
    policy = AddressPolicy(allowances(settings.open_url_allow))
    if not settings.open_url:
        return ()
    limits = FetchLimits()
    extractor = ProcessExtractor(ExtractionLimits(max_bytes=limits.max_bytes, seconds=30.0))
    return (OpenUrl(Fetcher(policy, limits=limits), extractor),)


PICTURE_LIMITS = FetchLimits(seconds=15.0, silence=5.0)
"""The limits of a picture at an address that a client of an agent sends."""

LEDGER_PAUSE = 0.25
"""Seconds between two writes of the ledger, so that changes within one answer are combined."""


@asynccontextmanager
async def kept_ledger(entries: CacheEntries, clock: Clock, *, shared: bool = False) -> AsyncIterator[Ledger]:
    """The ledger with the entries of an earlier process; stored periodically while the block runs, and at its end.

    It never makes a turn fail: entries that can't be stored are stored with the next change. If it is `shared`, each
    plan first reads what other processes stored, and a turn's entries are stored before it ends.
    """
    changed, storing = asyncio.Event(), asyncio.Lock()
    ledger = Ledger(await entries.live(clock.now()), changed.set)

    async def store() -> None:
        async with storing:
            changes = ledger.take()
            if not (changes.entries or changes.forgotten):
                return
            try:
                await entries.keep(changes.entries, changes.forgotten, clock.now())
            except StoreFailed as error:
                ledger.give_back(changes)
                log.warning("what the provider has cached is not stored", error=error.message)

    async def follow() -> None:
        while True:
            await changed.wait()
            await asyncio.sleep(LEDGER_PAUSE)
            changed.clear()
            await store()

    if shared:
        ledger.share(entries.find, store)
    following = asyncio.create_task(follow())
    try:
        yield ledger
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await store()


KEYS_FORGOTTEN_EVERY = 3_600.0
"""Seconds between two looks."""


async def forget_expired_keys(store: Store, clock: Clock, every: float = KEYS_FORGOTTEN_EVERY) -> None:
    """Remove expired keys, and ids of upstreams' responses, every `every` seconds until cancelled; failures are retried
    with the next run.
    """
    while True:
        try:
            await store.keys.forget_expired_keys(clock.now())
            await store.responses.forget_forwarded(clock.now())
        except StoreFailed as error:
            log.warning("expired Idempotency-Keys and response ids are not removed", error=error.message)
        await asyncio.sleep(every)


async def claim_files(uploads: FileStore, store: Store) -> bool:
    """Mark uploads as those of this database, or say that they seem to be another one's. Raises as `claim` does."""
    database = await store.directory.shared_value("id", token_bytes(16))
    if await claim(uploads, database.hex(), store.files.file_ids):
        return True
    log.warning("no upload there is known to this database: none is removed", files=len(await uploads.ids()))
    return False


async def sweep_files(uploads: FileStore, store: Store, age: float) -> None:
    """Remove uploads that belong to no row and are older than `age` seconds. Raises as `claim` does."""
    if await claim_files(uploads, store):
        await uploads.sweep(await store.files.file_ids(), age)


async def sweep_files_daily(uploads: FileStore, store: Store) -> None:
    """Remove them at once and then each day, until cancelled, but none of the last day: another server may just be
    storing it. What fails is tried again the next day.
    """
    while True:
        try:
            await sweep_files(uploads, store, DAY)
        except LamellaError as error:
            log.warning("uploads without a row are not removed", error=error.message)
        await asyncio.sleep(DAY)


log = structlog.get_logger()

LOCAL_OWNER = Caller(LOCAL_USER)
"""On loopback without accounts everything belongs to the one person at this machine."""


@dataclass(frozen=True, slots=True)
class App:
    """A whole backend over a data folder, used by the server's routes and by applications that embed it.

    `begin`, `run`, `packets` and `maps` run an `ExecutionRequest` in this process. Without an `identity` the local user
    asks.
    """

    settings: Settings
    store: Store
    chat: Chat
    sessions: Sessions
    recall: Recall
    models: Models
    intake: FileUploads
    uploads: FileStore
    registry: Registry
    mcp: McpServers
    layouts: Mapping[str, Layout]
    library: Library
    knowledge: Knowledge
    conversations: Conversations
    accounts: Accounts
    access: AccessRows
    bases: Bases
    clock: Clock
    ids: Ids
    gateway: GatewayParts
    agents: AgentModels

    async def begin(
        self, request: ExecutionRequest, identity: Identity = LOCAL_IDENTITY, *, key: str | None = None
    ) -> str:
        """Begin the turn of a request and return its id. A request without a conversation creates one.

        `key` works as an Idempotency-Key. Raises as `Sender.send` does, and `TurnInProgress` while the conversation
        answers. A refused request creates no conversation.
        """
        asked, caller = OutgoingMessage.of(request, key), identity.caller
        conversation_id = request.conversation_id
        if conversation_id is None:
            conversation_id = await self._conversation_for(request, caller, key)
        try:
            done = await self.chat.sender.send(identity, conversation_id, asked)
        except LamellaError:
            if request.conversation_id is None and key is None:
                await self.chat.delete(caller, conversation_id)
            raise
        if not isinstance(done, str):
            raise in_progress(None)
        return done

    async def _conversation_for(self, request: ExecutionRequest, caller: Caller, key: str | None) -> str:
        """A new conversation. Its key follows from the turn's, because a key belongs to one thing that is made."""
        for base_id in request.knowledge_base_ids:
            await self.access.base(caller, base_id)
        asked = NewConversation(model=request.models[0] if request.models else None)
        again = None if key is None else f"{key}#conversation"
        return (await self.conversations.create(caller, asked, again)).id

    async def packets(self, turn_id: str, identity: Identity = LOCAL_IDENTITY) -> AsyncIterator[AnyPacket]:
        """The packets of a turn, to its end. Raises `NotFound`."""
        async for batch in self.chat.stream(identity.caller, turn_id):
            for _, data in batch:
                yield decode_packet(data)

    async def run(
        self, request: ExecutionRequest, identity: Identity = LOCAL_IDENTITY, *, key: str | None = None
    ) -> TurnRecord:
        """Begin the turn of a request and return it when it has ended, finished or not. Raises as `begin` does."""
        turn_id = await self.begin(request, identity, key=key)
        async for _ in self.packets(turn_id, identity):
            pass
        return await self.store.turns.turn(identity.caller, turn_id)

    async def maps(self, turn_id: str, identity: Identity = LOCAL_IDENTITY) -> tuple[RequestMap, ...]:
        """The maps of the requests of a turn, in order. Raises `NotFound`."""
        caller, found = identity.caller, []
        for record in await self.store.requests.requests(caller, turn_id):
            segments = map_request(record, await self.store.requests.blocks(caller, record.id))
            found.append(RequestMap(record, segments, await self.sessions.why(caller, record.id)))
        return tuple(found)

    @property
    def is_working(self) -> bool:
        """Whether what goes on beside requests does: storing packets, and the jobs of conversations and files."""
        return self.chat.is_working and self.knowledge.ingestion.is_working

    async def delete_file(self, caller: Caller, file_id: str) -> None:
        """Remove a file and its bytes; raises `FileInUse` while a message or a project holds it."""
        await self.store.files.delete_file(caller, file_id)
        self.knowledge.ingestion.wake()
        try:
            await self.uploads.remove(file_id)
        except StoreFailed as error:
            log.error("the bytes of a removed file are left", file=file_id, error=error.message)
            raise StoreFailed(
                f"The file is removed, but its bytes are not yet: {error.message}",
                hint="They are removed within two days, once their storage can be reached.",
            ) from error


def database_path(data: Path) -> Path:
    """The path of a data folder's database."""
    return data / "lamella.db"


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    models: Models | None = None,
    tools: Sequence[Tool] | None = None,
    more_tools: Sequence[Tool] = (),
    layouts: Sequence[Layout] = (),
    blocks: Blocks | None = None,
    headers: RequestHeaders = no_headers,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[App]:
    """The app over its data folder: locked, migrated, recovered; closed when the block ends.

    A deployment may pass its own models and tools, more layouts, providers of dynamic context (`blocks`; default: the
    registered ones), headers for provider requests, a clock, and a source of ids. Without `tools` it has
    `shipped_tools`; `more_tools` are added in any case. Raises `ConfigurationError` for a layout name that is taken,
    and for an unusable provider.
    """
    if blocks is None:
        blocks = registered_blocks(settings.dynamic_context, seconds=settings.dynamic_context_seconds)
    registered_wires()  # one that can't be used is told at the start
    tables = by_name(*LAYOUTS.values(), *layouts, *registered_layouts())
    configs = read_servers(settings.mcp_servers, environment())
    mcp = McpServers(configs)
    more_tools = (*more_tools, *registered_tools(), *web_tools(settings))
    upstreams = read_upstreams(settings.upstreams, environment())
    async with AsyncExitStack() as stack:
        stack.enter_context(_locked_folder(settings.data, shared=_is_shared(settings)))
        clock = clock or SystemClock()
        store, ids = await _opened_store(stack, settings, clock, ids)
        served = await stack.enter_async_context(served_models(settings, models, store.access.protected))
        _check_settings(served.main, settings)
        ledger = await stack.enter_async_context(
            kept_ledger(SqlCacheEntries(store.database), clock, shared=_is_shared(settings))
        )
        own = _Own(settings, tables, blocks, headers, tools, more_tools, mcp, bool(configs))
        managed = _managed(settings, store, served, clock, ids, headers)
        gateway = await _gateway(stack, settings, upstreams, store, served, ledger, clock, ids, managed)
        together = await _together(stack, settings, store, ids, clock)
        app = _wired(own, store, served, ledger, gateway, clock, ids, together)
        if settings.files or _is_shared(settings):
            await claim_files(app.uploads, store)
        else:  # only this process stores in its data folder
            await sweep_files(app.uploads, store, 0.0)
        await stack.enter_async_context(mcp.open())
        await app.chat.start()
        stack.push_async_callback(app.chat.close)
        await stack.enter_async_context(_background(app, store, clock))
        yield app


@dataclass(frozen=True, slots=True)
class _Own:
    """What a deployment brings: its settings, and what it adds to what ships."""

    settings: Settings
    layouts: Mapping[str, Layout]
    blocks: Blocks
    headers: RequestHeaders
    tools: Sequence[Tool] | None
    more_tools: Sequence[Tool]
    mcp: McpServers
    configured_mcp: bool


async def _opened_store(stack: AsyncExitStack, settings: Settings, clock: Clock, ids: Ids | None) -> tuple[Store, Ids]:
    """The store over the locked folder, and the source of ids: `ids`, or one that continues after the stored ones."""
    own, given = RandomIds(clock), settings.database_url
    database = given.get_secret_value() if given is not None else database_path(settings.data)
    held = await stack.enter_async_context(held_database(database, shared=_is_shared(settings)))
    store = await stack.enter_async_context(await open_store(database, ids or own, full=settings.synchronous == "full"))
    if held is not None and isinstance(store.database, PostgresDatabase):
        held.lost = store.database.refuse
    own.follow(*await store.turns.newest_ids())
    if not _is_shared(settings):  # no other process has this database: who held these jobs has ended
        await store.jobs.release(clock.now())
        await store.replicas.clear()
    return store, ids or own


def _is_shared(settings: Settings) -> bool:
    """Whether several processes may serve the database. Raises `ConfigurationError` if they can't."""
    if settings.redis_url is None:
        return False
    if settings.database_url is None:
        raise ConfigurationError(
            "Several processes can't serve one database file.",
            hint="Set LAMELLA_DATABASE_URL to a PostgreSQL database, or leave LAMELLA_REDIS_URL out.",
            param="LAMELLA_REDIS_URL",
        )
    return True


@dataclass(frozen=True, slots=True)
class _Together:
    """What a process needs that serves a database together with others: itself among them, and their packets."""

    replica: Replica | None = None
    bus: StreamBus | None = None
    heard: HeardTurns | None = None


async def _together(stack: AsyncExitStack, settings: Settings, store: Store, ids: Ids, clock: Clock) -> _Together:
    """This process among several; nothing if it serves alone. Raises `ConfigurationError` for an unusable Redis."""
    if not _is_shared(settings) or settings.database_url is None or settings.redis_url is None:
        return _Together()
    if importlib.util.find_spec("redis") is None:
        raise ConfigurationError(
            "Redis needs the package redis.", hint="pip install 'lamella[redis]'", param="LAMELLA_REDIS_URL"
        )
    opened = importlib.import_module("lamella.turns.redis_bus").opened_bus
    bus = await stack.enter_async_context(opened(settings.redis_url.get_secret_value(), clock))
    url = database_url(settings.database_url.get_secret_value())
    # A beat that waited for its server would say nothing of now.
    database = PostgresDatabase.of(url, connections=2, patience=0.0)
    stack.push_async_callback(database.close)
    rows = ReplicaRows(database, ids)
    return _Together(Replica(rows, store.database, bus, ids, clock, settings.replica), bus, bus.heard)


def _managed(
    settings: Settings, store: Store, served: ServedModels, clock: Clock, ids: Ids, headers: RequestHeaders
) -> ManagedContext:
    """What keeps the histories of clients short that ask for it."""
    own = settings.model_copy(update={"compaction_when": settings.gateway_compaction_when})
    return ManagedContext(store, clock, ids, own, served.second, headers)


async def _gateway(
    stack: AsyncExitStack,
    settings: Settings,
    rows: tuple[UpstreamRow, ...],
    store: Store,
    served: ServedModels,
    ledger: Ledger,
    clock: Clock,
    ids: Ids,
    managed: ManagedContext,
) -> GatewayParts:
    """The parts of the gateway: its upstreams, and the recorder of its requests."""
    providers = served.main if isinstance(served.main, Providers) else None
    upstreams = Upstreams(rows, providers, served.table, settings.gateway_timeout, store.directory.group_names)
    stack.push_async_callback(upstreams.close)
    recorder = await stack.enter_async_context(recording(store, ledger, clock, ids, managed))
    return GatewayParts(
        upstreams.find,
        upstreams.issuer,
        recorder,
        managed,
        clock,
        served.table.facts,
        upstreams.names(),
        adds_markers=settings.gateway_markers,
        asks_for_usage=settings.gateway_usage,
        salt=await cache_salt(settings.data, store.directory) if settings.gateway_cache_keys == "user" else None,
        storage=LineStorage(settings.gateway_storage),
        refuses_loops=settings.gateway_loops == "refuse",
    )


def _wired(
    own: _Own,
    store: Store,
    served: ServedModels,
    ledger: Ledger,
    gateway: GatewayParts,
    clock: Clock,
    ids: Ids,
    together: _Together,
) -> App:
    """The parts of the app, put together. Nothing runs yet."""
    settings, models, embedder = own.settings, served.main, embedder_of(own.settings)
    recall = Recall(store, store.recall, embedder, store.jobs, clock)
    uploads = open_files(settings.files or str(settings.data / "files"))
    knowledge = knowledge_of(settings, store, uploads, embedder, served, clock, ids)
    gateway.recorder.index = recall.follow
    core = _core(own, store, served, ledger, recall, knowledge, clock, ids, together)
    registry, once, wake = core.services.registry, IdempotentCreation(store, clock), knowledge.ingestion.wake
    shipped = static_text(STATIC_SECTIONS)
    library = Library(
        store, models, registry, own.layouts, settings, core.services.counter, shipped, once, clock, ids, wake
    )
    extractor = ProcessExtractor(ExtractionLimits(max_bytes=settings.max_upload_bytes))
    unready = knowledge.restricted.answers.missing
    intake = FileUploads(store, uploads, extractor, clock, ids, settings.max_upload_bytes)
    conversations = Conversations(store, library, settings.marker_policy, once, clock, ids)
    fetcher = Fetcher(AddressPolicy(allowances(settings.open_url_allow)), limits=PICTURE_LIMITS, pictures=True)
    agents = AgentModels(
        store, conversations, core.chat, intake, fetcher, models, core.sessions, gateway.recorder, clock, ids
    )
    return App(
        settings=settings,
        store=store,
        chat=core.chat,
        sessions=core.sessions,
        recall=recall,
        models=models,
        intake=intake,
        uploads=uploads,
        registry=registry,
        mcp=own.mcp,
        layouts=own.layouts,
        library=library,
        knowledge=knowledge,
        conversations=conversations,
        accounts=Accounts(store.directory, clock, ids),
        access=store.access,
        bases=Bases(store.access, once, clock, ids, wake, unready, knowledge.terms.changed),
        clock=clock,
        ids=ids,
        gateway=gateway,
        agents=agents,
    )


def _core(
    own: _Own,
    store: Store,
    served: ServedModels,
    ledger: Ledger,
    recall: Recall,
    knowledge: Knowledge,
    clock: Clock,
    ids: Ids,
    together: _Together,
) -> Core:
    """The engine with the deployment's tools and blocks. The demonstration writes no titles."""
    offered = shipped_tools(store, recall, knowledge, own.settings) if own.tools is None else own.tools
    registry = Registry((*offered, *own.more_tools), (own.mcp,) if own.configured_mcp else ())
    services = build_services(store, registry, clock, ids, ledger, own.headers)
    contexts = DynamicContexts(store, own.blocks, KbMetaPrompts(knowledge.store, knowledge.access, knowledge.metadata))
    titles = own.settings.titles and not served.main.is_demonstration
    return build_core(
        services,
        served.main,
        own.settings.model_copy(update={"titles": titles}),
        jobs=store.jobs,
        layouts=own.layouts,
        summary_model=served.second,
        recall=recall,
        contexts=contexts,
        bus=together.bus,
        replica=together.replica,
        heard=together.heard,
    )


def _locked_folder(data: Path, *, shared: bool) -> FolderLock:
    """The data folder, created if missing and locked for this process. Raises `ConfigurationError`."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The data folder {data} can't be made: {error.strerror}.", hint="Set LAMELLA_DATA or --data."
        ) from error
    return FolderLock(data, shared=shared)


@asynccontextmanager
async def _background(app: App, store: Store, clock: Clock) -> AsyncIterator[None]:
    """Background work alongside turns, until the block ends."""
    removal = RetentionJob(store, app.settings.retention, clock)
    app.knowledge.start()
    await removal.start()
    works = (_warm(app.models), forget_expired_keys(store, clock), sweep_files_daily(app.uploads, store))
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await removal.close()
        await app.knowledge.close()


def _check_settings(models: Models, settings: Settings) -> None:
    """Log settings without effect, and facts that the table lacks for models in use.

    Raises `ConfigurationError` for an invalid fallback.
    """
    for variable, nearest in unknown_variables().items():
        log.warning("this variable is no setting", variable=variable, nearest=nearest)
    for variable, now in old_variables().items():
        why = "it has another name now" if now is not None else "there is no such setting"
        log.warning(f"this variable is not read: {why}", variable=variable, now=now)
    if models.is_demonstration and settings.model not in (None, models.default):
        log.warning("no provider is configured: this model is not asked", model=settings.model, answers=models.default)
    _warn_of(models.facts(models.default))
    if settings.fallback_model is None:
        return
    try:
        _warn_of(models.facts(settings.fallback_model))
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
