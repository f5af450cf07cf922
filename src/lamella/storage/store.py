"""`Store`: the rows of one database, an object per subject."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from lamella.core.clock import SystemClock
from lamella.core.ids import Ids, RandomIds
from lamella.storage.bases import AccessRows
from lamella.storage.conversations.branches import BranchRows
from lamella.storage.conversations.conversations import ConversationRows
from lamella.storage.conversations.documents import FoundDocumentRows
from lamella.storage.conversations.histories import HistoryRows
from lamella.storage.conversations.lines import LineRows
from lamella.storage.conversations.queue import NoticeRows, QueueRows
from lamella.storage.conversations.requests import RequestRows
from lamella.storage.conversations.responses import ResponseRows
from lamella.storage.conversations.sessions import SessionRows
from lamella.storage.conversations.snapshots import SnapshotRows
from lamella.storage.conversations.threads import ThreadRows
from lamella.storage.conversations.turns import TurnRows
from lamella.storage.database import Database
from lamella.storage.directory import DirectoryRows
from lamella.storage.erasure import ErasureRows
from lamella.storage.files import FileRows
from lamella.storage.jobs import JobRows
from lamella.storage.keys import KeyRows
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.library import LibraryRows
from lamella.storage.migrate import database_url, migrate
from lamella.storage.postgresql import PostgresDatabase, check_lossless
from lamella.storage.recall.store import RecallIndex
from lamella.storage.replicas import ReplicaRows
from lamella.storage.retention import RetentionRows
from lamella.storage.scopes import Scopes
from lamella.storage.sqlite import SqliteDatabase


class Store:
    """The rows of a database by subject: `await store.turns.turn(caller, id)`. `ids` names what it makes itself.

    Every verb is one transaction and waits for nothing but the database. It raises `NotFound` for ids that don't exist
    or are somebody else's, `StoreFailed` when the database fails. Closing it, or leaving its block, closes the
    database.
    """

    def __init__(self, database: Database, ids: Ids) -> None:
        self.database = database
        self.ids = ids
        self.conversations = ConversationRows(database, ids)
        self.sessions = SessionRows(database, ids)
        self.branches = BranchRows(database, ids)
        self.snapshots = SnapshotRows(database, ids)
        self.turns = TurnRows(database, ids)
        self.requests = RequestRows(database, ids)
        self.responses = ResponseRows(database, ids)
        self.lines = LineRows(database, ids)
        self.histories = HistoryRows(database, ids)
        self.threads = ThreadRows(database, ids)
        self.queue = QueueRows(database, ids)
        self.notices = NoticeRows(database, ids)
        self.documents = FoundDocumentRows(database, ids)
        self.files = FileRows(database, ids)
        self.library = LibraryRows(database, ids)
        self.directory = DirectoryRows(database, ids)
        self.access = AccessRows(database, ids)
        self.jobs = JobRows(database, ids)
        self.keys = KeyRows(database, ids)
        self.erasure = ErasureRows(database, ids)
        self.retention = RetentionRows(database, ids)
        self.replicas = ReplicaRows(database, ids)
        scopes = Scopes()
        self.knowledge = KnowledgeStore(database, ids, scopes)
        self.recall = RecallIndex(database, scopes)

    async def close(self) -> None:
        """Close the database; every verb fails from now on."""
        await self.database.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open_store(url_or_path: str | Path, ids: Ids | None = None, *, full: bool = False) -> Store:
    """The store of a database file, or of a PostgreSQL database by its URL, brought up to date.

    `full`: what was committed survives a loss of power (`LAMELLA_SYNCHRONOUS`).

    `async with await open_store(…) as store` closes it again. Raises `ConfigurationError` for a database that this
    version cannot use, `StoreFailed` when it cannot be opened.
    """
    url = database_url(url_or_path)
    await migrate(url)
    is_file = url.get_backend_name() == "sqlite"
    database = SqliteDatabase.of(url, full=full) if is_file else PostgresDatabase.of(url)
    store = Store(database, ids or RandomIds(SystemClock()))
    if full and not is_file:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(store.close)
            await database.read(check_lossless)
            undo.pop_all()
    return store
