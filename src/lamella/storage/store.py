"""`SqlStore`: every verb of the ports `Store`, `Jobs`, `Directory`, `Access` and `RestrictedUses` over one database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from lamella.core.access_ports import Access, Directory, RestrictedUses
from lamella.core.clock import SystemClock
from lamella.core.ids import Ids, RandomIds
from lamella.core.ports import Jobs, Store
from lamella.storage.bases import KnowledgeBaseVerbs, RestrictedUseVerbs
from lamella.storage.conversations.beginnings import BeginningVerbs, SurroundingsVerbs
from lamella.storage.conversations.branches import BranchVerbs
from lamella.storage.conversations.conversations import ConversationVerbs
from lamella.storage.conversations.documents import DocumentVerbs
from lamella.storage.conversations.queue import NoticeVerbs, QueueVerbs
from lamella.storage.conversations.requests import RequestVerbs
from lamella.storage.conversations.sessions import SessionVerbs
from lamella.storage.conversations.turns import JournalVerbs, TurnVerbs
from lamella.storage.directory import ApiKeyVerbs, AuditVerbs, GroupVerbs, UserVerbs
from lamella.storage.files import FileVerbs
from lamella.storage.jobs import JobVerbs
from lamella.storage.keys import KeyVerbs
from lamella.storage.library import AgentVerbs, ProjectVerbs, SystemPromptVerbs
from lamella.storage.migrate import migrate
from lamella.storage.sqlite import sqlite_database, sqlite_url


class SqlStore(
    ConversationVerbs,
    SessionVerbs,
    AgentVerbs,
    ProjectVerbs,
    SystemPromptVerbs,
    SurroundingsVerbs,
    FileVerbs,
    DocumentVerbs,
    TurnVerbs,
    BranchVerbs,
    QueueVerbs,
    NoticeVerbs,
    RequestVerbs,
    BeginningVerbs,
    JournalVerbs,
    KeyVerbs,
    JobVerbs,
    UserVerbs,
    ApiKeyVerbs,
    GroupVerbs,
    KnowledgeBaseVerbs,
    RestrictedUseVerbs,
    AuditVerbs,
):
    """The store; `ids` names what it makes itself. Closing it, or leaving its block, closes the database."""

    async def __aenter__(self) -> SqlStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open_store(url_or_path: str | Path, ids: Ids | None = None) -> SqlStore:
    """The store of a database file, brought up to date; `async with await open_store(…) as store` closes it again.

    Raises `ConfigurationError` for a database that this version cannot use, `StoreFailed` when it cannot be opened.
    """
    url = sqlite_url(url_or_path)
    await migrate(url)
    return SqlStore(sqlite_database(url), ids or RandomIds(SystemClock()))


_: tuple[type[Store], type[Jobs], type[Directory], type[Access]] = (SqlStore, SqlStore, SqlStore, SqlStore)
__: type[RestrictedUses] = SqlStore
