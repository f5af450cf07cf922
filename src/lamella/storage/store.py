"""`SqlStore`: every verb of the ports `Store`, `Jobs`, `Directory`, `Access` and `RestrictedUses` over one database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from lamella.core.access_ports import Access, Directory
from lamella.core.clock import SystemClock
from lamella.core.ids import Ids, RandomIds
from lamella.core.ports import Jobs, Store
from lamella.core.restricted import RestrictedUses
from lamella.storage.agents import AgentVerbs
from lamella.storage.api_keys import ApiKeyVerbs
from lamella.storage.audit import AuditVerbs
from lamella.storage.beginnings import BeginningVerbs
from lamella.storage.branches import BranchVerbs
from lamella.storage.conversations import ConversationVerbs
from lamella.storage.documents import DocumentVerbs
from lamella.storage.files import FileVerbs
from lamella.storage.groups import GroupVerbs
from lamella.storage.jobs import JobVerbs
from lamella.storage.journal import JournalVerbs
from lamella.storage.keys import KeyVerbs
from lamella.storage.knowledge_bases import KnowledgeBaseVerbs
from lamella.storage.migrate import migrate
from lamella.storage.notices import NoticeVerbs
from lamella.storage.projects import ProjectVerbs
from lamella.storage.queue import QueueVerbs
from lamella.storage.requests import RequestVerbs
from lamella.storage.restricted_uses import RestrictedUseVerbs
from lamella.storage.sessions import SessionVerbs
from lamella.storage.sqlite import sqlite_database, sqlite_url
from lamella.storage.surroundings import SurroundingsVerbs
from lamella.storage.system_prompts import SystemPromptVerbs
from lamella.storage.turns import TurnVerbs
from lamella.storage.users import UserVerbs


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
